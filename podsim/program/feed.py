"""How training data reaches the IPUs: host servers, host links, a buffer in front of each replica.

docs/background/hosts.md says how. Where servers and links keep up with the shortest time between two micro-batches, the
program leaves the feed out. Source: [popart_pipelining] for the prefetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from podsim.placement.layout import Layout
from podsim.placement.plan import Plan
from podsim.placement.topology import Channel, streaming_channels
from podsim.program.faults import slow_parts
from podsim.program.host import served
from podsim.program.replicas import Replicas
from podsim.program.task import Acquire, Exchange, Group, Phase, Release, Step, Transfer, Work
from podsim.program.transfers import HOST, host_load
from podsim.scenario.faults import FaultSpec
from podsim.scenario.hardware import System
from podsim.tiles.account import Account
from podsim.units import cycles_to_ps, seconds_to_ps

HOST_WAIT, EXCHANGE = "host_wait", "exchange"
# The last of these is accounted: by then what is buffered at the start of an update no longer changes.
_UPDATES = 3
_LEAST = 1e-9
"""Share of its speed that a channel without any is taken to keep where only the slowest channel is asked for."""


class Feed:
    """The data of all replicas of a program."""

    def __init__(
        self, plan: Plan, replicas: Replicas, faults: Sequence[FaultSpec] = (), *, is_repeated: bool = False
    ) -> None:
        """`is_repeated`: the program is gone through again and again, and so holds one weight update."""
        self._plan, self._replicas, self._faults, self._is_repeated = plan, replicas, faults, is_repeated
        self._transfers = {replica: self.transfer(replica) for replica in replicas.kept}
        cost, clock_hz = plan.stages[0], plan.system.machine.ipu.clock_hz
        cycles = cost.forward.cycles if len(plan.stages) > 1 else cost.cycles
        # Phases take in one micro-batch after the other, and wait for each.
        self.is_live = not plan.phases and self.interval_ps() > cycles_to_ps(cycles, clock_hz)

    @property
    def update_count(self) -> int:
        """Weight updates that the program holds so that the last one is in a steady state."""
        return 1 if self._is_repeated else self.steady_from

    @property
    def steady_from(self) -> int:
        """Number of the first weight update in a steady state, from 1 on."""
        return _UPDATES if self.is_live else 1

    def interval_ps(self) -> int:
        """Time between two micro-batches of a replica, if only servers and links set the pace. [ps]"""
        return max(self._totals().values(), default=0)

    @property
    def slowest_channel(self) -> str:
        """The channel that sets this interval, for example `host0/decode`."""
        totals = self._totals()
        return max(totals, key=lambda channel: totals[channel])

    def _totals(self) -> dict[str, int]:
        """Time that each channel takes for one micro-batch of every replica on it. [ps]"""
        totals: dict[str, int] = {}
        for transfer in self._transfers.values():
            for channel, work in transfer.channels:
                totals[channel] = totals.get(channel, 0) + work
        for fault in self._faults:
            for channel in slow_parts(fault, self._plan.system, totals):
                if channel in totals:
                    totals[channel] = ceil(totals[channel] / max(fault.share, _LEAST))
        return totals

    def input_steps(self, replica: int, local: int = 0) -> tuple[Step, ...]:
        """Steps with which an IPU of a replica's first stage gets a micro-batch; the first of them waits for it."""
        load = self._load(replica, local)
        if local or not self.is_live:
            return load
        return (Acquire(f"{_name(replica)}/ready", HOST_WAIT), *load, Release(f"{_name(replica)}/room"))

    def groups(self) -> Iterator[Group]:
        """The servers' part, one lane per replica."""
        count = self.update_count * self._plan.layout.accumulation_factor
        for replica, transfer in self._transfers.items() if self.is_live else ():
            name = _name(replica)
            one = (Acquire(f"{name}/room", HOST_WAIT), Exchange((transfer,)), Release(f"{name}/ready"))
            yield Group(name, (name,), (Phase("feed", 1, {name: one * count}, HOST_WAIT),), accounted=False)

    def semaphores(self) -> dict[str, int]:
        """Buffers at the start: all room, nothing ready."""
        if not self.is_live:
            return {}
        depth = self._plan.layout.prefetch_depth
        rooms = {f"{_name(replica)}/room": depth for replica in self._replicas.kept}
        return rooms | {f"{_name(replica)}/ready": 0 for replica in self._replicas.kept}

    def _load(self, replica: int, local: int) -> tuple[Step, ...]:
        """From the gateway's buffer, or from I/O tiles that fetched it meanwhile."""
        plan, byte_count = self._plan, self._plan.workload.host_input_bytes
        if not plan.layout.fetching_tiles:
            return (Exchange((host_load(plan.system, self._replicas.ipu(replica, local), byte_count),)),)
        return (io_tile_copy("copy from I/O tiles", plan.system, plan.layout, byte_count),)

    def transfer(self, replica: int) -> Transfer:
        """A micro-batch over all that it occupies at once: it streams through server and links."""
        plan, workload = self._plan, self._plan.workload
        system, machine = plan.system, plan.system.machine
        ipu = self._replicas.ipu(replica, 0)
        host, sharers = self._replicas.host(replica)
        processes = ceil(self._replicas.per_host / served(plan))
        decode = workload.host_decode_count * system.host.decode_s_per_image(processes)
        channels: list[Channel] = [
            Channel(f"machine{ipu // machine.ipu_count}/host_link", machine.host_link.bandwidth_bytes_per_s)
        ]
        if plan.layout.fetching_tiles:
            channels += streaming_channels(system, ipu, "read", plan.layout.io_tiles)
        occupied = [
            (channel.id, seconds_to_ps(workload.host_input_bytes / channel.bandwidth_bytes_per_s))
            for channel in channels
        ]
        occupied.append((f"host{host}/decode", sharers * seconds_to_ps(decode)))
        if (network := system.host.network) is not None:
            sent_s = workload.host_input_bytes / network.bandwidth_bytes_per_s
            occupied.append((f"host{host}/network", sharers * seconds_to_ps(sent_s)))
        # A process hands over the samples that it loads itself in the time that it takes to load them.
        handed_over = plan.software.process_input_bytes_per_s
        if handed_over and not plan.layout.loads_itself:
            # Every replica has its share of its process: all of them want the same at the same time.
            one_s = served(plan) * workload.host_input_bytes / handed_over
            occupied.append((f"replica{replica}/process", seconds_to_ps(one_s)))
        return Transfer("micro-batch", HOST, tuple(occupied), size=ceil(workload.host_input_bytes))


def io_tile_copy(name: str, system: System, layout: Layout, byte_count: float) -> Work:
    """Every I/O tile sends or receives its share; the compute tiles do the other meanwhile."""
    ipu = system.machine.ipu
    cycles = byte_count / layout.io_tiles / ipu.exchange.bytes_per_cycle
    account = Account(exchange=cycles, superstep=ipu.superstep.overhead_cycles)
    return Work(name, tuple((kind, cycles_to_ps(part, ipu.clock_hz)) for kind, part in account.parts()))


def _name(replica: int) -> str:
    return f"feed{replica}"
