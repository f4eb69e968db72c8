"""Conversion of an ONNX file, or the shapes of a PyTorch model, to a workload, with a list of unmapped operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from podsim.errors import Problem, SpecError
from podsim.escaped import printable
from podsim.models.block import Block, HostTensors, Parameter, Workload
from podsim.models.graph.node import Node, NodeList, Tensor
from podsim.models.graph.operators import FREE, is_product, mapper_of, unmapped_flop
from podsim.models.graph.torch_shapes import SUFFIX, read_shapes
from podsim.models.layers import GraphBuilder
from podsim.models.op import DTYPE_BYTES, DType, Op
from podsim.packages import optional
from podsim.scenario.wording import counted
from podsim.watch import Watch, silent

if TYPE_CHECKING:
    from podsim.models.graph.onnx_file import OnnxFile


@dataclass(frozen=True, slots=True)
class Unmapped:
    """An operator that is not simulated."""

    operator: str
    count: int  # number of occurrences
    reason: str  # reason; empty for an unknown operator
    share: float  # share of the graph's work, or of its elements [1]
    unit: str  # unit of the share: `FLOP` or `elements`; empty if sizes are unknown

    def __str__(self) -> str:
        """Return a description of the operator.

        >>> str(Unmapped("TopK", 2, "", 0.012, "elements"))
        'TopK (2 times, about 1.2 % of elements)'
        """
        times = "once" if self.count == 1 else f"{self.count} times"
        part = f", about {100 * self.share:.2g} % of {self.unit}" if self.unit else ", size not known"
        return f"{self.operator} ({times}{part}{f'; {self.reason}' if self.reason else ''})"


@dataclass(frozen=True, slots=True)
class Graph:
    """A model read from a file."""

    workload: Workload
    source: tuple[str, str]  # path and SHA-256 of the file
    node_count: int  # number of operators that depend on inputs
    dimensions: tuple[tuple[str, int], ...]  # open dimensions of the file, with their given sizes
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    unmapped: tuple[Unmapped, ...]  # operators that are not simulated
    notes: tuple[str, ...]  # further notes for the user

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about results for the graph."""
        return tuple(self._warnings())

    def _warnings(self) -> Iterator[str]:
        if self.unmapped:
            count = sum(each.count for each in self.unmapped)
            listed = "; ".join(map(str, self.unmapped))
            verbs = ("is", "costs") if count == 1 else ("are", "cost")
            whole = counted(self.node_count, "operator")
            what = f"{count} of {whole} {verbs[0]} not simulated and {verbs[1]} nothing"
            yield f"{what}, so that times are lower bounds: {listed}"
        yield from self.notes


_WORD_BYTES = 4
_RESIZES = {"Resize", "Upsample"}
"""Operators whose constants are factors, not weights."""


def workload_of(graph: NodeList, dtype: DType) -> Workload:
    """Return the workload of a graph for one batch."""
    flow = _Flow(graph)
    starts = [0, *flow.cuts(), len(graph.nodes)]
    owners: dict[str, str] = {}
    blocks = [
        flow.block(f"block{number}", start, end, dtype, owners) for number, (start, end) in enumerate(pairwise(starts))
    ]
    return Workload(
        name=graph.name,
        blocks={block.name: block for block in blocks},
        order=tuple(block.name for block in blocks),
        samples_per_micro_batch=next((each.shape[0] for each in graph.inputs if each.shape), 1),
        host_input_bytes=sum(host_bytes(each, dtype) for each in graph.inputs),
        host_tensors=HostTensors(inputs=len(graph.inputs), results=len(graph.outputs)),
        activation_dtype=dtype,
    )


def host_bytes(tensor: Tensor, dtype: DType) -> int:
    """Return the bytes of an input from the host. [B]

    Floating-point numbers have the format of activations, integers at most 32 bits.
    """
    size = DTYPE_BYTES[dtype] if tensor.is_float else min(tensor.item_bytes, _WORD_BYTES)
    return tensor.element_count * size


