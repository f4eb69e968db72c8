"""Compilation of forward passes: one batch through an idle replica, and session calls of many batches.

In each pipeline cycle every stage processes a batch. Then all IPUs synchronise and send activations to the next stage
in one merged exchange. The first stage reads from the gateway's buffer; the last sends its result to the host. Source:
[popart_pipelining].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from podsim.errors import MissingDataError
from podsim.placement.plan import Plan
from podsim.placement.topology import Channel, host_link_ids, streaming_channels
from podsim.program.feed import Feed, io_tile_copy
from podsim.program.host import Call, forward_call, served_replicas
from podsim.program.passes import BUBBLE, IMBALANCE, INTER_IPU, SYNC, work
from podsim.program.replicas import Replicas
from podsim.program.task import Barrier, Exchange, Group, Phase, Program, Step, Transfer, Work
from podsim.program.transfers import HOST, link_transfer, transfer
from podsim.units import cycles_to_ps, seconds_to_ps

_WAYS = ("read", "write")


def compile_one_batch(plan: Plan) -> Program:
    """Compile one batch from its arrival at an idle replica to its result: call, input, stages, output."""
    replicas, call = Replicas(plan.system, plan.layout, explicit=False), forward_call(plan, _call_s(plan), 1)
    (process, *_) = call.processes(plan, replicas)
    return Program((_Replica(plan, replicas, 0, call).one_batch(), process))


def compile_calls(plan: Plan, *, explicit: bool = False) -> Program:
    """Compile a session call of all replicas; unless `explicit`, one replica represents all equal replicas."""
    replicas = Replicas(plan.system, plan.layout, explicit)
    feed = Feed(plan, replicas)
    call = forward_call(plan, _call_s(plan), served_replicas(plan) * plan.layout.accumulation_factor)
    groups = (_Replica(plan, replicas, replica, call).calls(feed) for replica in replicas.simulated)
    return Program((*groups, *feed.groups(), *call.processes(plan, replicas, feed.update_count)), feed.semaphores())


def _call_s(plan: Plan) -> float:
    software = plan.software
    if software.forward_call_s is None:
        what = f"{software.name} does not say what a session call for forward passes costs"
        raise MissingDataError(what, do="set `software.forward_call`, for example to `1 ms`")
    return software.forward_call_s


class _Replica:
    """Phases of the forward passes of one replica."""

    def __init__(self, plan: Plan, replicas: Replicas, replica: int, call: Call) -> None:
        self._plan, self._replicas, self._replica = plan, replicas, replica
        self._call = replace(call.phase(plan, replicas, replica), name="call")
        self._last = len(plan.stages) - 1
        self._ipus = [replicas.ipu(replica, local) for local in range(len(plan.stages))]
        self._lanes = [replicas.lane(replica, local) for local in range(len(plan.stages))]
        ipu = plan.system.machine.ipu
        self._work = [work(f"stage {cost.stage.index}", cost.forward, ipu.clock_hz) for cost in plan.stages]
        self._sync = Work("sync", ((SYNC, cycles_to_ps(ipu.multi_ipu_sync_cycles, ipu.clock_hz)),))
        # Fixed time of a batch's exchange with the host, in addition to its transfers.
        seconds = 0.0 if plan.layout.synthetic else plan.software.forward_exchange_s
        self._answer = (Work("host exchange", ((HOST, seconds_to_ps(seconds)),)),) if seconds else ()
        # With several batches in a call, the IPU does not wait until a result has reached the host.
        self._output: Step = Exchange((self._host_transfer("write"),))
        if plan.layout.fetching_tiles:  # I/O tiles send the result to the host during the next batch
            sent = plan.handed_over_bytes(self._last)
            self._output = io_tile_copy("copy to I/O tiles", plan.system, plan.layout, sent)
        self._hand_over = [Exchange((self._activations(stage),)) for stage in range(self._last)]

    def one_batch(self) -> Group:
        """Return the phases of one batch: call, input, one stage after the other, output."""
        first, last = (self._host_transfer(way, self._plan.system.machine.host_link.latency_s) for way in _WAYS)
        is_fed = not self._plan.layout.synthetic
        phases = [self._call]
        if is_fed:
            phases.append(self._phase("input", 0, *self._answer, Exchange((first,))))
        for stage, work_of_stage in enumerate(self._work):
            phases.append(self._phase(f"stage {stage}", stage, work_of_stage))
            if stage < self._last:
                phases.append(self._phase(f"hand over {stage}", stage, self._sync, self._hand_over[stage]))
        if is_fed:
            phases.append(self._phase("output", self._last, Exchange((last,))))
        return Group(f"replica{self._replica}", tuple(self._lanes), tuple(phases))

    def calls(self, feed: Feed) -> Group:
        """Return the phases of a session call: the call, then pipeline cycles (fill, main, flush)."""
        phases = (self._call, *self._cycles(feed))
        warm_up = len(phases) * (feed.update_count - 1)
        return Group(f"replica{self._replica}", tuple(self._lanes), phases * feed.update_count, warm_up)

    def _phase(self, name: str, stage: int, *steps: Step) -> Phase:
        return Phase(name, 1, {self._lanes[stage]: steps}, BUBBLE)

    def _cycles(self, feed: Feed) -> Iterator[Phase]:
        count = self._plan.layout.accumulation_factor
        for cycle in range(min(self._last, count)):
            yield self._cycle(f"fill {cycle}", range(cycle + 1), feed)
        if count > self._last:
            main = self._cycle("main", range(self._last + 1), feed)
            times = count - self._last
            # The waits for input differ between batches, so cycles are not folded.
            yield from [main] * times if feed.is_live else [replace(main, count=times)]
        for cycle in range(count, count + self._last):
            active = range(cycle - count + 1, min(cycle, self._last) + 1)
            yield self._cycle(f"flush {cycle - count}", active, feed)

    def _cycle(self, name: str, active: range, feed: Feed) -> Phase:
        """Return one pipeline cycle, in which the stages in `active` have a batch."""
        wait = IMBALANCE if name == "main" else BUBBLE
        steps = {lane: tuple(self._steps(stage, active, feed, wait)) for stage, lane in enumerate(self._lanes)}
        return Phase(name, 1, steps, wait)

    def _steps(self, stage: int, active: range, feed: Feed, wait: str) -> Iterator[Step]:
        runs = stage in active
        if runs and stage == 0:
            yield from self._answer if not self._plan.layout.fetching_tiles else ()
            yield from feed.input_steps(self._replica)
        if runs:
            yield self._work[stage]
        if self._last:
            yield Barrier(f"replica{self._replica}/cycle", wait)
            yield self._sync
        if runs:
            if stage < self._last:
                yield self._hand_over[stage]
            elif not self._plan.layout.synthetic:
                yield self._output

    def _activations(self, stage: int) -> Transfer:
        byte_count = self._plan.handed_over_bytes(stage)
        source, target = self._ipus[stage : stage + 2]
        return link_transfer(
            self._replicas.routes, f"activations {stage}→{stage + 1}", INTER_IPU, source, target, byte_count
        )

    def _host_transfer(self, direction: str, latency_s: float = 0.0) -> Transfer:
        """Return a transfer between host and IPU that streams through the gateway."""
        system = self._plan.system
        reads = direction == "read"
        ipu = self._ipus[0 if reads else -1]
        link, streaming = system.machine.host_link, system.machine.streaming_memory
        down, up = host_link_ids(ipu // system.machine.ipu_count)
        channels = (
            Channel(down if reads else up, link.bandwidth_bytes_per_s),
            *streaming_channels(system, ipu, direction),
        )
        byte_count = self._plan.workload.host_input_bytes if reads else self._plan.handed_over_bytes(self._last)
        name = "input" if reads else "result"
        return transfer(name, HOST, channels, byte_count, latency_s + streaming.latency_s)
