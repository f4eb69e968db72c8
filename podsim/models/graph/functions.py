"""Local functions of an ONNX file, written out where they are called.

What that makes is counted beforehand: functions that each call the next one twice double at every level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from podsim.errors import SpecError
from podsim.models.graph.onnx_file import printable, problem
from podsim.models.graph.proto import inner_nodes

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto

MOST_NODES = 500_000
_MOST_BYTES = 2**30
_DEEPEST = 100
_EXPORT = "export the model again, without local functions (of PyTorch: `export_modules_as_functions=False`)"

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Size:
    """What a call becomes.

    Attributes:
        nodes: Nodes.
        byte_count: Their size in a file. [B]
    """

    nodes: int
    byte_count: int


def without_functions(model: ModelProto, file: str) -> ModelProto:
    """The same model without local functions.

    Args:
        model: The model.
        file: Name of its file, for messages.

    Raises:
        SpecError: A function calls itself, calls are nested too deeply, or too much would come of them.
    """
    if not model.functions:
        return model
    counted = _Counter(model.functions, file)
    size = counted.size(model.graph.node, ())
    if size.nodes > MOST_NODES or size.byte_count > _MOST_BYTES:
        what = f"its local functions, written out where they are called, make {_words(size)}"
        raise _problem(file, f"{what}; at most {_words(_Size(MOST_NODES, _MOST_BYTES))} are read")
    from onnx.inliner import inline_local_functions

    try:
        return inline_local_functions(model)
    # The library tells what it cannot write out by errors of many kinds.
    except Exception as error:
        reason = printable(str(error).split("\n")[0])[:200]
        raise _problem(file, f"its local functions cannot be written out: {reason}") from None


def _words(size: _Size) -> str:
    return f"{size.nodes:,} nodes of {size.byte_count / 1e6:,.0f} MB"


def _problem(file: str, what: str) -> SpecError:
    return problem(file, what, _EXPORT)


class _Counter:
    """Counts what calls become, each function once."""

    def __init__(self, functions: Iterable[FunctionProto], file: str) -> None:
        self._functions = {(each.domain, each.name): each for each in functions}
        self._known: dict[_Key, _Size] = {}
        self._file = file

    def size(self, nodes: Iterable[NodeProto], within: tuple[_Key, ...]) -> _Size:
        """Nodes with all that they call, in functions that call each other."""
        count = byte_count = 0
        for node in _with_inner(nodes):
            called = self._called((node.domain, node.op_type), within)
            count += called.nodes if called else 1
            byte_count += called.byte_count if called else node.ByteSize()
        return _Size(count, byte_count)

    def _called(self, key: _Key, within: tuple[_Key, ...]) -> _Size | None:
        """What a call becomes; None if it is not of a local function."""
        if key not in self._functions:
            return None
        if key in within:
            ring = " -> ".join(f"`{printable(name)}`" for _, name in (*within[within.index(key) :], key))
            raise _problem(self._file, f"a local function calls itself: {ring}")
        if len(within) == _DEEPEST:
            raise _problem(self._file, f"calls of local functions are nested more than {_DEEPEST} deep")
        if key not in self._known:
            self._known[key] = self.size(self._functions[key].node, (*within, key))
        return self._known[key]


def _with_inner(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        yield from inner_nodes(node)
