"""Compilation of a step of text generation.

IPUs load weights, shards compute and sum their results in a ring, each stage sends activations to the next, and the
host samples. IPUs wait for streamed weights, unless I/O tiles load the next layer's weights during computation.
Source: [popxl_llama], [gcl_topologies].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from podsim.errors import MissingDataError
from podsim.placement.cuts import Segment, Stage
from podsim.placement.layout import STREAMING
from podsim.placement.plan import Plan
from podsim.placement.topology import Routes
from podsim.program.passes import BUBBLE, INTER_IPU, work
from podsim.program.rings import ALL_REDUCE, Ring
from podsim.program.task import Acquire, Barrier, Exchange, Group, Phase, Program, Release, Step, Work
from podsim.program.transfers import HOST, link_transfer, streaming_transfer
from podsim.units import seconds_to_ps

WEIGHTS_WAIT = "weights_wait"
_SLOTS = 2
# With overlapping loads, the accounted step follows a warm-up step, during which its first loads begin.
_STEPS = 2


def compile_step(plan: Plan, *, explicit: bool = False) -> Program:
    """Compile one step of a batch through all stages; unless `explicit`, layers of a stage are a repeated phase."""
    return _StepProgram(plan, explicit=explicit).program()


def compile_turn(plan: Plan) -> Program:
    """Compile a step of all stages at once, each with a different batch, after a warm-up step."""
    return _StepProgram(plan, explicit=True).turn()


def stages_interfere(plan: Plan) -> bool:
    """Return True if stages slow each other: weights load during computation, or stages share a machine's memory."""
    layout = plan.layout
    if layout.batches_in_flight == 1:
        return False
    streams = STREAMING in (layout.weight_storage, layout.kv_cache)
    return loads_overlap(plan) or (streams and layout.tensor_parallel < plan.system.machine.ipu_count)


def loads_overlap(plan: Plan) -> bool:
    """Return True if weights are loaded while other tiles compute."""
    return plan.layout.weight_storage == STREAMING and plan.layout.io_tiles > 0


