"""Sections of scenarios that train a transformer: division over IPUs and replicas, and length of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from podsim.errors import BadValueError
from podsim.models.transformer.shape import Shards
from podsim.scenario.auto import AutoTrainingSpec
from podsim.scenario.base import Spec
from podsim.scenario.families.base import BuiltModelSpec, GeneratorSpec
from podsim.scenario.family import Sections
from podsim.scenario.pins import PARALLELISM, ipu_pins
from podsim.scenario.quantity import Count, CountOrZero, Flag, NumberFormat, Probability, SourcedTime
from podsim.scenario.scenario import Finding
from podsim.scenario.sections import shard_findings
from podsim.scenario.software import PHASED_STACK
from podsim.scenario.training import (
    OptimizerStateSpec,
    SessionCall,
    TrainingDataSpec,
    TrainingLayoutSpec,
    TrainingMemorySpec,
    TrainingOptimizerSpec,
    TrainingRunSpec,
    TrainingScenario,
)
from podsim.scenario.wording import counted, quoted

_Neighbours = Literal["shards", "stages", "replicas"]
NEAREST: Final[list[_Neighbours]] = ["shards", "stages", "replicas"]
_SEQUENCE_CURE = "give tensor_parallel 2 or more, or leave sequence_parallel out"
STREAMING = "streaming_memory"


def _neighbour_order(raw: Any) -> Any:
    """Return a valid value of `nearest`, or raise an error unless it has each name once."""
    if isinstance(raw, (list, tuple)) and len(raw) == len(NEAREST) and all(name in raw for name in NEAREST):
        return list(raw)
    what = f"needs {', '.join(NEAREST[:-1])} and {NEAREST[-1]}, each once, not {quoted(raw)}"
    raise BadValueError(what, f"write for example `[{', '.join(reversed(NEAREST))}]`")


_NeighbourOrder = Annotated[list[_Neighbours], BeforeValidator(_neighbour_order), Field(min_length=3, max_length=3)]


class StageSpec(Spec):
    """Pipeline stage."""

    ipu: CountOrZero
    """IPU of the replica with this stage; with `tensor_parallel` the group of IPUs, numbered from 0."""
    embedding: Flag = False
    """Whether the stage has the embedding; true for the first stage."""
    layers: CountOrZero = 0
    """Number of whole layers; for an encoder-decoder, encoder layers."""
    decoder_layers: CountOrZero = 0
    """Number of whole decoder layers of an encoder-decoder."""
    attention: CountOrZero = 0
    """Number of attention blocks in addition to whole layers."""
    feed_forward: CountOrZero = 0
    """Number of feed-forward blocks in addition to whole layers."""
    head: Flag = False
    """Whether the stage has heads and loss; true for the last stage."""

    @property
    def attention_count(self) -> int:
        """Number of attention blocks, those in whole layers included."""
        return self.layers + self.attention

    @property
    def feed_forward_count(self) -> int:
        """Number of feed-forward blocks, those in whole layers included."""
        return self.layers + self.feed_forward

    @model_validator(mode="after")
    def _holds_something(self) -> StageSpec:
        if not (self.embedding or self.head or self.attention_count or self.feed_forward_count or self.decoder_layers):
            raise BadValueError("the stage holds nothing", "give it embedding, layers, attention, feed_forward or head")
        return self


class AutoTextSpec(AutoTrainingSpec):
    """Layout that the search chooses, except for the given keys."""

    execution: Literal["pipelined", "phased"] | None = None
    """`pipelined`: weights stay on the IPUs of their stage. `phased`: one layer at a time is loaded from streaming
    memory."""
    tensor_parallel: Count | None = None
    """IPUs that share every layer."""
    sequence_parallel: Flag | None = None
    """Whether the IPUs that share a layer divide the tokens of activations between products."""
    hidden_parallel: Count | None = None
    """Parts into which the IPUs that share a layer also divide the width of hidden states; not chosen, 1 if left
    out."""
    expert_parallel: Count | None = None
    """Groups of the IPUs that share a layer, each of which holds some of its experts."""
    attention_serialisation: Count | None = None
    """Chunks of queries that an attention processes one after the other; not chosen, 1 if left out."""
    nearest: _NeighbourOrder | None = None
    """Order in which parts of the layout are neighbours in a link domain, nearest first; not chosen."""
    pipeline_stages: Count | None = None
    """Number of IPUs, or groups of IPUs, each of which holds some of the layers."""
    batch_serialisation: Flag | None = None
    """Whether a phase processes all micro-batches of a weight update before the next phase."""
    recomputation: Literal["none", "layer"] | None = None
    """`layer` keeps the inputs of layers only and recomputes the forward pass."""
    updates_per_session_call: SessionCall | None = None
    """Weight updates that one call from the host runs (device iterations); not chosen, 1 if left out."""
    replicas_per_process: Count | None = None
    """Replicas that one process on a host serves; not chosen."""

    def findings(self, spec: Any) -> Iterator[Finding]:
        """Yield problems of pins that no choice of the other keys can satisfy."""
        yield from super().findings(spec)
        yield from ipu_pins(spec.system, "tensor_parallel", self.tensor_parallel)
        yield from self._sharing_findings(spec)
        yield from _stack_findings(spec, is_phased=self.execution == "phased")
        if self.execution == "phased" and self.schedule is not None:
            what = "phased execution has no pipeline, and `schedule` is given"
            yield (PARALLELISM, "schedule"), what, "leave it out, or write `execution: pipelined`"
        if self.execution == "phased" and (self.pipeline_stages or 1) > 1:
            what = "phased execution runs every layer on all IPUs of a replica, and `pipeline_stages` is given"
            yield (PARALLELISM, "pipeline_stages"), what, "leave it out, or write `execution: pipelined`"
        if self.sequence_parallel and self.tensor_parallel == 1:
            what = "sequence_parallel divides tokens among the IPUs that share a layer"
            yield (PARALLELISM, "sequence_parallel"), what, "leave it out, or pin nothing that excludes it"

    def _sharing_findings(self, spec: Any) -> Iterator[Finding]:
        """Yield problems of layers divided among IPUs that no choice of the other keys can solve."""
        parts, groups = self.hidden_parallel or 1, self.expert_parallel or 1
        least = self.tensor_parallel or math.lcm(parts, groups)
        keys: dict[str, Any] = {"tensor_parallel": least, "hidden_parallel": parts, "expert_parallel": groups}
        keys |= {"sequence_parallel": self.sequence_parallel and least > 1}
        keys |= {"attention_serialisation": self.attention_serialisation or 1, "nearest": self.nearest or NEAREST}
        pinned = ParallelismSpec.model_construct(**keys)
        problems = list(pinned.sharing_problems())
        for problem in problems:
            yield (PARALLELISM,), str(problem), problem.do
        if not problems:
            yield from pinned.sharing_findings(spec)
        if not self.tensor_parallel:
            yield from ipu_pins(spec.system, "hidden_parallel" if parts > 1 else "expert_parallel", least)


class ParallelismSpec(TrainingLayoutSpec):
    """Division of the run over IPUs."""

    auto: ClassVar[type[AutoTrainingSpec]] = AutoTextSpec
    recomputed_unit: ClassVar[str] = "layer"
    undivided: ClassVar[dict[str, Any]] = TrainingLayoutSpec.undivided | {"layers_per_ipu": [1]}
    tensor_parallel: Count = 1
    """IPUs that share every layer, each with some heads and a part of the feed-forward width. They are neighbours and
    form a group; where other keys speak of an IPU, the group is meant."""
    hidden_parallel: Count = 1
    """Parts into which these IPUs also divide the width of hidden states. Heads and feed-forward width are then divided
    among `tensor_parallel` / `hidden_parallel` IPUs [popxl_gpt] [pope2022]. For example, 64 IPUs in 8 parts are a grid
    of 8 x 8."""
    sequence_parallel: Flag = False
    """Whether these IPUs divide the tokens of activations between products (norms, dropout, sums and the stash), and
    gather them before products [korthikanti2022]."""
    expert_parallel: Count = 1
    """Groups of neighbours among these IPUs, each of which holds some of the experts of a layer. Each IPU routes its
    share of the tokens, which are sent to the groups of their experts and back, all to all [lepikhin2021]."""
    attention_serialisation: Count = 1
    """Chunks of queries that the attention of a layer processes one after the other. Only the scores of one chunk take
    memory at a time, but each chunk reads all keys and values again."""
    nearest: _NeighbourOrder = NEAREST
    """Order in which parts of the layout are neighbours in a link domain, nearest first: IPUs that share layers,
    pipeline stages, replicas. By default the IPUs of a replica are neighbours, as the software stacks place them."""
    pipeline_stages: Count | None = None
    """Number of IPUs, or groups of IPUs, over which the layers are divided as evenly as possible."""
    chunks_per_ipu: Count | None = None
    """Pipeline stages on each of these IPUs, or groups; the last IPU is followed by the first, this number of times.
    Cycles get shorter, and so does the waiting at both ends of the pipeline [narayanan2021]."""
    layers_per_ipu: Annotated[list[CountOrZero], Field(min_length=1)] | None = None
    """Number of layers on each IPU, the embedding on the first; for an encoder-decoder, encoder layers first. An
    alternative to `pipeline_stages`."""
    head_on: Literal["first_ipu", "last_ipu"] | None = None
    """IPU with head and loss, without `stages`. If left out: the embedding's if they share weights, else the last."""
    stages: Annotated[list[StageSpec], Field(min_length=1)] | None = None
    """Pipeline stages in order; an alternative to `layers_per_ipu`."""
    execution: Literal["pipelined", "phased"] = "pipelined"
    """`pipelined` keeps the weights of each stage on its IPUs. `phased` keeps all tensors in streaming memory: layers
    run one after the other on all IPUs of a replica, each in its own phase, which loads its weights."""
    batch_serialisation: Flag = True
    """Whether a phase of phased execution processes all micro-batches of a weight update, with activations in streaming
    memory. Otherwise each micro-batch goes through all phases, and each phase loads its weights again."""
    recomputation: Literal["none", "layer"] = "layer"
    """`layer` keeps the inputs of layers only and recomputes the forward pass."""
    updates_per_session_call: SessionCall = 1
    """Weight updates that one call from the host runs (device iterations)."""

    @property
    def is_phased(self) -> bool:
        """True if layers run one after the other on all IPUs of a replica."""
        return self.execution == "phased"

    @model_validator(mode="after")
    def _one_placement(self) -> ParallelismSpec:
        ways = ("pipeline_stages", "layers_per_ipu", "stages")
        given = [f"`{name}`" for name in ways if getattr(self, name) is not None]
        if self.is_phased and (given or self.head_on):
            name = given[0] if given else "`head_on`"
            what = f"phased execution runs every layer on all IPUs of a replica, and {name} is given"
            raise BadValueError(what, "leave it out, or write `execution: pipelined`")
        if not given and not self.is_phased:
            cure = "add `layers_per_ipu:`, `pipeline_stages:` or `stages:`, or write `execution: phased`"
            raise BadValueError("nothing says where the layers go", cure)
        if len(given) > 1:
            raise BadValueError(f"{given[0]} and {given[1]} are both given", "keep one of the two")
        if self.stages is not None and self.head_on is not None:
            raise BadValueError(
                "`head_on` and `stages` are both given", "write `head: true` in the stage that holds it"
            )
        for problem in _stage_order_problems(self.stages or []):
            raise problem
        for problem in self._schedule_problems():
            raise problem
        for problem in self.sharing_problems():
            raise problem
        return self

    def sharing_problems(self) -> Iterator[BadValueError]:
        """Yield contradictions between the keys that divide a layer among IPUs; the model plays no part."""
        if self.sequence_parallel and self.tensor_parallel == 1:
            yield BadValueError("sequence_parallel divides tokens among the IPUs that share a layer", _SEQUENCE_CURE)
        if self.tensor_parallel == 1 and self.hidden_parallel > 1:
            what = "hidden_parallel divides the width of hidden states among the IPUs that share a layer"
            yield BadValueError(what, f"give tensor_parallel a multiple of {self.hidden_parallel}, or leave it out")
            return
        if self.tensor_parallel % self.hidden_parallel:
            shared, parts = self.tensor_parallel, self.hidden_parallel
            what = f"{shared} IPUs that share a layer are no grid with rows of {parts}"
            divisors = [divisor for divisor in range(1, shared + 1) if shared % divisor == 0]
            nearest = min(divisors, key=lambda divisor: abs(divisor - parts))
            yield BadValueError(what, f"use a hidden_parallel that divides tensor_parallel, for example {nearest}")
        if self.sequence_parallel and self.hidden_parallel > 1:
            what = "sequence_parallel divides tokens, and hidden_parallel the width of the same hidden states"
            yield BadValueError(what, "leave one of the two out")

    def _schedule_problems(self) -> Iterator[BadValueError]:
        """Yield problems of the keys `schedule` and `chunks_per_ipu`."""
        for name in ("schedule", "chunks_per_ipu"):
            if self.is_phased and getattr(self, name) is not None:
                what = f"phased execution has no pipeline, and `{name}` is given"
                yield BadValueError(what, "leave it out, or write `execution: pipelined`")
        if self.chunk_count == 1:
            return
        if self.pipeline_stages is None:
            what = "`chunks_per_ipu` needs to know how many IPUs hold the layers in turn"
            yield BadValueError(what, "write `pipeline_stages:` in place of `layers_per_ipu:` or `stages:`")
        elif self.pipeline_stages == 1:
            yield BadValueError("one IPU waits for no other, however many chunks it holds", "leave chunks_per_ipu out")
        elif self.schedule in ("interleaved", "sequential"):
            what = f"chunks shorten the cycles of other schedules, and not what IPUs wait for in `{self.schedule}`"
            yield BadValueError(what, "write `schedule: lock_step` or `grouped`, or leave chunks_per_ipu out")

    @property
    def shards(self) -> Shards:
        """Division of every layer among IPUs."""
        return Shards(
            self.tensor_parallel,
            self.sequence_parallel,
            self.attention_serialisation,
            self.hidden_parallel,
            self.expert_parallel,
        )

    @property
    def activation_shards(self) -> int:
        """Number of IPUs with the same hidden states; 1 if tokens are divided."""
        return 1 if self.sequence_parallel else self.shards.column_count

    @property
    def chunk_count(self) -> int:
        """Number of pipeline stages on each IPU, or group of IPUs, of `pipeline_stages`."""
        return self.chunks_per_ipu or 1

    @property
    def group_count(self) -> int:
        """Number of groups of IPUs that share their layers, in one data-parallel copy."""
        if self.stages is not None:
            return len({stage.ipu for stage in self.stages})
        return self.pipeline_stages or len(self.layers_per_ipu or (1,))

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one data-parallel copy."""
        return self.tensor_parallel * self.group_count

    def head_on_first_ipu(self, model: BuiltModelSpec) -> bool:
        """Return True if the head is on the first IPU, without `stages`."""
        return model.shares_embedding if self.head_on is None else self.head_on == "first_ipu"

    def stage_count(self, model: BuiltModelSpec) -> int:
        """Return the number of forward pipeline stages; a head on the first IPU is a separate last stage."""
        if self.stages is not None:
            return len(self.stages)
        return self.group_count * self.chunk_count + (self.head_on_first_ipu(model) and self.group_count > 1)

    def updates_per_call(self, spec: TrainingScenario) -> float:
        """Return the weight updates of one session call."""
        return self.updates_per_session_call

    def findings(self, spec: TrainingScenario) -> Iterator[Finding]:
        """Yield problems of layers, micro-batches and session calls."""
        yield from self.sharing_findings(spec)
        if self.sequence_parallel and self.is_phased and not getattr(spec.memory, "sharded_activations", True):
            what = "no IPU has all of the activations, whose tokens `sequence_parallel` divides"
            yield ("memory", "sharded_activations"), what, "leave it out, or leave parallelism.sequence_parallel out"
        yield from _phased_findings(spec, is_phased=self.is_phased)
        if self.stages is not None:
            yield from self._stage_findings(spec.model)
        elif self.layers_per_ipu is not None:
            yield from self._layer_findings(self.layers_per_ipu, spec)
        elif self.group_count > spec.model.placed_layers:
            what = f"{self.group_count} stages for {spec.model.placed_layers} layers"
            yield (PARALLELISM, "pipeline_stages"), what, "use fewer stages"
        elif (most := spec.model.placed_layers // self.group_count) < self.chunk_count:
            what = f"{self.chunk_count} chunks on each of {self.group_count} IPUs for {spec.model.placed_layers} layers"
            yield (PARALLELISM, "chunks_per_ipu"), what, f"use at most {most}"
        if self.chunk_count > 1 and self.schedule is None and spec.software.schedule in ("interleaved", "sequential"):
            what = f"chunks shorten no cycles of `{spec.software.schedule}`, the schedule of {spec.software.name}"
            yield (PARALLELISM, "chunks_per_ipu"), what, "add `schedule: lock_step` or `grouped`, or leave it out"
        yield from super().findings(spec)
        updates, shared = spec.run.update_count(spec) if spec.run else None, self.updates_per_session_call
        if updates is not None and shared > max(1, updates):
            yield (
                (PARALLELISM, "updates_per_session_call"),
                f"{shared} weight updates in a call; the run has {updates}",
                f"use at most {max(1, updates)}",
            )

    def sharing_findings(self, spec: TrainingScenario) -> Iterator[Finding]:
        """Yield problems of layers divided among IPUs that depend on model, data or software stack."""
        if self.tensor_parallel > 1 and spec.software.shared_layers is False:
            what = f"{spec.software.name} divides no layer among IPUs"
            yield (PARALLELISM, "tensor_parallel"), what, f"write `software: {PHASED_STACK}`, or leave it out"
        yield from shard_findings(spec.model, self.shards.column_count)
        yield from _expert_findings(spec.model, self.expert_parallel, self.tensor_parallel)
        yield from self._width_findings(spec.model)
        if self.attention_serialisation > (queries := spec.model.shortest_sequence(spec.data)):
            what = f"{queries} queries cannot be divided into {self.attention_serialisation} parts"
            yield (PARALLELISM, "attention_serialisation"), what, f"use at most {queries}"
        if self.sequence_parallel and getattr(spec.model, "parallel_blocks", "none") != "none":
            what = "tokens of blocks that stand side by side are not divided"
            yield (PARALLELISM, "sequence_parallel"), what, "leave it out, or write `model.parallel_blocks: none`"

    def _width_findings(self, model: BuiltModelSpec) -> Iterator[Finding]:
        """Yield a problem if the width of the model cannot be divided into these parts."""
        where, parts = (PARALLELISM, "hidden_parallel"), self.hidden_parallel
        if parts == 1:
            return
        if not isinstance(model, GeneratorSpec):
            yield where, "the width of hidden states is divided in decoders only", "leave it out"
        elif model.shape.experts:
            yield where, "the width of hidden states is not divided for layers with experts", "leave it out"
        elif parts > (width := model.shape.hidden_size):
            yield where, f"a width of {width} cannot be divided into {parts} parts", f"use at most {width}"

    def _layer_findings(self, layers_per_ipu: list[int], spec: TrainingScenario) -> Iterator[Finding]:
        placed, want = sum(layers_per_ipu), spec.model.placed_layers
        where = (PARALLELISM, "layers_per_ipu")
        if placed != want:
            yield where, f"layers add up to {placed}, the model has {want}", f"place {want} layers"
        ends = {0} if self.head_on_first_ipu(spec.model) else {0, len(layers_per_ipu) - 1}
        empty = [ipu for ipu, count in enumerate(layers_per_ipu) if not count and ipu not in ends]
        if empty and placed == want and self.ipus_per_replica <= spec.system.domain_ipu_count:
            what = f"nothing is on IPU {', '.join(map(str, empty))}"
            yield where, what, "place layers there, or use fewer IPUs"

    def _stage_findings(self, model: BuiltModelSpec) -> Iterator[Finding]:
        stages, decoder = self.stages or [], model.placed_decoder_layers
        has_decoder = [bool(stage.decoder_layers) for stage in stages]
        if any(stage.layers and any(has_decoder[:place]) for place, stage in enumerate(stages)):
            yield (PARALLELISM, "stages"), "a stage has encoder layers behind decoder layers", "place the encoder first"
        encoder = model.placed_layers - decoder
        placed = {
            "attention blocks": (sum(stage.attention_count for stage in stages), encoder),
            "feed_forward blocks": (sum(stage.feed_forward_count for stage in stages), encoder),
            "decoder layers": (sum(stage.decoder_layers for stage in stages), decoder),
        }
        for name, (count, want) in placed.items():
            if count != want:
                what = f"{name} add up to {count}, the model has {want}"
                yield (PARALLELISM, "stages"), what, f"place {want} of them"


def _expert_findings(model: BuiltModelSpec, groups: int, shards: int) -> Iterator[Finding]:
    """Yield a problem if groups of IPUs cannot hold an equal number of whole experts."""
    if groups == 1:
        return
    where, experts = (PARALLELISM, "expert_parallel"), getattr(model, "experts", None)
    if experts is None:
        yield where, f"{model.title} has no experts to divide", "leave it out, or give `model.experts`"
        return
    if getattr(model, "parallel_blocks", "none") != "none":
        what = "experts beside an attention that reads the same input are not divided"
        yield where, what, "leave it out, or write `model.parallel_blocks: none`"
    if experts.count % groups or shards % groups:
        common = math.gcd(experts.count, shards)
        fitting = [number for number in range(1, common + 1) if not common % number]
        nearest = min(fitting, key=lambda number: (abs(number - groups), number))
        what = f"{counted(experts.count, 'expert')} on {counted(shards, 'IPU')} cannot be divided into {groups} groups"
        yield where, what, f"use {nearest}" if nearest > 1 else "leave it out, or raise tensor_parallel"


def _stack_findings(spec: TrainingScenario, *, is_phased: bool) -> Iterator[Finding]:
    """Yield a problem if a scenario needs phased execution and the software stack has none."""
    if is_phased and spec.software.phased_execution is False:
        what = f"{spec.software.name} runs no layers in phases out of streaming memory"
        yield (PARALLELISM, "execution"), what, f"write `software: {PHASED_STACK}`, or leave `execution` out"


def _phased_findings(spec: TrainingScenario, *, is_phased: bool) -> Iterator[Finding]:
    """Yield problems of keys for phased execution only, and of optimizer state on chip in phased execution."""
    yield from _stack_findings(spec, is_phased=is_phased)
    phased_keys = (PARALLELISM, "batch_serialisation"), ("memory", "overlapped_io"), ("memory", "sharded_activations")
    for section, key in () if is_phased else phased_keys:
        if not getattr(getattr(spec, section), key, True):
            what = f"`{key}` belongs to phased execution, and the scenario asks for a pipeline"
            yield (section, key), what, "leave it out, or write `parallelism.execution: phased`"
    state = spec.memory.state
    if is_phased and "storage" in state.model_fields_set and state.storage != STREAMING:
        what = "phased execution keeps optimizer state, as weights and gradients, in streaming memory"
        yield ("memory", "optimizer_state", "storage"), what, f"leave it out, or write {STREAMING}"


def _stage_order_problems(stages: list[StageSpec]) -> Iterator[BadValueError]:
    used = sorted({stage.ipu for stage in stages})
    for expected, ipu in enumerate(used):
        if ipu != expected:
            yield BadValueError(f"stages use IPU {used[-1]} but not IPU {expected}", "number the IPUs 0, 1, 2, …")
    if [stage.embedding for stage in stages] != [index == 0 for index in range(len(stages))]:
        yield BadValueError("the first stage, and no other, holds the embedding", "write `embedding: true` there only")
    if [stage.head for stage in stages] != [index == len(stages) - 1 for index in range(len(stages))]:
        yield BadValueError("the last stage, and no other, holds the head", "write `head: true` there only")


class ReferenceConvergence(Spec):
    """Samples to converge, drawn at random from MLPerf's reference runs."""

    reference_convergence: Literal[True]
    """Always true."""


