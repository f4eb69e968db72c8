"""A graph without its file: tensors with shapes, and the nodes between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]

LARGEST_DIMENSION = 10**9
"""Largest size of an open dimension of a graph."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """What one node hands to others, an input of the graph, or a constant."""

    name: str
    shape: Shape | None  # its shape; None if it depends on data or cannot be told
    is_float: bool = True  # whether it holds floating-point numbers
    item_bytes: int = 4  # bytes of an element in the file [B]
    constant: bool = False  # whether it is known before any input is
    parameters: frozenset[str] = frozenset()  # names of the stored weights that a constant is made of

    @property
    def element_count(self) -> int:
        """Elements; 0 if the shape is not known."""
        return 0 if self.shape is None else math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the graph."""

    name: str  # unique, without characters that cannot be printed
    operator: str  # for example `Conv`; that of a domain of its own with the domain in front
    version: int  # version of the operator set
    inputs: tuple[Tensor | None, ...]  # what it reads, in order; None where an optional input is left out
    outputs: tuple[Tensor, ...]
    captured: tuple[Tensor, ...] = ()  # what its inner graphs read from outside beside the inputs
    attributes: Mapping[str, Any] = field(default_factory=dict)  # numbers, texts and lists of them
    # values of inputs that are a constant number, by position
    constants: Mapping[int, float] = field(default_factory=dict)
    inner_operators: tuple[str, ...] = ()
    doubt: str = ""  # why shapes of outputs are not known, if they are not

    @property
    def read(self) -> tuple[Tensor, ...]:
        """All tensors that the node reads."""
        return tuple(each for each in self.inputs if each is not None) + self.captured

    @property
    def is_constant(self) -> bool:
        """Whether its results are known before any input is."""
        return all(output.constant for output in self.outputs)

    @property
    def parameters(self) -> frozenset[str]:
        """Stored tensors that it works with."""
        return frozenset(name for each in self.read if each.constant for name in each.parameters)

    @property
    def shapes_known(self) -> bool:
        """Whether everything that it reads and makes has a shape."""
        return all(each.shape is not None for each in (*self.read, *self.outputs))

    @property
    def source(self) -> Tensor:
        """Its first input."""
        first = self.inputs[0]
        assert first is not None
        return first

    @property
    def result(self) -> Tensor:
        """Its first output."""
        return self.outputs[0]

    def optional(self, place: int) -> Tensor | None:
        """An input that may be left out."""
        return self.inputs[place] if place < len(self.inputs) else None


@dataclass(frozen=True, slots=True)
class NodeList:
    """A graph in an order in which it can be run."""

    name: str
    inputs: tuple[Tensor, ...]  # what the host sends
    outputs: tuple[Tensor, ...]  # what goes back
    nodes: tuple[Node, ...]  # those that work on inputs; what depends on constants alone is left out
    parameters: Mapping[str, Shape]  # stored weights, by name: tensors of fractional or narrow numbers
