"""Attribution of the time of a program's tasks to the scenario keys that set it.

A transfer has two sets of keys: those of its latency, and those of its slowest channel. Work has the keys of its kind
of time; a task of a call has those of its name. The time of helper groups is filed under the kind of time of the lanes
that wait for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from podsim.placement.plan import Plan
from podsim.program.host import CALL, CONVERT, HAND_OVER, LOAD, OPTIMIZER_VALUES, PROCESS, STACK, START_EPOCH
from podsim.program.rings import ALL_TO_ALL
from podsim.program.task import Exchange, Phase, Program, Step, Transfer, Work

Price = tuple[str, ...]
"""Keys of a scenario, or prefixes of keys, that set a time."""
Prices = Mapping[str, Mapping[Price, int]]
"""Time of tasks of all lanes together, by kind of time and price. [ps]"""

_MACHINE: Final = "system.machine"
_CLOCK: Final = f"{_MACHINE}.ipu.clock"
_VERTICES: Final = (_CLOCK, f"{_MACHINE}.ipu.tile", f"{_MACHINE}.ipu.vertices")
_EXCHANGE: Final = (_CLOCK, f"{_MACHINE}.ipu.tile.count", f"{_MACHINE}.ipu.exchange")
_LAYOUT: Final = (*_EXCHANGE, f"{_MACHINE}.ipu.vertices", "software.layout_change_cycles_per_byte")
_SUPERSTEP: Final = (_CLOCK, f"{_MACHINE}.ipu.superstep")
_HOPS: Final = (
    f"{_MACHINE}.ipu_link.first_hop_latency",
    f"{_MACHINE}.ipu_link.hop_latency",
    f"{_MACHINE}.ipu_link.rung_latency",
)
_COLLECTIVE_STEP: Final = (_CLOCK, f"{_MACHINE}.ipu.multi_ipu_sync", f"{_MACHINE}.ipu.superstep", *_HOPS)
_STREAMING: Final = f"{_MACHINE}.streaming_memory"
_HOST_LINK: Final = f"{_MACHINE}.host_link"
_COLLECTIVES: Final = ("all_reduce", "tensor_parallel")

_WORK: Final[Mapping[str, Price]] = {
    "matmul": (*_VERTICES, f"{_MACHINE}.ipu.amp"),
    "vector": _VERTICES,
    "reduction": _VERTICES,
    "optimizer": (*_VERTICES, *_LAYOUT, *_SUPERSTEP),
    "exchange": _EXCHANGE,
    "rearrange": (*_LAYOUT, "software.unexplained_cycles_per_byte"),
    "sync": (_CLOCK, f"{_MACHINE}.ipu.multi_ipu_sync"),
    "superstep": _SUPERSTEP,
    **dict.fromkeys(_COLLECTIVES, _COLLECTIVE_STEP),
}
_LATENCIES: Final[Mapping[str, Price]] = {
    "inter_ipu": _HOPS,
    **dict.fromkeys((*_COLLECTIVES, ALL_TO_ALL), _COLLECTIVE_STEP),
    "gw_link": (
        *(f"{_MACHINE}.{name}" for name in ("gateway_link.latency", "gw_link.latency")),
        *(f"{_MACHINE}.ipu.{name}" for name in ("multi_ipu_sync", "superstep")),
    ),
    "streaming": (f"{_STREAMING}.latency",),
    "host": (f"{_STREAMING}.latency", f"{_HOST_LINK}.latency"),
}
_GW_LINK: Final = f"{_MACHINE}.gw_link"
_GATEWAY: Final = (f"{_MACHINE}.gateway_link.bandwidth_per_direction", f"{_MACHINE}.gateway_link.efficiency")
# By suffix of the channel's name; any other channel is an IPU-Link.
_CHANNELS: Final[Mapping[str, Price]] = {
    "/streaming/read": (f"{_STREAMING}.read_bandwidth_per_ipu",),
    "/streaming/write": (f"{_STREAMING}.write_bandwidth_per_ipu",),
    "/streaming": (f"{_STREAMING}.bandwidth_per_machine",),
    # The first fragment passes the hops one after the other, so the fragment size counts.
    "/gw/up": (f"{_GW_LINK}.buffer_write_bandwidth_per_ipu", f"{_GW_LINK}.fragment_size"),
    "/gw/down": (f"{_GW_LINK}.buffer_read_bandwidth_per_ipu",),
    "/gw_link": (
        *(f"{_GW_LINK}.{name}" for name in ("port_count", "bandwidth_per_direction", "efficiency", "fragment_size")),
    ),
    "/host_link": (f"{_HOST_LINK}.bandwidth_per_direction", f"{_HOST_LINK}.efficiency"),
    "/host_link/up": (f"{_HOST_LINK}.bandwidth_per_direction", f"{_HOST_LINK}.efficiency"),
    "/gateway/read": _GATEWAY,
    "/gateway/write": _GATEWAY,
    "/network": tuple(f"system.host.network.{key}" for key in ("port_count", "bandwidth_per_direction", "efficiency")),
    "/decode": ("system.host",),
    "/process": ("software.process_input_bandwidth",),
}
_IPU_LINK: Final = tuple(
    f"{_MACHINE}.{key}"
    for key in (
        "ipu_link.bandwidth_per_direction",
        "ipu_link.efficiency",
        "rung_link_count",
        "rail_link_count",
    )
)


TRAINING_CALLS: Final[Mapping[str, Price]] = {
    LOAD: ("software.sample_load_time",),
    STACK: ("software.collation_bandwidth",),
    START_EPOCH: ("software.epoch_start_time",),
    HAND_OVER: ("software.stream_time",),
    OPTIMIZER_VALUES: ("software.stream_time", "software.optimizer_values_per_tensor"),
    CALL: ("software.host_call", "software.replica_call_time"),
}
"""Prices of the tasks of a training process, by name."""
FORWARD_CALLS: Final[Mapping[str, Price]] = {
    HAND_OVER: ("software.stream_time",),
    CALL: ("software.forward_call",),
    CONVERT: ("system.host.number_conversion_time",),
    "host exchange": ("software.forward_exchange",),
}
"""Prices of the tasks of a process that runs forward passes, by name."""


def generation_calls(plan: Plan) -> Mapping[str, Price]:
    """Return the prices of the calls of text generation, by name of their work."""
    handed_over = ("software.sampling_per_logit",) if plan.layout.logits_per_sequence else ()
    return {"sample": ("software.token_call", *handed_over)}


def task_prices(program: Program, plan: Plan, calls: Mapping[str, Price]) -> Prices:
    """Return the time of a program's tasks by the scenario keys that set it."""
    lanes = [len(group.lanes) for group in program.groups if group.accounted]
    processes = sum(group.name.startswith(PROCESS) for group in program.groups)
    found = _Tally(plan, calls, sum(lanes) // max(1, processes))
    for accounted in (True, False):
        groups = [group.phases[group.warm_up :] for group in program.groups if group.accounted is accounted]
        # Phases that groups run at the same time; phases with the same steps are counted together.
        known: dict[tuple[int, ...], list[Phase]] = {}
        counts: Counter[tuple[int, ...]] = Counter()
        for row in zip_longest(*groups):
            phases = [phase for phase in row if phase is not None]
            key = tuple(id(phase.steps) for phase in phases)
            known[key] = phases
            counts[key] += phases[0].count
        for key, phases in known.items():
            found.add(phases, counts[key], helps=not accounted)
    return found.times


class _Tally:
    """Sum of times by kind and price."""

    def __init__(self, plan: Plan, calls: Mapping[str, Price], lanes_per_process: int) -> None:
        self._plan, self._calls, self._lanes_per_process = plan, calls, lanes_per_process
        self.times: dict[str, Counter[Price]] = {}  # [ps]

    def add(self, phases: Sequence[Phase], count: int, *, helps: bool) -> None:
        """Add phases of different groups that run at the same time, `count` times."""
        lanes = []
        for phase in phases:
            for steps in phase.steps.values():  # distinct steps in order, each with its number of occurrences
                counts = Counter(map(id, steps))
                distinct = [(step, counts[key]) for key, step in {id(step): step for step in steps}.items()]
                lanes.append((phase, distinct))
        loads = _loads(steps for _, steps in lanes)
        for phase, distinct in lanes:
            waited, together = phase.wait_kind if helps else None, iter(loads)
            for step, times in distinct:
                if isinstance(step, Work):  # all lanes that a process calls wait for its work
                    self._work(step, count * times * (self._lanes_per_process if helps else 1))
                elif isinstance(step, Exchange):
                    self._exchange(step, next(together), count * times, waited)

    def _work(self, work: Work, count: int) -> None:
        for kind, time_ps in work.parts:
            price = self._calls.get(work.name) or _WORK.get(kind, ())
            self._file(kind, price, time_ps * count)

    def _exchange(self, exchange: Exchange, loads: Counter[str], count: int, waited: str | None) -> None:
        """File the time of the slowest transfer of an exchange."""
        longest = max(exchange.transfers, key=lambda each: each.latency_ps + _slowest(each, loads)[1])
        channel, time_ps = _slowest(longest, loads)
        kind = waited or longest.kind
        self._file(kind, _LATENCIES.get(longest.kind, ()), longest.latency_ps * count)
        self._file(kind, self._channel_price(channel, longest.kind), time_ps * count)

    def _file(self, kind: str, price: Price, time_ps: int) -> None:
        if time_ps:
            self.times.setdefault(kind, Counter())[price] += time_ps

    def _channel_price(self, channel: str, kind: str) -> Price:
        price = next((each for end, each in _CHANNELS.items() if channel.endswith(end)), _IPU_LINK)
        if kind in _COLLECTIVES:
            return (*price, "software.collective_rings")
        machine, io_tiles = self._plan.system.machine, self._plan.layout.io_tiles
        rates = {"read": machine.streaming_memory.read_bytes_per_s, "write": machine.streaming_memory.write_bytes_per_s}
        rate = rates.get(channel.rpartition("/streaming/")[2])
        # The ports of I/O tiles may be slower than streaming memory.
        return _EXCHANGE if rate and io_tiles and machine.ipu.exchange_bytes_per_s(io_tiles) < rate else price


def _loads(lanes: Iterable[Sequence[tuple[Step, int]]]) -> list[Counter[str]]:
    """Return the time on each channel of the first, second, … exchanges of all lanes together. [ps]"""
    loads: list[Counter[str]] = []
    for steps in lanes:
        exchanges = [step for step, _ in steps if isinstance(step, Exchange)]
        loads += [Counter() for _ in range(len(exchanges) - len(loads))]
        for load, exchange in zip(loads, exchanges, strict=False):
            for transfer in exchange.transfers:
                for channel, time_ps in transfer.channels:
                    load[channel] += time_ps
    return loads


def _slowest(transfer: Transfer, loads: Counter[str]) -> tuple[str, int]:
    """Return the fullest channel of a transfer, and the time of all traffic on that channel. [ps]"""
    return max(((channel, loads[channel]) for channel, _ in transfer.channels), key=lambda pair: pair[1])
