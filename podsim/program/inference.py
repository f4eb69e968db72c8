"""A step of inference as tasks: weights come in, shards compute and add up, stages hand on, the host samples.

Shards of a layer add up their partial sums in a ring over their IPUs. Weights that are streamed
are waited for layer by layer, or loaded by I/O tiles into a second slot while the layer before computes.

Source: [popxl_llama], [gcl_topologies].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from podsim.cost.account import Account
from podsim.errors import MissingDataError
from podsim.plan.inference import STREAMING as STREAMING_MEMORY
from podsim.plan.inference import InferencePlan, StepCost
from podsim.program.passes import BUBBLE, INTER_IPU, work
from podsim.program.rings import peripheral_ring, step_latency_s
from podsim.program.task import Acquire, Barrier, Exchange, Group, Phase, Program, Release, Step, Transfer, Work
from podsim.program.transfers import HOST, link_transfer, streaming_transfer
from podsim.units import seconds_to_ps

ALL_REDUCE, WEIGHTS_WAIT = "all_reduce", "weights_wait"
_SLOTS = 2
# With loads that overlap, the accounted step follows another one, whose end they begin under.
_STEPS = 2


def compile_step(plan: InferencePlan, cost: StepCost, *, explicit: bool = False) -> Program:
    """One step of one batch through all stages.

    Args:
        plan: The model on its IPUs.
        cost: Prefill or decode.
        explicit: Write out every layer; otherwise the layers of a stage are one phase that repeats.

    Raises:
        MissingDataError: The software stack does not say what a call for a token costs.
    """
    return _StepProgram(plan, cost, explicit=explicit).program()


def compile_turn(plan: InferencePlan, cost: StepCost) -> Program:
    """A turn of all stages at once, each at a batch of its own, behind another turn.

    Args:
        plan: The model on its IPUs.
        cost: Prefill or decode.
    """
    return _StepProgram(plan, cost, explicit=True).turn()


def stages_interfere(plan: InferencePlan) -> bool:
    """Whether a stage is slower while the others work: loads run under them, or share a machine's memory."""
    options = plan.options
    if options.batches_in_flight == 1:
        return False
    streams = options.weights_streamed or options.kv_cache == STREAMING_MEMORY
    overlaps = options.weights_streamed and options.io_tiles > 0
    return overlaps or (streams and options.tensor_parallel < plan.system.machine.ipu_count)


