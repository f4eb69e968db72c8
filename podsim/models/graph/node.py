"""Graphs independent of their file format: nodes, and tensors with shapes."""

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
    """A result of a node, an input of the graph, or a constant."""

    name: str
    shape: Shape | None  # shape; None if it depends on data or is unknown
    is_float: bool = True  # True if elements are floating-point numbers
    item_bytes: int = 4  # bytes of an element in the file [B]
    constant: bool = False  # True if the value does not depend on inputs of the graph
    parameters: frozenset[str] = frozenset()  # names of the stored weights from which a constant is computed

    @property
    def element_count(self) -> int:
        """Number of elements; 0 if the shape is not known."""
        return 0 if self.shape is None else math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of the graph."""

    name: str  # unique name of printable characters
    operator: str  # for example `Conv`; with the prefix `DOMAIN.` outside the standard domain
    version: int  # version of the operator set
    inputs: tuple[Tensor | None, ...]  # inputs in order; None for an omitted optional input
    outputs: tuple[Tensor, ...]
    captured: tuple[Tensor, ...] = ()  # further tensors that inner graphs read
    attributes: Mapping[str, Any] = field(default_factory=dict)  # numbers, texts and lists of them
    # values of inputs that are a constant number, by position
    constants: Mapping[int, float] = field(default_factory=dict)
    inner_operators: tuple[str, ...] = ()  # operators of inner graphs
    unknown_shape: str = ""  # reason for unknown shapes of outputs, if any

    @property
    def read(self) -> tuple[Tensor, ...]:
        """Tensors that the node reads."""
        return tuple(each for each in self.inputs if each is not None) + self.captured

    @property
    def is_constant(self) -> bool:
        """True if no result depends on inputs of the graph."""
        return all(output.constant for output in self.outputs)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of stored tensors among the node's inputs."""
        return frozenset(name for each in self.read if each.constant for name in each.parameters)

    @property
    def shapes_known(self) -> bool:
        """True if the shapes of all inputs and outputs are known."""
        return all(each.shape is not None for each in (*self.read, *self.outputs))

    @property
    def source(self) -> Tensor:
        """First input."""
        first = self.inputs[0]
        assert first is not None
        return first

    @property
    def result(self) -> Tensor:
        """First output."""
        return self.outputs[0]

    def optional(self, place: int) -> Tensor | None:
        """Return an input that may be omitted, or None."""
        return self.inputs[place] if place < len(self.inputs) else None


@dataclass(frozen=True, slots=True)
class NodeList:
    """A graph with its nodes in a possible order of execution."""

    name: str
    inputs: tuple[Tensor, ...]  # tensors that the host sends
    outputs: tuple[Tensor, ...]  # tensors that return to the host
    nodes: tuple[Node, ...]  # nodes that depend on inputs; others are left out
    parameters: Mapping[str, Shape]  # shapes of stored weights (floating-point or 8-bit tensors) by name
