"""Charts of an answer to a goal: its options as bars, and by two figures with the front that none beats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from podsim.errors import PodsimError
from podsim.format import in_title, unit_of_duration, unit_of_energy
from podsim.many.capacity.answer import Answer
from podsim.many.capacity.front import value
from podsim.many.capacity.option import Option
from podsim.many.capacity.show import axis_label, cell, headline
from podsim.metrics import JOULES, SECONDS, WATTS, metric_of
from podsim.report.chart import FOLDED, SLOWER, TOTAL, Axis, Bar, Bars, Chart, Curves, Mark, Series, Sheet

_MOST_BARS: Final = 30
_MOST_LABELS: Final = 12
"""Of more points, those of the front alone have names."""
_TOO_FEW: Final = 2
"""Points through which no shape is seen; bars tell them better."""
_ROOM: Final = 1.02
_WITHIN, _RARELY, _BEYOND = "within all limits", "in too few of the draws", "ruled out by a limit"
_FILLS: Final = {_WITHIN: TOTAL, _RARELY: SLOWER, _BEYOND: FOLDED}
_LOOKS: Final = {
    _WITHIN: (TOTAL.colour, "circle"),
    _RARELY: ("#7b6fa8", "diamond"),
    _BEYOND: ("#e08214", "triangle-up"),
}
_FRONT, _FRONT_COLOUR = "no other beats it in both", "#1b5e92"
_DIGITS: Final = 4


def plan_sheet(answer: Answer) -> Sheet:
    """The figure that counts against the second one; of two options, the figure that counts alone.

    Raises:
        PodsimError: No option has both figures.
    """
    second = answer.second
    placed = [each for each in with_figures(answer) if second and value(each, second) is not None]
    if second is None or not placed:
        raise PodsimError("no option has two figures to draw", do="name the second with --second")
    chart = _scatter(answer, placed, second) if len(placed) > _TOO_FEW else options_chart(answer)
    return Sheet(headline(answer), [[chart]], inputs=answer.inputs)


def weighed_charts(answer: Answer) -> Iterator[tuple[str, Chart]]:
    """The figure that counts against the second, and against the size of the pod, each below its heading."""
    found, second = with_figures(answer), answer.second
    placed = [each for each in found if second and value(each, second) is not None]
    if second and len(placed) > _TOO_FEW:
        yield "Weighed", _scatter(answer, placed, second)
    if len({each.ipu_count for each in found}) > 1 and len(found) > _TOO_FEW:
        yield "Against size", _scatter(answer, found, None)


def with_figures(answer: Answer) -> list[Option]:
    """Options that have the figure that counts, those within all limits first, the best first."""
    figure = answer.goal.figure
    found = [each for each in (*answer.ranked, *answer.ruled_out) if value(each, figure) is not None]
    return sorted(found, key=lambda each: (bool(each.reason), metric_of(figure).rank(value(each, figure) or 0.0)))


def options_chart(answer: Answer) -> Chart:
    """The figure that counts, of each option that has it."""
    figure, found = answer.goal.figure, with_figures(answer)
    shown, metric = found[:_MOST_BARS], metric_of(figure)
    label, unit, scale = _scale(figure, found, answer.currency)
    values = [(value(each, figure) or 0.0) / scale for each in shown]
    bars = [
        Bar(
            each.label,
            0.0,
            number,
            _FILLS[_state(answer, each)],
            str(cell(figure, value(each, figure), each.currency)),
            tip=_tip(each, [figure]),
        )
        for each, number in zip(shown, values, strict=True)
    ]
    ends = (min(0.0, *values), max(*values, 0.0) * _ROOM or 1.0)
    return Chart(
        title=f"{in_title(metric.head)} of each option",
        description=f"Bars of {label}; the best within all limits first.",
        drawn=Bars(bars, Axis(label, unit, ends)),
        legend=_FILLS,
        notes=[f"{len(found) - len(shown):,} more options are in the tables."] if len(found) > len(shown) else [],
    )


def _state(answer: Answer, option: Option) -> str:
    """The words for an option that reaches the goal, does so in too few of the draws, or does not."""
    drawn = answer.drawn(option)
    return _BEYOND if option.reason else _RARELY if drawn is not None and not drawn.is_reliable else _WITHIN


def _tip(option: Option, figures: Sequence[str]) -> dict[str, str]:
    shown = {metric_of(figure).head: str(cell(figure, value(option, figure), option.currency)) for figure in figures}
    return {"option": option.label, "IPUs": option.arithmetic, **shown, "ruled out by": option.reason or "nothing"}


def _scatter(answer: Answer, found: Sequence[Option], second: str | None) -> Chart:
    """Options by two figures, with the front that no option beats; or by their IPUs."""
    figure, front = answer.goal.figure, [each for each in answer.front if second]
    figures = [figure, *([second] if second else [])]
    label, unit, scale = _scale(figure, found, answer.currency)
    if second is None:
        against, across = "the size of the pod", {id(each): float(each.ipu_count) for each in found}
        x = Axis("IPUs of the pod", is_log=True, ticks=sorted(set(across.values())))
    else:
        against = metric_of(second).head
        second_label, second_unit, second_scale = _scale(second, found, answer.currency)
        across = {id(each): (value(each, second) or 0.0) / second_scale for each in found}
        x = Axis(second_label, second_unit, from_zero=False)
    up = {id(each): (value(each, figure) or 0.0) / scale for each in found}
    named = found if len(found) <= _MOST_LABELS else front
    series = []
    if front:
        ordered = sorted((each for each in found if each in front), key=lambda each: across[id(each)])
        # Between two of the front, what is as good as the worse of them in one figure is known to be reached.
        is_worse_right = second is not None and not metric_of(second).more_is_better
        mark = Mark.STEPS_AFTER if is_worse_right else Mark.STEPS_BEFORE
        places = [across[id(each)] for each in ordered], [up[id(each)] for each in ordered]
        series.append(Series(_FRONT, mark, *places, _FRONT_COLOUR))
    for state, (colour, marker) in _LOOKS.items():
        those = [each for each in found if _state(answer, each) == state]
        if those:
            places = [across[id(each)] for each in those], [up[id(each)] for each in those]
            texts = [each.label if each in named else "" for each in those]
            tips = [_tip(each, figures) for each in those]
            series.append(Series(state, Mark.POINTS, *places, colour, (), marker, tips, texts))
    title = f"{in_title(metric_of(figure).head)} against {against}"
    return Chart(
        title=title,
        description=f"{title}: a point for each option.",
        drawn=Curves(series, x, Axis(label, unit, from_zero=second is None)),
        notes=["The line joins the options within all limits that none beats in both figures."] if front else [],
    )


def _scale(figure: str, options: Sequence[Option], currency: str) -> tuple[str, str, float]:
    """Label and unit of an axis of a figure of options, and how much of the base unit that is."""
    largest = max(value(each, figure) or 0.0 for each in options)
    label, _, base = axis_label(figure, currency).removesuffix("]").partition(" [")
    known, unit, scale = metric_of(figure).unit, base, 1.0
    if known == SECONDS and largest:
        unit, scale = unit_of_duration(largest, _DIGITS)
    elif known == JOULES and largest:
        unit, scale = unit_of_energy(largest)
    elif known == WATTS and largest >= 1000:
        unit, scale = "kW", 1000.0
    return label, unit, scale
