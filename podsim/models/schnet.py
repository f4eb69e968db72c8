"""SchNet: messages along the edges of molecular graphs, whose nearest neighbours are computed on the device.

A block computes a filter from the length of every edge, multiplies it with the row of the source atom, and sums the
products at the target atom. Positions have no gradient. Source: [schutt2018], with the operations of [hydronet_gnn].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podsim.models.block import Block, HostTensors, Parameter, Workload
from podsim.models.layers import Formats, GraphBuilder, linear, linear_backward
from podsim.models.op import MatMul, TopK

_AXES = 3
_EMBEDDINGS = 100
"""Number of rows of the atom embedding, indexed by atomic number."""
# Passes of log1p(exp(-|x|)) + max(x, 0) - ln 2; PyTorch's own softplus adds a threshold above which it returns x.
_SOFTPLUS = ("abs", "negate", "exp", "log1p", "max", "add", "sub")
_THRESHOLD = ("compare", "select")
# Gradients of log1p, exp, negation, modulus, maximum and their sum; PyTorch's own is the sigmoid, up to the threshold.
_SOFTPLUS_GRADIENT = ("add", "divide", "mul", "negate", "sign", "mul", "compare", "mul", "add")
_SLOW_GRADIENT = ("sigmoid", "mul", *_THRESHOLD)
# Elementwise functions with the cost of another vertex.
_LIKE = {"negate": "scale"}
_EDGE_TENSORS, _ATOM_TENSORS = 9, 6
"""Numbers of tensors over edges and over atoms that a block saves for its backward pass."""


@dataclass(frozen=True, slots=True)
class SchNetShape:
    """Dimensions of SchNet and of the graphs of a micro-batch."""

    features: int  # features of atoms, and of the filters of edges
    blocks: int
    gaussians: int  # Gaussian functions that expand a distance
    neighbours: int  # edges that end at each atom
    atoms: int  # atoms of a micro-batch, padding included
    graphs: int  # places for graphs in a micro-batch, empty ones included
    fast_softplus: bool = True  # True for a softplus without a comparison with a threshold

    @property
    def edges(self) -> int:
        """Number of edges of a micro-batch."""
        return self.atoms * self.neighbours


@dataclass(frozen=True, slots=True)
class InteractionShape:
    """Dimensions of an interaction block."""

    atoms: int
    features: int  # features of atoms and edges
    edges: int
    gaussians: int  # Gaussian functions that expand a distance
    fast_softplus: bool = True  # True for a softplus without a comparison with a threshold
    sorted_edges: bool = False  # True if distances have the layout of a sort's results


def schnet(
    shape: SchNetShape, formats: Formats, samples: float, host_input_bytes: int, host_tensors: HostTensors
) -> Workload:
    """Return the training graph of one micro-batch; `host_input_bytes` is 0 for synthetic data. [B]"""
    extents = shape.atoms, shape.features, shape.edges, shape.gaussians
    interaction = InteractionShape(*extents, shape.fast_softplus, sorted_edges=True)
    one = interaction_block(interaction, formats)
    blocks = (
        _neighbours(shape, formats),
        _embedding(shape, formats),
        *(replace(one, name=f"{one.name}{number}") for number in range(1, shape.blocks + 1)),
        _head(shape, formats),
    )
    return Workload(
        name="SchNet",
        blocks={block.name: block for block in blocks},
        order=tuple(block.name for block in blocks),
        samples_per_micro_batch=samples,
        host_input_bytes=host_input_bytes,
        host_tensors=host_tensors,
        activation_dtype=formats.dtype,
    )


def interaction_block(s: InteractionShape, formats: Formats) -> Block:
    """Return an interaction block: filters of edges, messages along edges, and their sums at the atoms."""
    atoms, edges, features = (s.atoms, s.features), (s.edges, s.features), s.features
    g = formats.builder("interaction")
    cutoff = "@distances"
    for function, name in (("scale", "angle"), ("cos", "cos"), ("scaled_add", "half")):
        cutoff = g.elementwise(function, (s.edges,), (cutoff,), name=f"cutoff/{name}", even=s.sorted_edges)
    hidden = linear(g, "filter1", s.edges, s.gaussians, features, "@gaussians")
    hidden = _softplus(g, "filter1", edges, hidden, fast=s.fast_softplus)
    weights = linear(g, "filter2", s.edges, features, features, hidden)
    weights = g.elementwise("mul", edges, (weights, cutoff), name="filter/cutoff")
    rows = linear(g, "in", s.atoms, features, features, "@input", bias=False)
    rows = g.rearrange("in/table", atoms, rows)
    found = g.gather("sources", edges, s.atoms, (rows, "@sources"), planned=True)
    messages = g.elementwise("mul", edges, (g.rearrange("sources/edges", edges, found), weights), name="messages")
    messages = g.rearrange("messages/updates", edges, messages)
    added = g.scatter_add("targets", edges, s.atoms, (messages, "@targets"), planned=True)
    out = linear(g, "out1", s.atoms, features, features, g.rearrange("targets/atoms", atoms, added))
    out = _softplus(g, "out1", atoms, out, fast=s.fast_softplus)
    out = linear(g, "out2", s.atoms, features, features, out)
    g.elementwise("add", atoms, (out, "@input"), name="residual")

    b = formats.builder("interaction_backward")
    gradient = linear_backward(b, "out2", s.atoms, features, features, "@gradient")
    gradient = _softplus_backward(b, "out1", atoms, gradient, fast=s.fast_softplus)
    gradient = linear_backward(b, "out1", s.atoms, features, features, gradient)
    gradient = b.rearrange("targets/table", atoms, gradient)
    found = b.gather("targets", edges, s.atoms, (gradient, "@targets"), planned=True)
    found = b.rearrange("targets/edges", edges, found)
    of_rows = b.elementwise("mul", edges, (found, "@weights"), name="rows_grad")
    of_weights = b.elementwise("mul", edges, (found, "@rows"), name="weights_grad")
    of_weights = b.rearrange("filter/edges", edges, of_weights)
    of_rows = b.rearrange("rows_grad/updates", edges, of_rows)
    added = b.scatter_add("sources", edges, s.atoms, (of_rows, "@sources"), planned=True)
    added = linear_backward(
        b, "in", s.atoms, features, features, b.rearrange("sources/atoms", atoms, added), bias=False
    )
    b.elementwise("add", atoms, (added, "@gradient"), name="residual")
    of_weights = b.elementwise("mul", edges, (of_weights, "@cutoff"), name="filter/cutoff")
    of_weights = linear_backward(b, "filter2", s.edges, features, features, of_weights)
    of_weights = _softplus_backward(b, "filter1", edges, of_weights, fast=s.fast_softplus)
    _weights_backward(b, "filter1", s.edges, s.gaussians, features, of_weights)
    dense = [("filter1", s.gaussians), ("filter2", features), ("out1", features), ("out2", features)]
    return Block(
        name="interaction",
        forward=g.ops(),
        backward=b.ops(),
        parameters=(*_parameters(dense, features), Parameter("in/weight", (features, features))),
        output_elements=s.atoms * features,
        saved_elements=_EDGE_TENSORS * s.edges * features + _ATOM_TENSORS * s.atoms * features,
    )


def _neighbours(s: SchNetShape, formats: Formats) -> Block:
    """Return the block that computes distances of all pairs, the smallest of each row, and their Gaussians."""
    pairs = (s.atoms, s.atoms)
    g = formats.builder("neighbours")
    starts = g.elementwise("fill", (s.atoms,), ("@starts",), name="graphs/starts")
    triangle = MatMul(
        name=g.name("graphs/cumsum"),
        shape=(1, 1, s.atoms),
        dtype=formats.dtype,
        inner=s.atoms,
        inputs=(starts, "@triangle"),
        right_arranged=True,
    )
    graphs = g.add(triangle)
    each = [g.rearrange(f"positions/{axis}", (*pairs, _AXES), "@positions") for axis in ("rows", "columns")]
    apart = g.elementwise("sub", (*pairs, _AXES), each, name="differences")
    squares = g.elementwise("square", (*pairs, _AXES), (apart,), name="squares")
    sums = g.reduce("squares/sum", pairs, s.atoms * s.atoms * _AXES, squares)
    distances = g.elementwise("sqrt", pairs, (sums,), name="distances")
    masks = [
        g.elementwise("compare", pairs, (source,), name=f"masks/{name}")
        for name, source in (("self", "@identity"), ("graph", graphs), ("cutoff", distances))
    ]
    mask = g.elementwise("max", pairs, masks[:2], name="masks/or")
    mask = g.elementwise("max", pairs, (mask, masks[2]), name="masks/or")
    filled = g.elementwise("select", pairs, (distances, mask), name="masks/fill")
    filled = g.elementwise("scale", pairs, (filled,), name="negate")
    nearest = g.add(
        TopK(
            name=g.name("nearest"),
            shape=(s.atoms, s.neighbours),
            dtype="fp32",
            inputs=(g.rearrange("rows", pairs, filled),),
            candidates=s.atoms,
        )
    )
    spread = (s.edges, s.gaussians)
    wide = g.rearrange("nearest/wide", spread, nearest)
    shifted = g.elementwise("sub", spread, (wide, "@centres"), name="gaussians/shift")
    squares = g.elementwise("square", spread, (shifted,), name="gaussians/square")
    scaled = g.elementwise("scale", spread, (squares,), name="gaussians/scale")
    spread_out = g.elementwise("exp", spread, (scaled,), name="gaussians/exp")
    g.rearrange("gaussians/edges", spread, spread_out)
    elements = s.edges * (s.gaussians + 2)
    return Block("neighbours", g.ops(), (), (), output_elements=0, saved_elements=elements)


def _embedding(s: SchNetShape, formats: Formats) -> Block:
    """Return the block that looks up the embedding of each atom."""
    rows = (s.atoms, s.features)
    g, b = formats.builder("embedding"), formats.builder("embedding_backward")
    g.gather("atoms", rows, _EMBEDDINGS, ("@table", "@numbers"), planned=True)
    table = b.scatter_add("atoms", rows, _EMBEDDINGS, ("@gradient", "@numbers"), planned=True)
    b.accumulate("table", (_EMBEDDINGS, s.features), table)
    parameter = Parameter("table", (_EMBEDDINGS, s.features))
    return Block("embedding", g.ops(), b.ops(), (parameter,), s.atoms * s.features, saved_elements=s.atoms)


def _head(s: SchNetShape, formats: Formats) -> Block:
    """Return the head: two dense layers for each atom, their sum over each graph, and the squared error."""
    half, single, graphs = (s.atoms, s.features // 2), (s.atoms, 1), (s.graphs, 1)
    g = formats.builder("head")
    out = linear(g, "dense1", s.atoms, s.features, s.features // 2, "@input")
    out = _softplus(g, "dense1", half, out, fast=s.fast_softplus)
    out = linear(g, "dense2", s.atoms, s.features // 2, 1, out)
    energies = g.scatter_add("graphs", single, s.graphs, (out, "@graphs"), planned=True)
    error = g.elementwise("sub", graphs, (energies, "@targets"), name="loss/sub")
    squares = g.elementwise("square", graphs, (error,), name="loss/square")
    total = g.reduce("loss/sum", (1,), s.graphs, squares)
    real = g.elementwise("compare", graphs, ("@targets",), name="loss/real")
    count = g.reduce("loss/count", (1,), s.graphs, real)
    g.elementwise("divide", (1,), (total, count), name="loss/mean")

    b = formats.builder("head_backward")
    gradient = b.elementwise("scale", graphs, ("@error",), name="loss")
    gradient = b.gather("graphs", single, s.graphs, (gradient, "@graphs"), planned=True)
    gradient = linear_backward(b, "dense2", s.atoms, s.features // 2, 1, gradient)
    gradient = _softplus_backward(b, "dense1", half, gradient, fast=s.fast_softplus)
    linear_backward(b, "dense1", s.atoms, s.features, s.features // 2, gradient)
    parameters = (
        *_parameters([("dense1", s.features)], s.features // 2),
        *_parameters([("dense2", s.features // 2)], 1),
    )
    return Block("head", g.ops(), b.ops(), parameters, output_elements=0, saved_elements=2 * s.atoms * s.features)


def _softplus(g: GraphBuilder, name: str, shape: tuple[int, ...], source: str, *, fast: bool) -> str:
    """Append the shifted softplus, one pass per function; a maximum first copies an operand [popart_lowering]."""
    for function in _SOFTPLUS if fast else (*_SOFTPLUS, *_THRESHOLD):
        called = f"{name}/softplus/{function}"
        source = g.cut(f"{called}/copy", shape, source, whole=not (fast and function == "max"))
        source = g.elementwise(_LIKE.get(function, function), shape, (source,), name=called)
    return source


def _softplus_backward(g: GraphBuilder, name: str, shape: tuple[int, ...], gradient: str, *, fast: bool) -> str:
    for function in _SOFTPLUS_GRADIENT if fast else _SLOW_GRADIENT:
        called = f"{name}/softplus/{function}"
        gradient = g.elementwise(_LIKE.get(function, function), shape, (gradient,), name=called)
    return gradient


def _weights_backward(g: GraphBuilder, name: str, rows: int, inner: int, columns: int, gradient: str) -> None:
    """Append the gradients of weights and bias of a dense layer whose input needs no gradient."""
    of_weights = g.matmul(
        f"{name}/weight_grad", (1, inner, columns), rows, (f"@{name}/input", gradient), gradient_of_weights=True
    )
    g.accumulate(name, (inner, columns), of_weights)
    of_bias = g.reduce(f"{name}/bias_grad", (columns,), rows * columns, gradient)
    g.accumulate(f"{name}/bias", (columns,), of_bias)


def _parameters(dense: Sequence[tuple[str, int]], columns: int) -> tuple[Parameter, ...]:
    return tuple(
        parameter
        for name, inner in dense
        for parameter in (Parameter(f"{name}/weight", (inner, columns)), Parameter(f"{name}/bias", (columns,)))
    )