class LoggedConvergence(Spec):
    """Samples to converge of logged runs, valid at their batch size only."""

    runs: tuple[float, ...]
    """Samples of each run."""
    batch_size: Count
    """Samples, or packs, per weight update of these runs."""
    division: Literal["closed", "open"] | None = None
    """Division of MLPerf whose rules the runs followed."""


_MOST_SAMPLES = 1e15
_SAMPLES_CURE = (
    "write a number from 1 to 1e15, a list of them, `{runs: [...], batch_size: ...}` or `{reference_convergence: true}`"
)
_LOGGED = {"runs", "batch_size"}
_DIVISIONS = ("closed", "open")


def _samples(raw: Any) -> Any:
    if raw is None or isinstance(raw, ReferenceConvergence | LoggedConvergence):
        return raw
    if isinstance(raw, dict):
        return _convergence(raw)
    values = raw if isinstance(raw, (list, tuple)) else [raw]
    if not values:
        raise BadValueError("the list is empty", _SAMPLES_CURE)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= _MOST_SAMPLES:
            raise BadValueError(f"{quoted(value)} is not a number of samples", _SAMPLES_CURE)
    return tuple(float(value) for value in values) if isinstance(raw, (list, tuple)) else float(raw)


def _convergence(raw: dict[str, Any]) -> ReferenceConvergence | LoggedConvergence:
    """Return the convergence that a mapping describes; `reference_convergence` overrides keys of logged runs."""
    if raw.get("reference_convergence") is True and set(raw) <= {"reference_convergence", "division", *_LOGGED}:
        return ReferenceConvergence(reference_convergence=True)
    if set(raw) - {"division"} != _LOGGED:
        raise BadValueError("this mapping is not known", _SAMPLES_CURE)
    size, runs, division = raw["batch_size"], raw["runs"], raw.get("division")
    if division not in (None, *_DIVISIONS):
        raise BadValueError(f"{quoted(division)} is not a division of MLPerf", "write `closed` or `open` as division")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise BadValueError(f"{quoted(size)} is not a batch size", "write a positive whole number as batch_size")
    if not isinstance(runs, (list, tuple)):
        raise BadValueError(f"{quoted(runs)} is not a list of samples", _SAMPLES_CURE)
    return LoggedConvergence(runs=_samples(runs), batch_size=size, division=division)