class _StepProgram:
    """What the phases of a step have in common."""

    def __init__(self, plan: InferencePlan, cost: StepCost, *, explicit: bool) -> None:
        self._plan, self._cost, self._explicit = plan, cost, explicit
        self._options = plan.options
        self._overlaps = plan.options.weights_streamed and plan.options.io_tiles > 0
        self._sums = [self._all_reduce(stage) for stage in range(plan.options.pipeline_stages)]

    def program(self) -> Program:
        """The step, after another one if loads begin under it."""
        return self._behind_warm_up(tuple(self._phases()))

    def turn(self) -> Program:
        """The phases of all stages side by side."""
        steps: dict[str, tuple[Step, ...]] = {}
        for phase in self._phases():
            for lane, each in phase.steps.items():
                steps[lane] = steps.get(lane, ()) + each
        return self._behind_warm_up((Phase("turn", 1, steps, BUBBLE),))

    def _behind_warm_up(self, phases: tuple[Phase, ...]) -> Program:
        lanes = tuple(self._lane(ipu) for ipu in range(self._options.ipu_count))
        steps = _STEPS if self._overlaps else 1
        group = Group("replica0", lanes, phases * steps, len(phases) * (steps - 1))
        if not self._overlaps:
            return Program((group,))
        tokens = {f"{lane}/{what}": count for lane in lanes for what, count in (("room", _SLOTS), ("ready", 0))}
        return Program((group, *self._loaders(steps)), tokens)

    def _lane(self, ipu: int) -> str:
        return f"ipu{ipu}"

    def _ipus(self, stage: int) -> range:
        first = stage * self._options.tensor_parallel
        return range(first, first + self._options.tensor_parallel)

    def _phases(self) -> Iterator[Phase]:
        last = self._options.pipeline_stages - 1
        for stage, layers in enumerate(self._plan.layers):
            if stage == 0:
                yield self._phase("embedding", 0, self._embedding)
            alike = not (self._overlaps or self._explicit)
            for number in range(1 if alike else layers):
                name = f"layers {stage}" if alike else f"layers {stage} {number}"
                yield self._phase(name, stage, partial(self._layer, stage), layers if alike else 1)
            if stage < last:
                yield self._phase(f"hand over {stage}", stage, self._hand_over)
        yield self._phase("head", last, self._head)
        call = Work("sample", ((HOST, seconds_to_ps(self._token_call_s())),))
        yield self._phase("sample", last, lambda _: (call,))

    def _phase(self, name: str, stage: int, steps_of: Callable[[int], Iterable[Step]], count: int = 1) -> Phase:
        return Phase(name, count, {self._lane(ipu): tuple(steps_of(ipu)) for ipu in self._ipus(stage)}, BUBBLE)

    def _token_call_s(self) -> float:
        software = self._plan.software
        if software.token_call_s is None:
            raise MissingDataError(
                f"{software.name} does not say what a call for a token costs", do="set software.token_call"
            )
        return software.token_call_s

    def _embedding(self, ipu: int) -> Iterator[Step]:
        yield from self._load(ipu, self._cost.reads.embedding)
        yield self._work("embedding", self._cost.account("embedding"))
        yield from self._add_up("embedding", 0, ipu)
        yield from self._unload(ipu)

    def _layer(self, stage: int, ipu: int) -> Iterator[Step]:
        yield from self._load(ipu, self._cost.reads.layer)
        yield from self._stream("keys and values", ipu, "read", self._cost.kv_load_bytes)
        yield self._work("attention", self._cost.account("attention"))
        yield from self._stream("keys and values", ipu, "write", self._cost.kv_store_bytes)
        yield from self._add_up("attention", stage, ipu)
        yield self._work("feed-forward", self._cost.account("feed_forward"))
        yield from self._add_up("feed_forward", stage, ipu)
        yield from self._unload(ipu)

    def _head(self, ipu: int) -> Iterator[Step]:
        yield from self._load(ipu, self._cost.reads.head)
        yield self._work("head", self._cost.account("head"))
        yield from self._unload(ipu)

    def _add_up(self, block: str, stage: int, ipu: int) -> Iterator[Step]:
        if self._cost.adds_up(block):
            yield from self._sums[stage][ipu]

    def _work(self, name: str, account: Account) -> Work:
        return work(name, account, self._plan.system.machine.ipu.clock_hz)

    def _load(self, ipu: int, parameter_count: int) -> Iterator[Step]:
        """Weights that are not on the chip."""
        if self._overlaps:
            yield Acquire(f"{self._lane(ipu)}/ready", WEIGHTS_WAIT)
        elif self._options.weights_streamed:
            yield from self._stream("weights", ipu, "read", self._options.weight_bytes(parameter_count))

    def _unload(self, ipu: int) -> Iterator[Step]:
        if self._overlaps:
            yield Release(f"{self._lane(ipu)}/room")

    def _stream(self, name: str, ipu: int, direction: str, byte_count: int, io_tiles: int = 0) -> Iterator[Step]:
        if byte_count:
            yield Exchange((streaming_transfer(self._plan.system, name, ipu, direction, byte_count, io_tiles),))

    def _loaders(self, steps: int) -> Iterator[Group]:
        """I/O tiles of every IPU: embedding, layers and head in turn, as long as there is room."""
        reads, last = self._cost.reads, self._options.pipeline_stages - 1
        for stage, layers in enumerate(self._plan.layers):
            counts = [reads.embedding] if stage == 0 else []
            counts += [reads.layer] * layers
            counts += [reads.head] if stage == last else []
            for ipu in self._ipus(stage):
                lane, name = self._lane(ipu), f"loader{ipu}"
                one = [step for count in counts for step in self._fetch(ipu, lane, count)]
                phase = Phase("load", 1, {name: tuple(one)}, WEIGHTS_WAIT)
                yield Group(name, (name,), (phase,) * steps, steps - 1, accounted=False)

    def _fetch(self, ipu: int, lane: str, parameter_count: int) -> Iterator[Step]:
        yield Acquire(f"{lane}/room", WEIGHTS_WAIT)
        weights = self._options.weight_bytes(parameter_count)
        yield from self._stream("weights", ipu, "read", weights, self._options.io_tiles)
        yield Release(f"{lane}/ready")

    def _hand_over(self, ipu: int) -> Iterator[Step]:
        """Activations to the IPU of the next stage that holds the same shard."""
        target = ipu + self._options.tensor_parallel
        byte_count = self._cost.hidden_bytes / self._options.tensor_parallel
        yield Exchange((link_transfer(self._plan.system, "activations", INTER_IPU, ipu, target, byte_count),))

    def _all_reduce(self, stage: int) -> dict[int, list[Step]]:
        """The steps of each IPU of a stage: reduce-scatter, then all-gather, n - 1 steps each."""
        ring = peripheral_ring(self._ipus(stage))
        count = len(ring)
        if count == 1:
            return {ring[0]: []}
        barrier = Barrier(f"shards of stage {stage}", ALL_REDUCE)
        latency_s = step_latency_s(self._plan.system, self._plan.software, ring)
        return {
            ipu: [Exchange(tuple(self._chunks(ring, place, latency_s))), barrier] * (2 * (count - 1))
            for place, ipu in enumerate(ring)
        }

    def _chunks(self, ring: Sequence[int], place: int, latency_s: float) -> Iterator[Transfer]:
        targets = {ring[(place + 1) % len(ring)]}
        if self._plan.software.collective_both_ways:
            targets.add(ring[place - 1])
        chunk = self._cost.hidden_bytes / len(ring) / len(targets)
        for target in sorted(targets):
            yield link_transfer(self._plan.system, "chunk", ALL_REDUCE, ring[place], target, chunk, latency_s)
