"""Charts of a comparison and of a check: what each kind of time adds, and how far figures have moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Final

from podsim.errors import PodsimError
from podsim.format import format_error, unit_for_s
from podsim.many.checks.verdict import GAIN, Finding
from podsim.many.compare import Comparison
from podsim.many.compare.difference import Waterfall
from podsim.many.compare.show import change_of, duration_of_ps, waterfall_table
from podsim.report.chart import FASTER, SLOWER, TOTAL, Axis, Bar, Bars, Chart, Fill, Sheet
from podsim.result.kinds import kind_of
from podsim.units import ps_to_seconds

_PRECISION: Final = 4
_SMALL: Final = 0.35
_MARGIN: Final = 0.18
_FILLS: Final = {"less time": FASTER, "more time": SLOWER}
_MOST_BARS: Final = 30
_PERCENT: Final = 100
_ROOM: Final = 1.3


def comparison_sheet(found: Comparison) -> Sheet:
    """The waterfalls of a comparison, of which there is at least one.

    Raises:
        PodsimError: It has no waterfall.
    """
    drawn = [[waterfall_chart(each, letter)] for letter, other in found.lettered() for each in other.waterfalls]
    if not drawn:
        what = f"results of {found.subjects[0].activity} hold no time by kind, so that there is nothing to draw"
        raise PodsimError(what, do="leave `--plot` out")
    about = [f"{letter}: {each.about}" for letter, each in zip(ascii_uppercase, found.subjects, strict=False)]
    return Sheet(comparison_title(found), drawn, about, inputs=found.inputs)


def comparison_title(found: Comparison) -> str:
    """The title of a comparison: its sides."""
    return f"{' and '.join(each.label for each in found.subjects[1:])} against {found.subjects[0].label}"


def waterfall_chart(waterfall: Waterfall, letter: str) -> Chart:
    """A chart of the time that each kind adds or takes on the way from A to another; it adds up exactly."""
    a_ps, b_ps = waterfall.a_ps, waterfall.b_ps
    scale_s, unit = unit_for_s(ps_to_seconds(max(a_ps, b_ps)))
    change = f", {change_of(b_ps / a_ps - 1, _PRECISION)}" if a_ps else ""
    times = " to ".join(duration_of_ps(each, _PRECISION) for each in (a_ps, b_ps))
    steps = list(_steps(waterfall, letter))
    lowest, highest = ends_of_axis([each for _, *ends, _, _ in steps for each in ends])
    low, high = (ps_to_seconds(each) / scale_s for each in (lowest, highest))
    bars = [
        Bar(
            name,
            max(low, ps_to_seconds(start_ps) / scale_s),
            ps_to_seconds(end_ps) / scale_s,
            fill,
            text,
            tip={"what": name, "time": text},
        )
        for name, start_ps, end_ps, fill, text in steps
    ]
    return Chart(
        title=f"{waterfall.span.capitalize()} from A to {letter}: {times}{change}",
        description=f"Waterfall of the {waterfall.span} from A to {letter}, {times}, by kind of time.",
        drawn=Bars(bars, Axis(waterfall.span, unit, (low, high))),
        legend=_FILLS,
        numbers=replace(waterfall_table(waterfall, letter, _PRECISION), title=""),
        notes=["The axis does not begin at 0."] if lowest > 0 else [],
    )


def _steps(waterfall: Waterfall, letter: str) -> Iterator[tuple[str, int, int, Fill, str]]:
    """Name, start, end, fill and text of each bar: all of A, what changed, all of the other. [ps]"""
    at_ps = waterfall.a_ps
    yield "A", 0, at_ps, TOTAL, duration_of_ps(at_ps, _PRECISION)
    for step in waterfall.steps:
        if step.change_ps:
            more = step.change_ps > 0
            text = f"{'+' if more else '-'}{duration_of_ps(abs(step.change_ps), _PRECISION)}"
            fill = _FILLS["more time" if more else "less time"]
            yield kind_of(step.kind).label, at_ps, at_ps + step.change_ps, fill, text
            at_ps += step.change_ps
    yield letter, 0, at_ps, TOTAL, duration_of_ps(at_ps, _PRECISION)


def ends_of_axis(edges_ps: list[int]) -> tuple[int, int]:
    """Ends of an axis on which bars are seen that are short beside the whole; it begins at 0 unless they are.

    >>> ends_of_axis([0, 100, 100, 60, 0, 60]), ends_of_axis([0, 1000, 1000, 1020, 0, 1020])
    ((0, 100), (996, 1024))
    """
    reached = [each for each in edges_ps if each]
    low, high = min(reached, default=0), max(reached, default=1)
    room = round((high - low) * _MARGIN)
    return (0, high) if high - low > _SMALL * high or high == low else (max(0, low - room), high + room)


def moved_chart(findings: Sequence[Finding]) -> Chart | None:
    """Bars of how far figures have moved beyond their tolerance, the furthest first; None where none has."""
    moved = sorted(
        (each for each in findings if each.change is not None),
        key=lambda each: (-abs(each.change or 0.0), each.case, each.metric),
    )
    if not moved:
        return None
    shown, fills = moved[:_MOST_BARS], {"better": FASTER, "worse": SLOWER}
    changes = [_PERCENT * (each.change or 0.0) for each in shown]
    bars = [
        Bar(
            f"{each.metric}, {each.case}",
            0.0,
            change,
            fills["better" if each.kind == GAIN else "worse"],
            tip={
                "scenario": each.case,
                "figure": each.metric,
                "before": each.before,
                "after": each.after,
                "change": format_error(each.change or 0.0, 2),
                "why": each.why,
            },
        )
        for each, change in zip(shown, changes, strict=True)
    ]
    ends = (min(0.0, *changes) * _ROOM, max(0.0, *changes) * _ROOM)
    first, count = shown[0], len(moved)
    return Chart(
        title=f"{first.case}: {first.metric} moved most, {format_error(first.change or 0.0, 2)}",
        description="Bars of the relative change of each figure beyond its tolerance, what moved most first.",
        drawn=Bars(bars, Axis("change", "%", ends), {"no change": 0.0}),
        legend=fills,
        notes=[f"The {len(shown)} that moved most, of {count:,}."] if count > len(shown) else [],
    )
