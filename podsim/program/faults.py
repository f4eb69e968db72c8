"""Conversion of faults of a pod into slowdowns of lanes and channels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from podsim.errors import ModelError
from podsim.placement.rings import OWN_LINK
from podsim.placement.topology import Routes
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
                yield from (link, *(name for name in channels if name.startswith(f"{link}{OWN_LINK}")))
        case "host":
            yield f"host{fault.host}/decode"
        case _:
            yield from (name for name in channels if _is_part(name, fault))


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


def _is_part(channel: str, fault: FaultSpec) -> bool:
    """Return True if a channel belongs to the faulty part of a machine; GW-Links count in both directions."""
    place, _, rest = channel.partition("/")
    machine = f"machine{fault.machine}"
    match fault.part:
        case "gw_link":
            ends = place.removeprefix("machine").split("-") if place.startswith("machine") else []
            return rest == "gw_link" and str(fault.machine) in ends
        case "streaming_memory":
            return place == machine and rest == "streaming"
        case _:
            return place == machine and rest.startswith("host_link")


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
