"""Conversion of faults of a pod into slowdowns of lanes and channels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from podsim.errors import ModelError
from podsim.placement.rings import own_link_id
from podsim.placement.topology import Routes, gw_link_id, host_link_ids, memory_id
from podsim.program.task import Exchange, Program, Slowdown
from podsim.scenario.faults import FaultSpec
from podsim.scenario.hardware import System

_PARTS_OF_ONE: Final = 10**6
"""Resolution of the remaining speed: one millionth."""


def with_faults(program: Program, system: System, faults: Iterable[FaultSpec]) -> Program:
    """Return a program in which the faulty parts are slower all the time."""
    channels = channels_of(program)
    found = (
        Slowdown(name, Fraction(fault.share).limit_denominator(_PARTS_OF_ONE))
        for fault in faults
        for name in slow_parts(fault, system, channels)
    )
    return replace(program, slowdowns=tuple(found))


def slow_parts(fault: FaultSpec, system: System, channels: Iterable[str]) -> Iterator[str]:
    """Yield the names of the lanes and channels that a fault slows."""
    match fault.subject:
        case "ipu":
            yield f"ipu{fault.ipu}"
        case "link":
            assert fault.link is not None
            for source, target in (fault.link, fault.link[::-1]):
                link = _link(system, source, target)
                own = [own_link_id(link, way) for way in (1, -1)]
                yield from (link, *(name for name in channels if name in own))
        case "host":
            yield f"host{fault.host}/decode"
        case _:
            parts = set(_parts(fault, system))
            yield from (name for name in channels if name in parts)


def _link(system: System, source: int, target: int) -> str:
    try:
        channels = Routes(system).between(source, target).channels
    except ValueError:
        channels = ()
    if len(channels) != 1:
        raise ModelError(
            f"IPUs {source} and {target} are not joined by an IPU-Link",
            do="name the partners of a rung, such as 0 and 1, or neighbours on a side, such as 0 and 2",
            key="faults",
        )
    return channels[0].id


def _parts(fault: FaultSpec, system: System) -> Iterable[str]:
    """Return the names of the channels of the faulty part of a machine; GW-Links count in both directions."""
    assert fault.machine is not None
    match fault.part:
        case "gw_link":
            ends = ((fault.machine, peer) for peer in range(system.machine_count))
            return (gw_link_id(*pair) for here, there in ends for pair in ((here, there), (there, here)))
        case "streaming_memory":
            return (memory_id(fault.machine),)
        case _:
            return host_link_ids(fault.machine)


def channels_of(program: Program) -> list[str]:
    """Return the names of all channels of a program, in order of first use."""
    found: dict[str, None] = {}
    for group in program.groups:
        for phase in group.phases:
            for steps in phase.steps.values():
                for step in steps:
                    if isinstance(step, Exchange):
                        found |= {name: None for transfer in step.transfers for name, _ in transfer.channels}
    return list(found)
