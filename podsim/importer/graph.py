"""Import of a graph from an ONNX file, as a scenario of forward passes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from podsim.errors import PodsimError
from podsim.escaped import printable
from podsim.importer.divisions import fitted_pipeline, pipeline_section
from podsim.importer.reader import Entry
from podsim.importer.request import Request
from podsim.importer.scenario_text import ScenarioSection, as_mapping, scenario_text
from podsim.importer.scenarios import activity_of, precision
from podsim.models.graph import Graph, read_graph
from podsim.models.op import DType
from podsim.scenario import Activity, ForwardScenario, load_scenario
from podsim.scenario.wording import counted
from podsim.watch import Watch, silent

_SOFTWARE = "popart_sdk_2.3"


def graph_scenario(path: Path, request: Request, watch: Watch = silent) -> tuple[str, tuple[str, ...]]:
    """Return the scenario as commented YAML, with the first pipeline that fits, and the warnings."""
    where = printable(str(path))
    activity_of(request, {Activity.FORWARD}, Activity.FORWARD, "graph", where)
    _refuse_generation_options(path, request)
    formats = list(precision(request, Activity.FORWARD, where))
    dtype: DType = "fp32" if request.precision == "fp32" else "fp16"
    graph = read_graph(path, request.dimensions, dtype, watch)
    sections = [
        ScenarioSection(
            "",
            (
                Entry("description", f"{printable(path.stem)}, forward passes"),
                Entry("system", request.system, "--system"),
                Entry("software", _SOFTWARE),
            ),
        ),
        ScenarioSection("model", tuple(_model(path, graph, request))),
        *formats,
    ]
    spec = load_scenario(as_mapping(sections)).require(ForwardScenario)
    fit = fitted_pipeline(spec, graph.workload, graph.source[0], _cure(graph))
    text = scenario_text(_header(graph), [*sections, pipeline_section(fit), _data(graph)])
    return text, graph.warnings


def _refuse_generation_options(path: Path, request: Request) -> None:
    for name in ("prompt_tokens", "output_tokens", "batch_size"):
        if getattr(request, name) is not None:
            what = f"--{name.replace('_', '-')} means nothing for a graph"
            do = "leave it out; `--dimension NAME=SIZE` sets a dimension that the file leaves open"
            raise PodsimError(what, where=printable(str(path)), do=do)


def _model(path: Path, graph: Graph, request: Request) -> Iterator[Entry]:
    yield Entry("kind", "graph")
    file = path if request.folder is None else Path(os.path.relpath(path, request.folder))
    yield Entry("file", file.as_posix(), "from the folder of this scenario, or the working folder")
    if graph.dimensions:
        yield Entry("dimensions", dict(graph.dimensions), "--dimension")


def _cure(graph: Graph) -> str:
    if not graph.dimensions:
        return "import a smaller model, or export it with smaller dimensions"
    names = ", ".join(f"`{printable(name)}`" for name, _ in graph.dimensions)
    return f"give smaller sizes to the dimensions that the file leaves open ({names}), or import a smaller model"


def _header(graph: Graph) -> Iterator[str]:
    workload = graph.workload
    yield f"Written by `podsim import` from {graph.source[0]}"
    yield f"SHA-256 {graph.source[1]}"
    size = f"{workload.parameter_count:,} parameters, {workload.forward_flop / 1e9:,.3g} GFLOP in products"
    yield f"{counted(graph.node_count, 'operator')} on inputs, {size}."
    for name, shape in graph.inputs:
        yield f"Input {printable(name)}: {' x '.join(map(str, shape)) or 'a number'}"
    if graph.unmapped:
        yield "Not simulated, and free in the result, so that times are lower bounds:"
        yield from (f"  {operator}" for operator in graph.unmapped)
    for note in graph.notes:
        yield f"Note: {note}."


def _data(graph: Graph) -> ScenarioSection:
    samples = int(graph.workload.samples_per_micro_batch)
    entries = (
        Entry("samples_per_batch", samples, "first axis of the first input; correct it if that is not the batch"),
        Entry("batches_per_call", 64, "batches of each replica that one session call runs"),
    )
    return ScenarioSection("data", entries)