_SAMPLES_SCHEMA = {"type": "number", "exclusiveMinimum": 0}
SamplesToConverge = Annotated[
    Any,
    BeforeValidator(_samples),
    WithJsonSchema(
        {
            "anyOf": [
                _SAMPLES_SCHEMA,
                {"type": "array", "items": _SAMPLES_SCHEMA, "minItems": 1},
                {
                    "type": "object",
                    "properties": {
                        "runs": {"type": "array", "items": _SAMPLES_SCHEMA, "minItems": 1},
                        "batch_size": {"type": "integer", "minimum": 1},
                        "division": {"enum": ["closed", "open"]},
                    },
                },
                {"type": "object", "properties": {"reference_convergence": {"const": True}}},
            ]
        }
    ),
]


class LoggedUpdates(Spec):
    """Number of weight updates of a logged run, and the batch size that it was logged with."""

    count: Count
    """Number of weight updates."""
    batch_size: Count
    """Samples, or packs, per weight update of the logged run."""


def _kind_of_updates(raw: Any) -> str:
    return "logged" if isinstance(raw, dict | LoggedUpdates) else "number"


_Work = Annotated[float, Field(strict=True, ge=1, le=1e18, allow_inf_nan=False)]


class EvaluationSpec(Spec):
    """Evaluations during the run."""

    samples: Count
    """Samples of one evaluation."""
    every_samples: Count | None = None
    """Samples between evaluations; by MLPerf's rule if left out."""