class _Flow:
    """Lifetimes of tensors in a graph; a tensor lives as long as its views."""

    def __init__(self, graph: NodeList) -> None:
        self._graph, self._nodes = graph, graph.nodes
        self._roots: dict[str, Tensor] = {each.name: each for each in graph.inputs}
        self._made: dict[str, int] = dict.fromkeys(self._roots, -1)
        self._last: dict[str, int] = {}
        self._activations: set[str] = set()
        self._readers: dict[str, list[Node]] = {}
        for place, node in enumerate(self._nodes):
            self._enter(place, node)
        for output in graph.outputs:
            self._last.setdefault(self._root(output).name, len(self._nodes) - 1)
        self._made_at: dict[int, list[str]] = {}
        for name, made in self._made.items():
            self._made_at.setdefault(made, []).append(name)
        self._crossing = self._elements_crossing()

    def _enter(self, place: int, node: Node) -> None:
        moving = [each for each in node.read if not each.constant]
        for each in moving:
            self._last[self._root(each).name] = place
            self._readers.setdefault(each.name, []).append(node)
        active = any(self._root(each).name in self._activations for each in moving) or bool(node.parameters)
        for output in node.outputs:
            if node.operator in FREE and moving:
                self._roots[output.name] = self._root(moving[0])
                continue
            self._roots[output.name], self._made[output.name] = output, place
            if active:
                self._activations.add(output.name)

    def _root(self, tensor: Tensor) -> Tensor:
        return self._roots.get(tensor.name, tensor)

    def cuts(self) -> list[int]:
        """Return the places of cuts between blocks: the last legal ones before nodes with work or parameters."""
        legal = self._legal()
        starts = [0, *legal, len(self._nodes)]
        heavy = [any(map(_is_heavy, self._nodes[start:end])) for start, end in pairwise(starts)]
        cuts, full = [], False
        for start, is_heavy in zip(starts, heavy, strict=False):
            if full and is_heavy:
                cuts.append(start)
            full = full or is_heavy
        return cuts

    def _legal(self) -> list[int]:
        """Return the places where a single activation passes from earlier to later nodes."""
        changes: Counter[int] = Counter()
        for name in self._activations:
            if self._made[name] < self._last.get(name, -1):
                changes[self._made[name] + 1] += 1
                changes[self._last[name] + 1] -= 1
        places, crossing = [], 0
        for place in range(1, len(self._nodes)):
            crossing += changes[place]
            if crossing == 1:
                places.append(place)
        return places

    def block(self, name: str, start: int, end: int, dtype: DType, owners: dict[str, str]) -> Block:
        """Return the block of the nodes from `start` to before `end`."""
        nodes = self._nodes[start:end]
        return Block(
            name=name,
            forward=tuple(op for node in nodes for op in self._ops(node, dtype)),
            backward=(),
            parameters=tuple(self._parameters(name, nodes, owners)),
            output_elements=self._crossing[end],
            saved_elements=0,
            live_elements=self._most_alive(start, end),
        )

    def _elements_crossing(self) -> list[int]:
        """Return the number of elements alive across each place, and at the end the outputs' number."""
        changes: Counter[int] = Counter()
        for name, made in self._made.items():
            size, last = self._roots[name].element_count, self._last.get(name, -1)
            if made < last:
                changes[made + 1] += size
                changes[last + 1] -= size
        crossing = list(accumulate(changes[place] for place in range(len(self._nodes))))
        return [*crossing, sum(output.element_count for output in self._graph.outputs)]

    def _most_alive(self, start: int, end: int) -> int:
        """Return the maximum number of the block's elements that are alive at once."""
        changes: Counter[int] = Counter()
        for made in range(start, end):
            for name in self._made_at.get(made, ()):
                size = self._roots[name].element_count
                changes[made] += size
                changes[max(made, self._last.get(name, made)) + 1] -= size
        return max(accumulate(changes[place] for place in range(start, end)), default=0)

    def _ops(self, node: Node, dtype: DType) -> tuple[Op, ...]:
        mapper = mapper_of(node)
        if mapper is None or not is_simulated(node) or not node.result.element_count or self._is_covered(node):
            return ()
        g = GraphBuilder(node.name, dtype)
        mapper(node, g)
        return g.ops()

    def _is_covered(self, node: Node) -> bool:
        """Return True for a transposition before products of activations, which rearrange their operands anyway."""
        readers = self._readers.get(node.result.name, [])
        return node.operator == "Transpose" and bool(readers) and all(map(_multiplies_activations, readers))

    def _parameters(self, block: str, nodes: Iterable[Node], owners: dict[str, str]) -> Iterator[Parameter]:
        """Yield the parameters of a block; a tensor of an earlier block is tied to that block."""
        names = sorted({name for node in nodes if node.operator not in _RESIZES for name in node.parameters})
        for name in names:
            owner = owners.setdefault(name, block)
            yield Parameter(name, self._graph.parameters[name], None if owner == block else f"{owner}/{name}")


def is_simulated(node: Node) -> bool:
    """Return True if the operator and the shapes of its inputs and outputs are known."""
    return mapper_of(node) is not None and node.shapes_known


def _is_heavy(node: Node) -> bool:
    return is_product(node.operator) or (node.operator == "Gather" and bool(node.parameters))


def _multiplies_activations(node: Node) -> bool:
    return node.operator == "MatMul" and not any(each.constant for each in node.read)


def leading_nodes(nodes: Sequence[Node], outputs: Iterable[Tensor]) -> tuple[Node, ...]:
    """Return the nodes that depend on inputs and lead to an output."""
    wanted, kept = {output.name for output in outputs}, []
    for node in reversed(nodes):
        if not node.is_constant and any(output.name in wanted for output in node.outputs):
            wanted |= {each.name for each in node.read}
            kept.append(node)
    return tuple(reversed(kept))