class _StepProgram:
    """Phases of one step of text generation."""

    def __init__(self, plan: Plan, *, explicit: bool) -> None:
        self._plan, self._explicit, self._workload = plan, explicit, plan.workload
        self._routes = Routes(plan.system)
        self._overlaps = loads_overlap(plan)
        self._stages = [cost.stage for cost in plan.stages]
        self._sums = [self._all_reduce(stage) for stage in self._stages]
        clock_hz = plan.system.machine.ipu.clock_hz
        self._works = {
            name: work(name.replace("_", "-"), block.forward_account, clock_hz)
            for cost in plan.stages
            for name, block in cost.blocks.items()
        }

    def program(self) -> Program:
        """Return the step, after a warm-up step if weights are loaded ahead."""
        return self._behind_warm_up(tuple(self._phases()))

    def turn(self) -> Program:
        """Return the step with all stages side by side."""
        steps: dict[str, tuple[Step, ...]] = {}
        for phase in self._phases():
            for lane, step in phase.steps.items():
                steps[lane] = steps.get(lane, ()) + step
        return self._behind_warm_up((Phase("turn", 1, steps, BUBBLE),))

    def _behind_warm_up(self, phases: tuple[Phase, ...]) -> Program:
        lanes = tuple(self._lane(ipu) for ipu in range(self._plan.layout.ipus_per_replica))
        steps = _STEPS if self._overlaps else 1
        group = Group("replica0", lanes, phases * steps, len(phases) * (steps - 1))
        if not self._overlaps:
            return Program((group,))
        tokens = {f"{lane}/{what}": count for lane in lanes for what, count in (("room", _SLOTS), ("ready", 0))}
        return Program((group, *self._loaders(steps)), tokens)

    def _lane(self, ipu: int) -> str:
        return f"ipu{ipu}"

    def _phases(self) -> Iterator[Phase]:
        for stage in self._stages:
            for segment in stage.segments:
                yield from self._segment(stage, segment)
            if stage is not self._stages[-1]:
                yield self._phase(f"hand over {stage.index}", stage, partial(self._hand_over, stage))
        call = Work("sample", ((HOST, seconds_to_ps(self._sampling_s())),))
        yield self._phase("sample", self._stages[-1], lambda _: (call,))

    def _segment(self, stage: Stage, segment: Segment) -> Iterator[Phase]:
        """Yield the phases of a segment: embedding, head, or the layers of a stage."""
        steps_of = partial(self._run, stage, segment)
        if segment.blocks not in self._workload.layers.values():
            yield self._phase(segment.blocks[0], stage, steps_of)
        elif self._overlaps or self._explicit:
            one = self._phase("", stage, steps_of)
            yield from (replace(one, name=f"layers {stage.index} {number}") for number in range(segment.count))
        else:
            yield self._phase(f"layers {stage.index}", stage, steps_of, segment.count)

    def _phase(self, name: str, stage: Stage, steps_of: Callable[[int], Iterable[Step]], count: int = 1) -> Phase:
        return Phase(name, count, {self._lane(ipu): tuple(steps_of(ipu)) for ipu in stage.ipus}, BUBBLE)

    def _sampling_s(self) -> float:
        """Return the time of the call for the next token and of the host's sampling from the logits. [s]"""
        software, layout = self._plan.software, self._plan.layout
        if software.token_call_s is None:
            raise MissingDataError(
                f"{software.name} does not say what a call for a token costs",
                do="set `software.token_call`, for example to `0.15 ms`",
            )
        logits = layout.micro_batch_size * layout.logits_per_sequence
        return software.token_call_s + logits * (software.sampling_per_logit_s or 0.0)

    def _run(self, stage: Stage, segment: Segment, ipu: int) -> list[Step]:
        """Return the steps of an IPU in a segment: load weights, then run one block after the other."""
        steps = list(self._load(ipu, segment))
        for name in segment.blocks:
            block = self._workload.blocks[name]
            steps += self._cache(ipu, "read", block.cache_read_elements)
            steps.append(self._works[name])
            steps += self._cache(ipu, "write", block.cache_written_elements)
            if block.partial_sums:
                steps += self._sums[stage.index][ipu]
        return [*steps, Release(f"{self._lane(ipu)}/room")] if self._overlaps else steps

    def _load(self, ipu: int, segment: Segment) -> Iterator[Step]:
        """Yield the wait for weights from I/O tiles, or the load of weights from streaming memory."""
        if self._overlaps:
            yield Acquire(f"{self._lane(ipu)}/ready", WEIGHTS_WAIT)
        elif self._plan.layout.weight_storage == STREAMING:
            yield from self._stream("weights", ipu, "read", self._read_bytes(segment))

    def _read_bytes(self, segment: Segment) -> int:
        """Return the size of the weights that the blocks of a segment read. [B]"""
        blocks = (self._workload.blocks[name] for name in segment.blocks)
        return self._plan.precision.read_bytes(parameter for block in blocks for parameter in block.parameters)

    def _cache(self, ipu: int, direction: str, element_count: int) -> Iterator[Step]:
        """Yield the transfer of keys and values, if they are in streaming memory."""
        if self._plan.layout.kv_cache == STREAMING:
            yield from self._stream("keys and values", ipu, direction, element_count * self._workload.activation_bytes)

    def _stream(self, name: str, ipu: int, direction: str, byte_count: int, io_tiles: int = 0) -> Iterator[Step]:
        if byte_count:
            yield Exchange(
                (streaming_transfer(self._plan.system, name, ipu, direction, byte_count, io_tiles=io_tiles),)
            )

    def _loaders(self, steps: int) -> Iterator[Group]:
        """Yield a group for the I/O tiles of each IPU, which load weights in order whenever a slot is free."""
        for stage in self._stages:
            loads = [self._read_bytes(segment) for segment in stage.segments for _ in range(segment.count)]
            for ipu in stage.ipus:
                name = f"loader{ipu}"
                one = [step for byte_count in loads for step in self._fetch(ipu, byte_count)]
                phase = Phase("load", 1, {name: tuple(one)}, WEIGHTS_WAIT)
                yield Group(name, (name,), (phase,) * steps, steps - 1, accounted=False)

    def _fetch(self, ipu: int, byte_count: int) -> Iterator[Step]:
        yield Acquire(f"{self._lane(ipu)}/room", WEIGHTS_WAIT)
        yield from self._stream("weights", ipu, "read", byte_count, self._plan.layout.io_tiles)
        yield Release(f"{self._lane(ipu)}/ready")

    def _hand_over(self, stage: Stage, ipu: int) -> Iterator[Step]:
        """Yield the transfer of all activations to the IPU with the same shard of the next stage."""
        target, byte_count = self._stages[stage.index + 1].ipus[stage.ipus.index(ipu)], self._workload.hidden_bytes
        yield Exchange((link_transfer(self._routes, "activations", INTER_IPU, ipu, target, byte_count),))

    def _all_reduce(self, stage: Stage) -> dict[int, list[Step]]:
        """Return the all-reduce of each IPU of a stage: a reduce-scatter, then an all-gather."""
        system, count = self._plan.system, len(stage.ipus)
        if count == 1:
            return {stage.ipus[0]: []}
        ring = Ring.around(system, self._plan.software.rings_of_shards, stage.ipus)
        barrier = Barrier(f"shards of stage {stage.index}", ALL_REDUCE)
        hidden = self._workload.hidden_bytes
        return {
            ipu: [
                each
                for step, count in ring.steps("all_reduce", ipu, hidden, of_shards=True)
                for each in (step, barrier) * count
            ]
            for ipu in ring.members
        }