ENDS: Final = ("samples_to_converge", "samples", "tokens", "epochs", "weight_updates")
"""Keys of the ends of a run, of which a scenario gives one."""


class RunSpec(TrainingRunSpec):
    """Length of the run."""

    samples_to_converge: SamplesToConverge = None
    """Samples until the quality target: a number, numbers of observed runs with their batch size, or sampled from
    references."""
    samples: _Work | None = None
    """Samples (sequences or images) of the run instead, whatever the batch."""
    tokens: _Work | None = None
    """Tokens of the run instead; the sequence length converts them to samples."""
    weight_updates: (
        Annotated[
            Annotated[Count, Tag("number")] | Annotated[LoggedUpdates, Tag("logged")], Discriminator(_kind_of_updates)
        ]
        | None
    ) = None
    """Weight updates of a logged run instead. They apply to the batch of the file that gives them, or to the batch in
    `{count: 7038, batch_size: 65536}`; at any other batch there is no time to train."""
    epochs: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """Passes over the training set instead; needs `data.samples_per_epoch`."""
    seed: CountOrZero = 0
    """Seed of the samples."""
    draws: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1000
    """Number of sampled runs."""
    evaluation: EvaluationSpec | None = None
    """Evaluations during the run; left out without any."""
    setup: SourcedTime | None = None
    """Time from the start to the first weight update; the software stack's if left out."""

    @model_validator(mode="after")
    def _run_has_one_end(self) -> RunSpec:
        ends = [f"`{name}`" for name in ENDS if getattr(self, name) is not None]
        if len(ends) > 1:
            do = "keep one of the two; `null` takes the other away"
            raise BadValueError(f"{ends[0]} and {ends[1]} are both given", do)
        if not ends:
            for name in ("evaluation", "setup"):
                if getattr(self, name) is not None:
                    cure = "add `samples`, `tokens`, `epochs` or `samples_to_converge`, or write `run: null`"
                    raise BadValueError(f"`{name}` is given, but nothing says how long the run goes on", cure)
        if not isinstance(self.samples_to_converge, ReferenceConvergence):
            for name in ("seed", "draws"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    cure = f"leave `{name}` out, or write `samples_to_converge: {{reference_convergence: true}}`"
                    raise BadValueError(f"`{name}` is given, but nothing is drawn", cure)
        return self

    @property
    def is_drawn(self) -> bool:
        """True if samples to converge are sampled from reference runs."""
        return isinstance(self.samples_to_converge, ReferenceConvergence)

    @property
    def is_converged(self) -> bool:
        """True if samples to converge are given or sampled."""
        return self.samples_to_converge is not None

    @property
    def has_batch(self) -> bool:
        """True if the runs were logged with a batch size."""
        return isinstance(self.samples_to_converge, LoggedConvergence)

    def without_end(self) -> RunSpec:
        """Return the run without a length, so that only throughput follows."""
        return RunSpec()

    def findings(self, spec: TrainingScenario) -> Iterator[Finding]:
        """Yield a problem if the end of the run needs data, or reference runs, that do not exist."""
        if self.epochs is not None and spec.data.samples_per_epoch is None:
            yield ("run", "epochs"), "the size of the training set is not known", "add data.samples_per_epoch"
        if self.tokens is not None and _tokens_per_sample(spec) is None:
            yield ("run", "tokens"), "samples of this model are not made of tokens", "give run.samples or run.epochs"
        if isinstance(self.samples_to_converge, ReferenceConvergence) and spec.model.reference_benchmark is None:
            what = "MLPerf has reference runs of BERT only"
            yield ("run", "samples_to_converge"), what, "give a number of samples, tokens or epochs"

    def sample_count(self, spec: TrainingScenario) -> float | None:
        """Return the samples that the run trains, if its end is an amount of work other than weight updates."""
        if self.tokens is not None:
            return self.tokens / (_tokens_per_sample(spec) or 1.0)
        if self.epochs is not None:
            return self.epochs * (spec.data.samples_per_epoch or 0)
        return self.samples

    def update_count(self, spec: TrainingScenario) -> int | None:
        """Return the weight updates of the run, if they follow from the scenario alone."""
        samples, updates = self.sample_count(spec), self.weight_updates
        if samples is not None:
            return whole_updates(samples, spec.parallelism.batch_size * _sequences_per_pack(spec))
        return updates.count if isinstance(updates, LoggedUpdates) else updates


_ROUNDING: Final = 1e-12


def whole_updates(samples: float, samples_per_update: float) -> int:
    """Return the number of weight updates that train `samples`, rounded up.

    >>> whole_updates(7038 * 65536, 65536), whole_updates(7038 * 65536, 262144)
    (7038, 1760)
    """
    # A quotient that is whole except for the rounding of its factors counts as whole.
    return math.ceil(samples / samples_per_update * (1 - _ROUNDING))


def _sequences_per_pack(spec: TrainingScenario) -> float:
    packing = getattr(spec.data, "packing", None)
    return packing.sequences_per_pack if packing else 1.0


def _tokens_per_sample(spec: TrainingScenario) -> float | None:
    """Return the tokens of a sequence, or None for samples without tokens."""
    tokens = spec.model.tokens_per_sample(spec.data) or getattr(spec.data, "sequence_length", None)
    return None if tokens is None else tokens / _sequences_per_pack(spec)


class DropoutDataSpec(TrainingDataSpec):
    """The training data, with dropout."""

    dropout: Probability = 0.1
    """Dropout after embedding and blocks."""
    attention_dropout: Probability = 0.1
    """Dropout on attention probabilities."""

    def without_dropout(self) -> DropoutDataSpec:
        """Return the data without dropout."""
        return self.model_copy(update={"dropout": 0.0, "attention_dropout": 0.0})


class MemorySpec(TrainingMemorySpec):
    """Use of memory."""

    state_can_move: ClassVar[bool] = True
    optimizer_state: OptimizerStateSpec = OptimizerStateSpec()
    """Place of the optimizer state; with phased execution, of weights and gradients too."""
    sharded_activations: Flag = True
    """Whether IPUs that share layers in phased execution each store a part of their common activations, and gather what
    they load; otherwise each stores and loads all. With `sequence_parallel` each has only a part in any case."""
    overlapped_io: Flag = True
    """Whether I/O tiles of phased execution load and store while the others compute; otherwise all tiles do,
    alternately."""

    @property
    def state(self) -> OptimizerStateSpec:
        """Place of the optimizer state."""
        return self.optimizer_state


class OptimizerSpec(TrainingOptimizerSpec):
    """The optimizer."""

    kind: Literal["lamb", "adamw", "sgd"] = "lamb"
    """LAMB [you2020], AdamW [loshchilov2019] or SGD with momentum."""
    first_moment: NumberFormat = "fp32"
    """Number format of the first moment, or of the momentum."""
    second_moment: NumberFormat = "fp32"
    """Number format of the second moment; SGD has none."""
    master_weights: Flag = False
    """Whether a single-precision copy of the weights is kept as optimizer state."""
    gradient_clipping: Flag = False
    """Whether gradients are clipped by their global norm."""

    @model_validator(mode="after")
    def _momentum_is_one_moment(self) -> OptimizerSpec:
        if self.kind == "sgd" and self.second_moment != "fp32":
            raise BadValueError("SGD has no second moment", "leave second_moment out, or choose `kind: adamw`")
        return self

    @property
    def state_formats(self) -> tuple[NumberFormat, ...]:
        """Formats of the moments, and of the single-precision weights if there are any."""
        moments = (self.first_moment,) if self.kind == "sgd" else (self.first_moment, self.second_moment)
        return (*moments, "fp32") if self.master_weights else moments

    @property
    def clips_gradients(self) -> bool:
        """True if gradients are clipped by their global norm."""
        return self.gradient_clipping


TRANSFORMER_TRAINING: Sections = {
    "parallelism": (ParallelismSpec, ...),
    "memory": (MemorySpec, MemorySpec()),
    "optimizer": (OptimizerSpec, OptimizerSpec()),
    "run": (RunSpec | None, None),
}
"""Sections of a scenario that trains any transformer, without its data."""
