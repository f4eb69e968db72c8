"""Networks on molecular graphs: SchNet."""

from __future__ import annotations

from math import inf
from typing import Annotated, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.models import Workload
from podsim.models.block import HostTensors
from podsim.models.layers import Formats
from podsim.models.op import DTYPE_BYTES
from podsim.models.schnet import SchNetShape, schnet
from podsim.models.transformer.shape import WHOLE, Shards
from podsim.scenario.activity import Activity
from podsim.scenario.convnet_training import EpochRunSpec, ImageMemorySpec, ImageParallelismSpec
from podsim.scenario.families.base import BuiltModelSpec
from podsim.scenario.family import Family
from podsim.scenario.quantity import Count, Flag, NumberFormat
from podsim.scenario.training import TrainingDataSpec, TrainingLayoutSpec, TrainingOptimizerSpec

_AXES = 3
_START_BYTES, _TARGET_BYTES = 1, 4
_NUMBER_BYTES = {"int8": 1, "int32": 4}


class MoleculeDataSpec(TrainingDataSpec):
    """Molecules in packs of equal size; a padded data set has one graph in each pack."""

    samples_per_epoch: Count
    """Graphs of an epoch, without the last incomplete batch."""
    pack_nodes: Count
    """Room for atoms in a pack."""
    pack_graphs: Count = 1
    """Room for graphs in a pack."""
    graphs_per_pack: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0
    """Mean number of graphs in a pack."""
    number_format: Literal["int8", "int32"] = "int32"
    """Format of atomic numbers on their way from the host."""
    position_format: NumberFormat = "fp32"
    """Format of positions on their way from the host."""
    loader: Literal["asynchronous", "synchronous", "none"] = "asynchronous"
    """`asynchronous`: a process of its own loads batches into a buffer. `synchronous`: the process that calls fetches
    batches from the workers. `none`: synthetic data, and nothing is loaded."""
    loader_buffer: Count = 3
    """Batches of a session call in the buffer of an asynchronous loader; PopTorch's default is 3 [poptorch_loader]. The
    loader begins the next epoch this many calls less one before an epoch ends."""
    loader_workers: Count | None = None
    """Workers of a loader, each of which builds whole batches of a session call; if left out, enough to keep up."""
    prefetch_depth: Count = 1
    """Micro-batches in the prefetch queue of each replica."""

    @model_validator(mode="after")
    def _graphs_fit_the_pack(self) -> MoleculeDataSpec:
        if self.graphs_per_pack > self.pack_graphs:
            what = f"{self.graphs_per_pack:g} graphs in a pack with {self.pack_graphs} places"
            raise BadValueError(what, "give `pack_graphs` as many places as a pack has graphs, or more")
        return self

    @property
    def ready_micro_batches(self) -> int | None:
        """Micro-batches in the prefetch queue of each replica."""
        return self.prefetch_depth

    @property
    def is_synthetic(self) -> bool:
        """True if nothing comes from the host."""
        return self.loader == "none"

    def samples_ahead(self, layout: TrainingLayoutSpec) -> float:
        """Return the graphs of a weight update that each worker loads, with all workers at the same time."""
        return 0.0 if self.is_synthetic else layout.batch_size * self.graphs_per_pack / (self.loader_workers or inf)

    def late_samples(self, layout: TrainingLayoutSpec, updates_per_call: float) -> float:
        """Return the graphs of the first batch of an epoch per weight update; no work overlaps with their loading."""
        if self.is_synthetic:
            return 0.0
        return layout.batch_size * self.graphs_per_pack * updates_per_call / self._updates_per_epoch(layout)

    def loading_overlap(self, layout: TrainingLayoutSpec, updates_per_call: float) -> float:
        """Return the share of an epoch that runs while an asynchronous loader loads the first batch of the next."""
        if self.loader != "asynchronous":
            return 0.0
        return min(1.0, (self.loader_buffer - 1) * updates_per_call / self._updates_per_epoch(layout))

    def epoch_starts(self, layout: TrainingLayoutSpec) -> float:
        """Return the starts of epochs by the process that calls, per weight update."""
        return 1 / self._updates_per_epoch(layout) if self.loader == "synchronous" else 0.0

    def _updates_per_epoch(self, layout: TrainingLayoutSpec) -> float:
        return max(1.0, self.samples_per_epoch / (layout.batch_size * self.graphs_per_pack))


class SchNetSpec(BuiltModelSpec):
    """SchNet that computes its edges on the device [schutt2018]."""

    kind: Literal["schnet"]
    """Family of the model."""
    features: Count = 100
    """Features of atoms, and number of filters of edges."""
    block_count: Count = 4
    """Interaction blocks."""
    gaussians: Count = 25
    """Number of Gaussian functions into which a distance is expanded."""
    neighbours: Count = 28
    """Edges that end at each atom."""
    fast_softplus: Flag = True
    """Whether the activation is computed without PyTorch's threshold."""

    @property
    def title(self) -> str:
        """Name with its dimensions."""
        return f"SchNet, {self.block_count} interactions, {self.features} features"

    @property
    def reads_images(self) -> bool:
        """Always True: workers of a host load batches ahead of time, as for images."""
        return True

    def workload(self, data: MoleculeDataSpec, formats: Formats, batch_size: int, shards: Shards = WHOLE) -> Workload:
        """Return the graph of one micro-batch of packs."""
        shape = SchNetShape(
            features=self.features,
            blocks=self.block_count,
            gaussians=self.gaussians,
            neighbours=min(self.neighbours, batch_size * data.pack_nodes),
            atoms=batch_size * data.pack_nodes,
            graphs=batch_size * data.pack_graphs,
            fast_softplus=self.fast_softplus,
        )
        atom = _NUMBER_BYTES[data.number_format] + _AXES * DTYPE_BYTES[data.position_format]
        sent = 0 if data.is_synthetic else shape.atoms * atom + shape.graphs * (_START_BYTES + _TARGET_BYTES)
        # Inputs are atomic numbers, positions and starts of graphs.
        fed = HostTensors(inputs=3, labels=1, results=2)
        tensors = HostTensors() if data.is_synthetic else fed
        return schnet(shape, formats, batch_size * data.graphs_per_pack, sent, tensors)


class MoleculeOptimizerSpec(TrainingOptimizerSpec):
    """The optimizer."""

    kind: Literal["adam"] = "adam"
    """Adam [kingma2015]."""
    state: NumberFormat = "fp32"
    """Number format of both moments."""

    @property
    def state_formats(self) -> tuple[NumberFormat, ...]:
        """Formats of both moments."""
        return (self.state, self.state)


FAMILY = Family(
    "a network on molecular graphs",
    SchNetSpec,
    {
        Activity.TRAINING: {
            "data": (MoleculeDataSpec, ...),
            "parallelism": (ImageParallelismSpec, ...),
            "memory": (ImageMemorySpec, ImageMemorySpec()),
            "optimizer": (MoleculeOptimizerSpec, MoleculeOptimizerSpec()),
            "run": (EpochRunSpec | None, None),
        },
    },
)
