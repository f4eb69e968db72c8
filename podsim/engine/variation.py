"""Variation of durations: sampled jitter, and temporary slowdowns of lanes.

All arithmetic is on integers, so that both engines agree to the picosecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from podsim.program.task import Jitter, Slowdown

RELATIVE_BITS = 32
_WORD_BITS = 64
JITTER, SLOWED = "jitter", "slowed"
"""Kinds of time that jitter and slowdowns add to work."""
_MASK = (1 << _WORD_BITS) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFTS = 30, 27, 31


def _mixed(x: int) -> int:
    """Return the mixing function of SplitMix64. Source: [steele2014]."""
    x = (x + _STEP) & _MASK
    x = ((x ^ (x >> _SHIFTS[0])) * _FIRST) & _MASK
    x = ((x ^ (x >> _SHIFTS[1])) * _SECOND) & _MASK
    return x ^ (x >> _SHIFTS[-1])


def sample_jitter(seed: int, jitter: Jitter, visit: int, duration_ps: int) -> int:
    """Return the change of a duration by jitter at one visit, at least minus the duration itself. [ps]"""
    bits = _mixed(seed & _MASK ^ _mixed(jitter.stream ^ _mixed(visit)))
    value = jitter.table[bits >> (_WORD_BITS + 1 - len(jitter.table).bit_length())]
    return max(-duration_ps, duration_ps * value >> RELATIVE_BITS if jitter.relative else value)


def slowdowns_by_name(slowdowns: Iterable[Slowdown]) -> Mapping[str, Sequence[Slowdown]]:
    """Return the slowdowns of each lane or channel, in order of time."""
    found: dict[str, list[Slowdown]] = {}
    for slowdown in sorted(slowdowns, key=lambda each: each.start_ps):
        found.setdefault(slowdown.name, []).append(slowdown)
    return found


def end_of_work(slowdowns: Sequence[Slowdown], now_ps: int, duration_ps: int) -> int | None:
    """Return the time at which work that begins now ends, or None if it never ends. [ps]"""
    left, now = duration_ps, now_ps
    for slowdown in slowdowns:
        if slowdown.end_ps is not None and slowdown.end_ps <= now:
            continue
        if slowdown.start_ps > now:
            if left <= slowdown.start_ps - now:
                return now + left
            left -= slowdown.start_ps - now
            now = slowdown.start_ps
        share, speed = slowdown.speed.denominator, slowdown.speed.numerator
        if not speed:
            if slowdown.end_ps is None:
                return None
            now = slowdown.end_ps
            continue
        takes = -(-left * share // speed)
        if slowdown.end_ps is None or takes <= slowdown.end_ps - now:
            return now + takes
        left -= (slowdown.end_ps - now) * speed // share
        now = slowdown.end_ps
    return now + left
