"""A list of nodes as blocks of a workload: cut where a single activation crosses.

Values made of inputs without any parameter, such as attention masks, do not count as activations:
they cross with it. What lies between two cuts is one block, since its parts cannot run on different IPUs
without sending more than one activation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from podsim.models.block import Block, Parameter, Workload
from podsim.models.graph.node import Node, NodeList, Tensor
from podsim.models.graph.operators import FREE, mapper_of
from podsim.models.graph.products import is_product
from podsim.models.layers import GraphBuilder
from podsim.models.op import DTYPE_BYTES, DType, Op

_WORD_BYTES = 4
_RESIZES = {"Resize", "Upsample"}
"""Their constants are factors."""


def workload_of(graph: NodeList, dtype: DType) -> Workload:
    """The model for one batch.

    Args:
        graph: Nodes in order.
        dtype: Format of activations.
    """
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
        activation_dtype=dtype,
    )


def host_bytes(tensor: Tensor, dtype: DType) -> int:
    """What the host sends for an input: numbers in the format of activations, whole numbers in at most 32 bits. [B]"""
    size = DTYPE_BYTES[dtype] if tensor.is_float else min(tensor.item_bytes, _WORD_BYTES)
    return tensor.element_count * size


class _Flow:
    """Which tensors live from where to where; a view lives as long as what it is a view of."""

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
        for each in node.outputs:
            if node.operator in FREE and moving:
                self._roots[each.name] = self._root(moving[0])
                continue
            self._roots[each.name], self._made[each.name] = each, place
            if active:
                self._activations.add(each.name)

    def _root(self, tensor: Tensor) -> Tensor:
        return self._roots.get(tensor.name, tensor)

    def cuts(self) -> list[int]:
        """Nodes before which to cut: as late as can be before the next node with work or parameters."""
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
        """Nodes before which a single activation crosses."""
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
        """The nodes from `start` to before `end`."""
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
        """Elements made before each node and read by it or later ones; behind the last, those of the outputs."""
        changes: Counter[int] = Counter()
        for name, made in self._made.items():
            size, last = self._roots[name].element_count, self._last.get(name, -1)
            if made < last:
                changes[made + 1] += size
                changes[last + 1] -= size
        crossing = list(accumulate(changes[place] for place in range(len(self._nodes))))
        return [*crossing, sum(each.element_count for each in self._graph.outputs)]

    def _most_alive(self, start: int, end: int) -> int:
        """Most elements made in the block that are alive at once."""
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
        """A transposition for products of two activations, which arrange their operands themselves."""
        readers = self._readers.get(node.result.name, [])
        return node.operator == "Transpose" and bool(readers) and all(map(_multiplies_activations, readers))

    def _parameters(self, block: str, nodes: Iterable[Node], owners: dict[str, str]) -> Iterator[Parameter]:
        """Stored tensors of a block; those of an earlier one are tied to it."""
        names = sorted({name for node in nodes if node.operator not in _RESIZES for name in node.parameters})
        for name in names:
            owner = owners.setdefault(name, block)
            yield Parameter(name, self._graph.parameters[name], None if owner == block else f"{owner}/{name}")


def is_simulated(node: Node) -> bool:
    """Whether a node is known, with the shapes of all that it reads and makes."""
    return mapper_of(node) is not None and node.shapes_known


def _is_heavy(node: Node) -> bool:
    return is_product(node.operator) or (node.operator == "Gather" and bool(node.parameters))


def _multiplies_activations(node: Node) -> bool:
    return node.operator == "MatMul" and not any(each.constant for each in node.read)


def used(nodes: Sequence[Node], outputs: Iterable[Tensor]) -> tuple[Node, ...]:
    """Nodes that work on inputs and lead to an output."""
    wanted, kept = {each.name for each in outputs}, []
    for node in reversed(nodes):
        if not node.is_constant and any(each.name in wanted for each in node.outputs):
            wanted |= {each.name for each in node.read}
            kept.append(node)
    return tuple(reversed(kept))
