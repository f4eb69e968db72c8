"""Scenarios of training, and the sections that all families of models share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.models.layers import Formats
from podsim.models.op import DTYPE_BYTES
from podsim.models.transformer.shape import WHOLE, Shards
from podsim.scenario.activity import Activity
from podsim.scenario.auto import AutoTrainingSpec
from podsim.scenario.base import Spec
from podsim.scenario.families.base import BuiltModelSpec
from podsim.scenario.faults import FaultSpec, fault_findings
from podsim.scenario.quantity import Count, CountOrZero, Flag, NumberFormat, Probability
from podsim.scenario.scenario import Finding, Scenario
from podsim.scenario.schedules import MicroBatches, ScheduleName, micro_batch_findings, micro_batches_of
from podsim.scenario.sections import (
    AvailableMemory,
    Reserve,
    check_products,
    io_tile_findings,
    product_findings,
    replica_findings,
)
from podsim.scenario.software import Software
from podsim.scenario.wording import counted


class PrecisionSpec(Spec):
    """Number formats."""

    weights: Literal["fp8", "fp16", "fp32"] = "fp16"
    """Format of weights. `fp8`: weights of dense layers and convolutions, with a master copy in single precision."""
    activations: NumberFormat = "fp16"
    """Format of activations and their gradients."""
    gradient_accumulation: NumberFormat = "fp16"
    """Format of accumulated gradients."""
    matmul_partials: NumberFormat = "fp16"
    """Format of partial results of matrix products."""
    products: Literal["fp8", "fp16", "fp32"] | None = None
    """Format of operands of dense layers, convolutions and their gradients, each cast and scaled; `fp8` only for chips
    that support it."""
    stash: Literal["fp8", "fp16", "fp32"] | None = None
    """Format of activations kept from the forward to the backward pass; as `activations` if left out."""

    @property
    def narrows_products(self) -> bool:
        """True if operands of products are FP8 between activations in half precision."""
        return self.products == "fp8"

    @property
    def common_weights(self) -> NumberFormat:
        """Format of weights that no product in FP8 reads."""
        return self.activations

    @model_validator(mode="after")
    def _formats_go_together(self) -> PrecisionSpec:
        if self.stash is not None and DTYPE_BYTES[self.stash] > DTYPE_BYTES[self.activations]:
            what = f"a stash in {self.stash} for activations in {self.activations}"
            raise BadValueError(what, "use a format that is no wider, or leave `stash` out")
        check_products(self)
        if self.weights == "fp8":
            if not self.narrows_products:
                what = "weights in fp8 without products in fp8; training has no other use for them"
                raise BadValueError(what, "write `products: fp8` beside it, or `weights: fp16`")
        elif self.weights != self.activations:
            raise BadValueError(
                f"weights in {self.weights} with activations in {self.activations} are not modelled",
                "give both the same format; optimizer.master_weights keeps a single-precision copy of half weights",
            )
        return self


SessionCall = Annotated[int, Field(strict=True, ge=1, le=100_000)]
_REFERENCE_OPTIMIZERS: Final = {"bert": ("lamb",), "resnet": ("sgd", "lars")}
"""Optimizers of MLPerf's benchmarks. Source: [mlperf_training_rules]."""
_IPUS_FED_WITH_IMAGES = 16  # per process, in published runs of vision transformers


class TrainingDataSpec(Spec):
    """The training data."""

    incidental: ClassVar[frozenset[str]] = frozenset({"decoded_by_host", "loader", "pixel_format", "prefetch_depth"})
    """Keys that do not identify the data: how samples are fed."""

    samples_per_epoch: Count | None = None
    """Samples of the training set; needed for `run.epochs`."""

    @property
    def host_decodes(self) -> bool:
        """True if host servers decode each sample; otherwise they only send it."""
        return False

    @property
    def ready_micro_batches(self) -> int | None:
        """Micro-batches in the prefetch queue of each replica, or None for the software stack's."""
        return None

    @property
    def loads_itself(self) -> bool:
        """True if the calling process loads its samples itself, one after the other before each call."""
        return False

    def samples_ahead(self, layout: TrainingLayoutSpec) -> float:
        """Return the samples of a weight update that each worker of a loader loads, in parallel with the others."""
        return 0.0

    def late_samples(self, layout: TrainingLayoutSpec, updates_per_call: float) -> float:
        """Return the mean number of samples per weight update that are loaded while the IPUs wait."""
        return 0.0

    def loading_overlap(self, layout: TrainingLayoutSpec, updates_per_call: float) -> float:
        """Return the share of an epoch that runs while the loader loads the first batch of the next."""
        return 0.0

    def epoch_starts(self, layout: TrainingLayoutSpec) -> float:
        """Return the number of epochs per weight update whose start the calling process waits for."""
        return 0.0


