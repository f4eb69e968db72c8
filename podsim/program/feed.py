"""Feed of training data to the IPUs: host servers, host links, a prefetch buffer for each replica.

docs/background/hosts.md describes the model. If servers and links keep up with the shortest time between two
micro-batches, the program does not contain the feed. Source: [popart_pipelining] for the prefetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from podsim.placement.layout import Layout
from podsim.placement.plan import Plan
from podsim.placement.topology import Channel, host_link_ids, streaming_channels
from podsim.program.faults import slow_parts
from podsim.program.host import served_replicas
from podsim.program.replicas import Replicas
from podsim.program.task import Acquire, Exchange, Group, Phase, Release, Step, Transfer, Work
from podsim.program.transfers import HOST, host_load
from podsim.scenario.faults import FaultSpec
from podsim.scenario.hardware import System
from podsim.tiles.account import Account
from podsim.units import cycles_to_ps, seconds_to_ps

HOST_WAIT, EXCHANGE = "host_wait", "exchange"
# The last of these weight updates is accounted: by then the buffer level at the start of an update is constant.
_UPDATES = 3
_LEAST = 1e-9
"""Remaining speed assumed for a channel without any, so that it is found as the slowest without division by zero."""


class Feed:
    """Data feed of all replicas of a program."""

    def __init__(
        self, plan: Plan, replicas: Replicas, faults: Sequence[FaultSpec] = (), *, is_repeated: bool = False
    ) -> None:
        """Prepare the feed; `is_repeated`: the program is repeated, and so contains one weight update."""
        self._plan, self._replicas, self._faults, self._is_repeated = plan, replicas, faults, is_repeated
        self._transfers = {replica: self.transfer(replica) for replica in replicas.simulated}
        cost, clock_hz = plan.stages[0], plan.system.machine.ipu.clock_hz
        cycles = cost.forward.cycles if len(plan.stages) > 1 else cost.cycles
        # Phased execution loads one micro-batch after the other, and waits for each.
        is_fed = not (plan.phases or plan.layout.synthetic)
        self.is_live = is_fed and self.interval_ps() > cycles_to_ps(cycles, clock_hz)

    @property
    def update_count(self) -> int:
        """Number of weight updates in the program, so that the last is in a steady state."""
        return 1 if self._is_repeated else self.steady_from

    @property
    def steady_from(self) -> int:
        """Number of the first weight update in a steady state, from 1 on."""
        return _UPDATES if self.is_live else 1

    def interval_ps(self) -> int:
        """Return the time between two micro-batches of a replica if only servers and links limit it. [ps]"""
        return max(self._totals().values(), default=0)

    @property
    def slowest_channel(self) -> str:
        """Channel that sets the interval between micro-batches, for example `host0/decode`."""
        totals = self._totals()
        return max(totals, key=lambda channel: totals[channel])

    def _totals(self) -> dict[str, int]:
        """Return the time that each channel takes for one micro-batch of every replica on it. [ps]"""
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
        """Return the steps in which an IPU of a replica's first stage waits for a micro-batch and loads it."""
        if self._plan.layout.synthetic:
            return ()
        load = self._load(replica, local)
        if local or not self.is_live:
            return load
        return (Acquire(f"{_name(replica)}/ready", HOST_WAIT), *load, Release(f"{_name(replica)}/room"))

    def groups(self) -> Iterator[Group]:
        """Yield the groups that represent host servers, one lane per replica."""
        count = self.update_count * self._plan.layout.accumulation_factor
        for replica, transfer in self._transfers.items() if self.is_live else ():
            name = _name(replica)
            one = (Acquire(f"{name}/room", HOST_WAIT), Exchange((transfer,)), Release(f"{name}/ready"))
            yield Group(name, (name,), (Phase("feed", 1, {name: one * count}, HOST_WAIT),), accounted=False)

    def semaphores(self) -> dict[str, int]:
        """Return the initial tokens of the prefetch buffers: all places free, no micro-batch ready."""
        if not self.is_live:
            return {}
        depth = self._plan.layout.prefetch_depth
        rooms = {f"{_name(replica)}/room": depth for replica in self._replicas.simulated}
        return rooms | {f"{_name(replica)}/ready": 0 for replica in self._replicas.simulated}

    def _load(self, replica: int, local: int) -> tuple[Step, ...]:
        """Return the load of a micro-batch from the gateway's buffer, or from I/O tiles that have prefetched it."""
        plan, byte_count = self._plan, self._plan.workload.host_input_bytes
        if not plan.layout.fetching_tiles:
            return (Exchange((host_load(plan.system, self._replicas.ipu(replica, local), byte_count),)),)
        return (io_tile_copy("copy from I/O tiles", plan.system, plan.layout, byte_count),)

    def transfer(self, replica: int) -> Transfer:
        """Return the transfer of a micro-batch through server and links, all of which it occupies at once."""
        plan, workload = self._plan, self._plan.workload
        system, machine = plan.system, plan.system.machine
        ipu = self._replicas.ipu(replica, 0)
        host, sharers = self._replicas.host(replica)
        processes = ceil(self._replicas.per_host / served_replicas(plan))
        decode = workload.host_decode_count * system.host.decode_s_per_image(processes)
        channels: list[Channel] = [
            Channel(host_link_ids(ipu // machine.ipu_count)[0], machine.host_link.bandwidth_bytes_per_s)
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
            # Replicas of one process request input at the same time: each gets an equal share of its bandwidth.
            one_s = served_replicas(plan) * workload.host_input_bytes / handed_over
            occupied.append((f"replica{replica}/process", seconds_to_ps(one_s)))
        return Transfer("micro-batch", HOST, tuple(occupied), size=ceil(workload.host_input_bytes))


def io_tile_copy(name: str, system: System, layout: Layout, byte_count: float) -> Work:
    """Return the exchange of `byte_count` bytes between I/O tiles and compute tiles, bound by the I/O tiles' ports."""
    ipu = system.machine.ipu
    cycles = byte_count / layout.io_tiles / ipu.exchange.bytes_per_cycle
    account = Account(exchange=cycles, superstep=ipu.superstep.overhead_cycles)
    return Work(name, tuple((kind, cycles_to_ps(part, ipu.clock_hz)) for kind, part in account.parts()))


def _name(replica: int) -> str:
    return f"feed{replica}"