def read_graph(
    path: str | Path, dimensions: Mapping[str, int] | None = None, dtype: DType = "fp16", watch: Watch = silent
) -> Graph:
    """Read an ONNX file, or the shapes of a PyTorch model (`.shapes.json`); only shapes of weights are needed."""
    if str(path).endswith(SUFFIX):
        name, notes, sizes = printable(str(path)), tuple[str, ...](), dict[str, int]()
        digest, graph = read_shapes(Path(path))
        if dimensions:
            what = "the file leaves no dimension open"
            raise SpecError([Problem(name, "", what, "leave `dimensions` out, or export the model for other shapes")])
        graph = replace(graph, nodes=_checked_nodes(name, graph.nodes, graph.outputs))
    else:
        optional("onnx", "reading ONNX files needs", where=printable(str(path)))
        from podsim.models.graph.onnx_file import open_onnx

        file = open_onnx(Path(path))
        name, digest, notes = file.name, file.sha256, file.notes
        sizes, graph = _node_list(file, dimensions or {}, watch)
    _check_products(name, graph.nodes)
    _check_known(name, graph.nodes)
    workload = workload_of(graph, dtype)
    return Graph(
        workload=workload,
        source=(name, digest),
        node_count=len(graph.nodes),
        dimensions=tuple(sizes.items()),
        inputs=tuple((each.name, each.shape or ()) for each in graph.inputs),
        unmapped=tuple(_unmapped(graph.nodes, workload.forward_flop)),
        notes=notes,
    )


def _checked_nodes(file: str, nodes: Sequence[Node], outputs: Sequence[Tensor]) -> tuple[Node, ...]:
    """Return the nodes that depend on inputs and lead to an output; raise if there are none."""
    kept = leading_nodes(nodes, outputs)
    if not kept:
        what = "no operator of the graph leads from an input to an output"
        raise SpecError([Problem(file, "", what, "export the model again")])
    return kept


def _node_list(file: OnnxFile, dimensions: Mapping[str, int], watch: Watch) -> tuple[dict[str, int], NodeList]:
    from podsim.models.graph.onnx_file import inputs_of, refuse_other_inputs, set_dimensions
    from podsim.models.graph.shapes import Shapes

    inputs = inputs_of(file.model.graph)
    refuse_other_inputs(inputs, file.name)
    sizes = set_dimensions(inputs, dimensions, file.name)
    shapes = Shapes(file.model, file.name)
    nodes = list(shapes.nodes(watch))
    outputs = [shapes[each.name] for each in file.model.graph.output if each.name in shapes]
    kept = _checked_nodes(file.name, nodes, outputs)
    name = printable(file.model.graph.name) or Path(file.name).stem
    tensors = tuple(shapes[each.name] for each in inputs)
    return sizes, NodeList(name, tensors, tuple(outputs), kept, shapes.parameters)


def _check_products(name: str, nodes: Sequence[Node]) -> None:
    """Refuse a graph with products of unknown work, since a result without this work would mislead."""
    for node in nodes:
        if any(map(is_product, node.inner_operators)):
            what = f"{node.operator} `{node.name}` has products in its inner graph; how often they run is not known"
            do = "export the model without control flow, for one fixed case"
            raise SpecError([Problem(name, "", what, do)])
    lost = [node for node in nodes if is_product(node.operator) and not node.shapes_known]
    if not lost:
        return
    first = next(node for node in nodes if node.unknown_shape)
    what = (
        f"shapes are not known behind {first.operator} `{first.name}`: {first.unknown_shape}; "
        f"the cost of {counted(len(lost), 'product')} cannot be told, "
        f"the first of them {lost[0].operator} `{lost[0].name}`"
    )
    do = "export the model with standard operators and fixed shapes, without fused or data-dependent ones in front"
    raise SpecError([Problem(name, "", what, do)])


def _check_known(name: str, nodes: Sequence[Node]) -> None:
    """Refuse a graph whose unknown operators alone would take time."""
    unknown = [node for node in nodes if not is_simulated(node)]
    if unknown and all(node.operator in FREE for node in nodes if is_simulated(node)):
        listed = ", ".join(f"`{operator}`" for operator in dict.fromkeys(node.operator for node in unknown))
        what = f"no operator that takes time is known, so that nothing can be predicted; not known: {listed}"
        raise SpecError([Problem(name, "", what, "export the model with standard operators")])


def _unmapped(nodes: Sequence[Node], mapped_flop: int) -> Iterator[Unmapped]:
    """Yield the operators that are not simulated, the largest first."""
    left_out = sorted((node for node in nodes if not is_simulated(node)), key=lambda node: (node.operator, _why(node)))
    flop = mapped_flop + sum(map(unmapped_flop, left_out))
    elements = sum(output.element_count for node in nodes for output in node.outputs)
    rows = []
    for (operator, reason), group in groupby(left_out, key=lambda node: (node.operator, _why(node))):
        members = list(group)
        work = sum(map(unmapped_flop, members))
        size = sum(output.element_count for node in members for output in node.outputs)
        share, unit = (work / flop, "FLOP") if work else (size / (elements or 1), "elements" if size else "")
        rows.append(Unmapped(operator, len(members), reason, share, unit))
    yield from sorted(rows, key=lambda row: (row.unit != "FLOP", -row.share, row.operator))


def _why(node: Node) -> str:
    """Return why a known operator is not simulated, or why the shapes of an unknown one are missing."""
    if node.shapes_known or (mapper_of(node) is None and not node.unknown_shape):
        return ""
    return node.unknown_shape or "the shape of what it reads is not known"
