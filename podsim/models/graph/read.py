"""From an ONNX file to a workload, with a list of what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from podsim.errors import Problem, SpecError
from podsim.models.graph.blocks import is_simulated, used, workload_of
from podsim.models.graph.dimensions import set_dimensions
from podsim.models.graph.graph import Graph, Unmapped
from podsim.models.graph.node import Node, NodeList
from podsim.models.graph.onnx_file import OnnxFile, open_onnx, printable
from podsim.models.graph.operators import mapper_of
from podsim.models.graph.products import is_product, unmapped_flop
from podsim.models.op import DType
from podsim.scenario.wording import counted
from podsim.watch import Watch, silent


def read_graph(
    path: str | Path, dimensions: Mapping[str, int] | None = None, dtype: DType = "fp16", watch: Watch = silent
) -> Graph:
    """Read an ONNX file. Its weights are not needed, only their shapes.

    Args:
        path: The file.
        dimensions: Sizes of the dimensions that it leaves open, by name.
        dtype: Format of activations.
        watch: Passes on the names of portions of its nodes.

    Raises:
        PodsimError: The package `onnx` is not installed.
        SpecError: The file is wrong, leaves dimensions open, has nodes that contradict what they read, or has
            products whose shapes cannot be told.
    """
    file = open_onnx(Path(path))
    sizes, graph = _node_list(file, dimensions or {}, watch)
    _check_products(file.name, graph.nodes)
    workload = workload_of(graph, dtype)
    return Graph(
        workload=workload,
        source=(file.name, file.sha256),
        node_count=len(graph.nodes),
        dimensions=tuple(sizes.items()),
        inputs=tuple((each.name, each.shape or ()) for each in graph.inputs),
        unmapped=tuple(_unmapped(graph.nodes, workload.forward_flop)),
        notes=file.notes,
    )


def _node_list(file: OnnxFile, dimensions: Mapping[str, int], watch: Watch) -> tuple[dict[str, int], NodeList]:
    from podsim.models.graph.kinds import inputs_of, refuse_other_inputs
    from podsim.models.graph.shapes import Shapes

    inputs = inputs_of(file.model.graph)
    refuse_other_inputs(inputs, file.name)
    sizes = set_dimensions(inputs, dimensions, file.name)
    shapes = Shapes(file.model, file.name)
    nodes = list(shapes.nodes(watch))
    outputs = [shapes[each.name] for each in file.model.graph.output if each.name in shapes]
    kept = used(nodes, outputs)
    if not kept:
        what = "no operator of the graph leads from an input to an output"
        raise SpecError([Problem(file.name, "", what, "export the model again")])
    name = printable(file.model.graph.name) or Path(file.name).stem
    tensors = tuple(shapes[each.name] for each in inputs)
    return sizes, NodeList(name, tensors, tuple(outputs), kept, shapes.parameters)


def _check_products(name: str, nodes: Sequence[Node]) -> None:
    """Refuse a graph whose work cannot be told: a result without it would mislead."""
    for node in nodes:
        if any(map(is_product, node.inner_operators)):
            what = f"{node.operator} `{node.name}` has products in its inner graph; how often they run is not known"
            do = "export the model without control flow, for one fixed case"
            raise SpecError([Problem(name, "", what, do)])
    lost = [node for node in nodes if is_product(node.operator) and not node.shapes_known]
    if not lost:
        return
    first = next(node for node in nodes if node.doubt)
    what = (
        f"shapes are not known behind {first.operator} `{first.name}`: {first.doubt}; "
        f"the cost of {counted(len(lost), 'product')} cannot be told, "
        f"the first of them {lost[0].operator} `{lost[0].name}`"
    )
    do = "export the model with standard operators and fixed shapes, without fused or data-dependent ones in front"
    raise SpecError([Problem(name, "", what, do)])


def _unmapped(nodes: Sequence[Node], mapped_flop: int) -> Iterator[Unmapped]:
    """Operators that are not simulated, the largest first."""
    left_out = sorted((node for node in nodes if not is_simulated(node)), key=lambda node: (node.operator, _why(node)))
    flop = mapped_flop + sum(map(unmapped_flop, left_out))
    elements = sum(each.element_count for node in nodes for each in node.outputs)
    rows = []
    for (operator, reason), group in groupby(left_out, key=lambda node: (node.operator, _why(node))):
        members = list(group)
        work = sum(map(unmapped_flop, members))
        size = sum(each.element_count for node in members for each in node.outputs)
        share, unit = (work / flop, "FLOP") if work else (size / (elements or 1), "elements" if size else "")
        rows.append(Unmapped(operator, len(members), reason, share, unit))
    yield from sorted(rows, key=lambda row: (row.unit != "FLOP", -row.share, row.operator))


def _why(node: Node) -> str:
    """Why an operator that podsim knows is not simulated, or one that it does not has no shape."""
    if node.shapes_known or (mapper_of(node) is None and not node.doubt):
        return ""
    return node.doubt or "the shape of what it reads is not known"
