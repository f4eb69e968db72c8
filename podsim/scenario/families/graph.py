"""Graphs of operators, read from files of ONNX or PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from podsim.scenario.activity import Activity
from podsim.scenario.families.base import ModelSpec, Reading, forward_passes_of
from podsim.scenario.family import Family
from podsim.scenario.forward import BatchesSpec, ForwardScenario
from podsim.scenario.quantity import Count
from podsim.watch import Watch


class GraphSpec(ModelSpec):
    """Graph of operators, read from a file."""

    kind: Literal["graph"]
    """Family of the model."""
    file: str
    """An ONNX file, or shapes of a PyTorch model; looked up in the folder of the scenario, then in the working
    folder."""
    dimensions: dict[str, Count] = Field(default_factory=dict)
    """Sizes of the dimensions that the file leaves open, by name."""

    @property
    def title(self) -> str:
        """Name with its file."""
        return f"graph of {Path(self.file).name}"

    def read(self, spec: ForwardScenario, folder: Path, watch: Watch) -> Reading:
        """Return the graph in the file next to the scenario, or in the working folder."""
        from podsim.models.graph import read_graph

        graph = read_graph(self._path(folder), self.dimensions, spec.precision.activations, watch)
        samples = spec.data.samples_per_batch or graph.workload.samples_per_micro_batch
        workload = replace(graph.workload, samples_per_micro_batch=samples)
        return Reading(forward_passes_of(workload, spec), graph.warnings, (graph.source,))

    def _path(self, folder: Path) -> Path:
        path = folder / self.file
        try:
            return path if path.exists() else Path(self.file)
        except OSError:  # the reader of the file reports the problem
            return path


class ForwardDataSpec(BatchesSpec):
    """Input of the graph."""

    samples_per_batch: Count | None = None
    """Samples of one batch; the first axis of the graph's first input if left out."""


FAMILY = Family("a graph", GraphSpec, {Activity.FORWARD: {"data": (ForwardDataSpec, ForwardDataSpec())}})