class TrainingLayoutSpec(Spec):
    """Division of the run over IPUs."""

    auto: ClassVar[type[AutoTrainingSpec]]
    recomputed_unit: ClassVar[str]
    """Value of `recomputation` that recomputes the forward pass: the unit whose inputs are kept."""
    undivided: ClassVar[dict[str, Any]] = {
        "micro_batch_size": 1,
        "accumulation_factor": 1,
        "replication_factor": 1,
    }
    """Placeholder for a layout until the search has chosen one."""
    micro_batch_size: Count
    """Samples (sequences, packs or images) per run of the graph."""
    accumulation_factor: Count
    """Micro-batches per weight update."""
    replication_factor: Count
    """Data-parallel copies."""
    schedule: ScheduleName | None = None
    """Order in which pipeline stages process micro-batches. `lock_step`: in every cycle, all stages of an IPU one after
    the other. `grouped`: all forward passes of a cycle, then all backward passes. `interleaved`: forward and backward
    passes of a stage in alternating cycles, which keeps fewer activations. `sequential`: one stage at a time. The
    software stack's if left out [popart_pipelining], [tensorflow_pipelining]."""

    @property
    def chunk_count(self) -> int:
        """Number of pipeline stages on each IPU, or group of IPUs."""
        return 1

    @property
    @abstractmethod
    def ipus_per_replica(self) -> int:
        """IPUs of one data-parallel copy."""

    @property
    def shards(self) -> Shards:
        """Division of every layer among IPUs."""
        return WHOLE

    replicas_per_process: Count | None = None
    """Replicas that one process on a host serves; if left out, those of a link domain, or of 16 IPUs for images."""

    def served_replicas(self, spec: TrainingScenario) -> int:
        """Return the number of replicas that one process on a host serves."""
        if self.replicas_per_process:
            return self.replicas_per_process
        if spec.model.reads_images:
            return max(1, _IPUS_FED_WITH_IMAGES // self.ipus_per_replica)
        return max(1, spec.system.domain_ipu_count // self.ipus_per_replica)

    def host_process_count(self, spec: TrainingScenario) -> int:
        """Return the number of processes on all hosts."""
        return -(-self.replication_factor // self.served_replicas(spec))

    @property
    def batch_size(self) -> int:
        """Samples per weight update."""
        return self.micro_batch_size * self.accumulation_factor * self.replication_factor

    def recomputes(self, software: Software) -> bool:
        """Return True if the forward pass is recomputed before the backward pass."""
        unit = getattr(self, "recomputation", None)
        if unit is None:
            return software.recomputes_pipelines and self.ipus_per_replica > 1
        return bool(unit == self.recomputed_unit)

    def merged_bytes(self, default_bytes: int) -> int:
        """Return the size up to which gradients are reduced together; 0 for each tensor separately. [B]"""
        return 0

    @abstractmethod
    def updates_per_call(self, spec: TrainingScenario) -> float:
        """Return the mean number of weight updates of one session call."""

    def stage_count(self, model: BuiltModelSpec) -> int:
        """Return the number of forward pipeline stages."""
        return self.ipus_per_replica

    def micro_batches(self, spec: TrainingScenario, *, strict: bool) -> MicroBatches:
        """Return the allowed numbers of micro-batches in a weight update; `strict` as in `micro_batches_of`."""
        return micro_batches_of(
            self.schedule or spec.software.schedule,
            self.stage_count(spec.model),
            chunks=self.chunk_count,
            groups=self.ipus_per_replica // self.shards.count,
            strict=strict,
        )

    def findings(self, spec: TrainingScenario) -> Iterator[Finding]:
        """Yield contradictions with model and run."""
        # If the user did not choose the schedule, the framework's own rule leads to a warning only.
        rule = self.micro_batches(spec, strict=self.schedule is not None)
        yield from micro_batch_findings(rule, self.stage_count(spec.model), self.accumulation_factor)


class OptimizerStateSpec(Spec):
    """Memory that holds the optimizer state."""

    storage: Literal["in_processor_memory", "streaming_memory"] = "in_processor_memory"
    """On chip, or in streaming memory and loaded for each weight update."""
    replicated_tensor_sharding: Flag = True
    """Whether each replica keeps a shard only."""


class TrainingMemorySpec(Spec):
    """Use of memory."""

    state_can_move: ClassVar[bool] = False
    """Whether optimizer state can be off chip, or sharded."""
    available_memory_proportion: AvailableMemory = 0.2
    """Share of tile memory for the temporaries of an operation; one number, or one per IPU."""
    reserve: Reserve | None = None
    """Share of In-Processor-Memory left free; 0 if left out, or the software stack's for a chosen layout."""
    io_tiles: CountOrZero = 0
    """Tiles that fetch data while the others compute: samples and, in phased execution, activations."""

    @property
    def state(self) -> OptimizerStateSpec:
        """Place of the optimizer state."""
        return OptimizerStateSpec(replicated_tensor_sharding=False)

    def findings(self, tile_count: int) -> Iterator[Finding]:
        """Yield a problem if I/O tiles leave no tiles for computation."""
        yield from io_tile_findings(self.io_tiles, tile_count)

    def shares(self, ipu_count: int) -> tuple[float, ...]:
        """Return the share of memory for temporaries on each IPU of a replica."""
        proportion = self.available_memory_proportion
        return tuple(proportion) if isinstance(proportion, tuple) else (proportion,) * ipu_count


class LearningRateSpec(Spec):
    """Schedule of the learning rate: warm-up, and scaling of its peak with the batch. It has no effect on time."""

    warm_up: Probability = 0.0
    """Share of the weight updates in which the rate rises evenly from 0 to its peak."""
    peak: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    """Largest rate, at `batch_size` if that is given; a file may leave it out and give the rule only."""
    batch_size: Count | None = None
    """Samples, or packs, per weight update at which the peak applies."""
    scaling: Literal["none", "linear"] = "none"
    """`linear` multiplies the peak by the batch over `batch_size` [bert_blog]."""

    @model_validator(mode="after")
    def _scaling_has_a_batch(self) -> LearningRateSpec:
        if (self.scaling == "linear") != (self.batch_size is not None):
            what = "`scaling: linear` and `batch_size` belong together"
            raise BadValueError(what, "give both, the batch size that the peak belongs to, or neither")
        return self

    def factor(self, batch_size: int) -> float:
        """Return the peak at a batch over the peak at `batch_size`."""
        return 1.0 if self.batch_size is None else batch_size / self.batch_size


class TrainingOptimizerSpec(Spec):
    """The optimizer."""

    kind: str
    """Its name."""
    learning_rate: LearningRateSpec | None = None
    """Warm-up and scaling of the learning rate, for the schedule in the result; if left out, no schedule is shown."""

    @property
    @abstractmethod
    def state_formats(self) -> tuple[NumberFormat, ...]:
        """Number formats of the state of each parameter."""

    @property
    def arithmetic(self) -> NumberFormat:
        """Number format in which weights are updated."""
        return "fp32"

    @property
    def clips_gradients(self) -> bool:
        """True if gradients are clipped by their global norm."""
        return False


class TrainingRunSpec(Spec):
    """Length of the run."""

    @property
    @abstractmethod
    def is_drawn(self) -> bool:
        """True if the end of the run is sampled from MLPerf's reference runs."""

    @property
    @abstractmethod
    def is_converged(self) -> bool:
        """True if the run ends when the model reaches its quality target."""

    @property
    @abstractmethod
    def has_batch(self) -> bool:
        """True if the end of the run is given with the batch size that it applies to."""

    @abstractmethod
    def without_end(self) -> Self:
        """Return the run without its end, as if its length were unknown."""

    @abstractmethod
    def findings(self, spec: TrainingScenario) -> Iterator[Finding]:
        """Yield contradictions with data and batch."""

    @property
    def calls_per_epoch(self) -> int | None:
        """Calls from the host per epoch, if the run is divided by epochs."""
        return None

    def update_count(self, spec: TrainingScenario) -> int | None:
        """Return the weight updates of the run, if they follow from the scenario alone."""
        return None


class TrainingScenario(Scenario):
    """Scenario of training: a model, its data, and its division over a pod."""

    activity: ClassVar[Activity] = Activity.TRAINING
    model: BuiltModelSpec
    """The model."""
    data: TrainingDataSpec
    """Training data."""
    parallelism: TrainingLayoutSpec
    """Division of the run over IPUs; `auto` for a search."""
    batch_size: Count | None = None
    """Samples (sequences, packs or images) per weight update; needed for `parallelism: auto`, otherwise checked."""
    memory: TrainingMemorySpec
    """Use of memory."""
    optimizer: TrainingOptimizerSpec
    """Optimizer."""
    precision: PrecisionSpec = PrecisionSpec()
    """Number formats."""
    run: TrainingRunSpec | None = None
    """Length of the run; left out for throughput only."""
    faults: tuple[FaultSpec, ...] = ()
    """Parts of the pod that are slower than nominal."""

    @property
    def benchmark(self) -> str | None:
        """MLPerf benchmark with this model, data and optimizer, or None."""
        name = self.model.benchmark_on(self.data)
        return name if name and self.optimizer.kind in _REFERENCE_OPTIMIZERS[name] else None

    @property
    def formats(self) -> Formats:
        """Number formats of the graph."""
        return Formats(self.precision.activations, self.precision.gradient_accumulation)

    def division_findings(self) -> Iterator[Finding]:
        """Yield problems of replicas, batch, layers and host servers."""
        yield from replica_findings(self.system, self.parallelism)
        yield from self._memory_share_findings()
        yield from self._batch_findings()
        yield from self.parallelism.findings(self)
        yield from self._norm_findings()
        if self.data.host_decodes:
            yield from self._host_findings()
        division = self.parallelism
        if division.ipus_per_replica <= self.system.domain_ipu_count:
            copies = division.replication_factor, division.ipus_per_replica
            yield from fault_findings(self.faults, self.system, *copies, has_run=self.run is not None)

    def model_findings(self) -> Iterator[Finding]:
        """Yield problems of memory, run and data."""
        yield from self.memory.findings(int(self.system.machine.ipu.tile.count))
        yield from product_findings(self.system.machine.ipu, self.precision)
        yield from self._weight_format_findings()
        yield from self._loader_findings()
        if self.run is not None:
            yield from self.run.findings(self)
        yield from self.model.findings(self)

    def _weight_format_findings(self) -> Iterator[Finding]:
        """Yield a problem if FP8 weights are updated without a master copy, so that they lose small updates."""
        master_weights = getattr(self.optimizer, "master_weights", None)
        if self.precision.weights == "fp8" and not master_weights:
            what = "weights in fp8 without a master copy: updates smaller than the step of a number of 8 bits are lost"
            do = (
                "write `weights: fp16`"
                if master_weights is None
                else "write `optimizer.master_weights: true`, or `weights: fp16`"
            )
            yield ("precision", "weights"), what, do

    def _loader_findings(self) -> Iterator[Finding]:
        """Yield a problem if the calling process loads samples and their loading time is not known."""
        if self.data.loads_itself and self.software.sample_load_s is None:
            what = f"the process that calls loads its samples itself; {self.software.name} has no time for a sample"
            yield (
                ("data", "loader"),
                what,
                "give `software.sample_load_time`, for example `1.44 ms`, or `loader: ahead`",
            )

    def _memory_share_findings(self) -> Iterator[Finding]:
        proportions, count = self.memory.available_memory_proportion, self.parallelism.ipus_per_replica
        if isinstance(proportions, tuple) and len(proportions) != count:
            yield (
                ("memory", "available_memory_proportion"),
                f"{len(proportions)} numbers for {counted(count, 'IPU')} of a replica",
                f"give one number, or {count}" if count > 1 else "give one number",
            )

    def _batch_findings(self) -> Iterator[Finding]:
        batch = self.parallelism.batch_size
        if self.batch_size not in (None, batch):
            yield (
                ("batch_size",),
                f"{self.batch_size} is not micro_batch_size x accumulation_factor x replication_factor = {batch}",
                f"leave it out, write {batch}, or write `parallelism: auto`",
            )

    def _norm_findings(self) -> Iterator[Finding]:
        replicas, group_size = self.parallelism.replication_factor, self.model.norm_replicas
        if replicas % group_size:
            yield (
                ("model", "norm", "replicas"),
                f"{replicas} replicas cannot be divided into groups of {group_size} for batch norm",
                f"use a number that divides {replicas}",
            )

    def _host_findings(self) -> Iterator[Finding]:
        hosts, replicas = self.system.own_host_count, self.parallelism.replication_factor
        if replicas % hosts and hosts % replicas:
            yield (
                ("system", "host_count"),
                f"{replicas} replicas cannot be divided among {hosts} host servers",
                f"use a number of servers that divides {replicas}",
            )
