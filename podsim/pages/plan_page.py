"""The page of a plan: what reaches a goal, ranked, what rules the others out, and the figure that counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from podsim._version import __version__
from podsim.capacity.answer import Answer, Option
from podsim.capacity.goal import Goal
from podsim.capacity.show import answer_tables
from podsim.errors import PodsimError
from podsim.pages.charts import Span, spans_chart
from podsim.pages.figures import in_title, label_of, words_of
from podsim.pages.parts import Block, Chart, Folded, Grid, Page, Section, Spec, Tile
from podsim.pages.patterns import FOLDED, TOTAL, colour_of, fill_of, legend_of
from podsim.pages.rich_tables import blocks_of
from podsim.report.format import format_duration_s, format_significant
from podsim.specs import load_scenario

_MOST_BARS: Final = 30
_HEIGHT: Final = 320
_ROOM: Final = 1.02
_DIGITS: Final = 4
_WITHIN, _BEYOND = "within all limits", "ruled out by a limit"
_FILLS: Final = {_WITHIN: fill_of(TOTAL), _BEYOND: fill_of(FOLDED)}


def plan_page(answer: Answer, goal_file: Path | None = None) -> Page:
    """A page of an answer to a goal.

    Args:
        answer: What was found.
        goal_file: The file that asks for it, if there is one.
    """
    goal = answer.goal
    limits = "; ".join(f"{limit.metric} {limit.text}" for limit in goal.limits) or "none"
    wanted = f"{'Most' if goal.more_is_better else 'Least'} {words_of(goal.objective)}"
    overrides = f"; changed: {', '.join(goal.overrides)}" if goal.overrides else ""
    tables = list(answer_tables(answer))
    ranked = list(blocks_of(tables[0]))
    found = _with_figures(answer)
    return Page(
        title=goal.description or f"{wanted}: {goal.scenario}",
        about=(
            f"{goal.scenario}{f', variant {goal.variant}' if goal.variant else ''}, podsim {__version__}{overrides}",
            f"Wanted: {wanted[:1].lower()}{wanted[1:]}; limits: {limits}",
        ),
        version=__version__,
        inputs=list(dict.fromkeys(_inputs(goal, goal_file))),
        warnings=[] if answer.ranked else ["nothing reaches the goal; see what rules each system out"],
        tiles=list(_tiles(answer)),
        sections=[
            Section("Ranking", [*ranked, *([_bars(answer, found)] if found else [])]),
            *([Section("Against size", [_scatter(answer, found)])] if _differ_in_size(found) else []),
            *(Section("Ruled out", list(blocks_of(table))) for table in tables[1:]),
            Section("Figures", list(_figures(found))),
        ],
    )


def _inputs(goal: Goal, goal_file: Path | None) -> Iterator[tuple[str, str]]:
    """Files read, each with its hash: the goal, and the scenario on each of the systems."""
    if goal_file is not None:
        yield str(goal_file), hashlib.sha256(goal_file.read_bytes()).hexdigest()
    for system in goal.candidates:
        with suppress(PodsimError):  # one that rules the system out, as its option says
            yield from load_scenario(goal.scenario, goal.variant, (f"system={system}", *goal.overrides)).inputs


def _with_figures(answer: Answer) -> list[Option]:
    """Options that have the figure that counts, those within all limits first."""
    return [each for each in (*answer.ranked, *answer.ruled_out) if _value(each, answer.goal.objective) is not None]


def _value(option: Option, figure: str) -> float | None:
    value = (option.figures or {}).get(figure)
    return float(value) if isinstance(value, (int, float)) else None


def _tiles(answer: Answer) -> Iterator[Tile]:
    count = f"{len(answer.ranked)} of {len(answer.ranked) + len(answer.ruled_out)} options"
    if answer.ranked:
        best, figure = answer.ranked[0], answer.goal.objective
        value = _value(best, figure)
        yield Tile("Best", best.system, (best.division,))
        unit = f" {best.currency}" if figure.startswith("cost_") and best.currency else ""
        if value is not None:
            yield Tile(in_title(words_of(figure)), f"{_shown(figure, value)}{unit}")
        yield Tile("IPUs", best.arithmetic)
    yield Tile("Within all limits", count)


def _differ_in_size(found: Sequence[Option]) -> bool:
    return len({each.ipu_count for each in found}) > 1


def _shown(figure: str, value: float) -> str:
    """A value of a figure: a time in the unit that suits it."""
    is_time = figure.endswith("_s") and not figure.endswith("_per_s")
    return format_duration_s(value, _DIGITS) if is_time else format_significant(value, _DIGITS)


def _name(option: Option) -> str:
    return f"{option.system}, {option.division}"


def _fill(option: Option) -> str:
    return _FILLS[_BEYOND if option.reason else _WITHIN]


def _tip(option: Option, figure: str) -> dict[str, str]:
    value = _value(option, figure)
    return {
        "system": option.title or option.system,
        "division": option.division,
        "IPUs": option.arithmetic,
        label_of(figure): "" if value is None else _shown(figure, value),
        "ruled out by": option.reason or "nothing",
    }


def _bars(answer: Answer, found: Sequence[Option]) -> Chart:
    figure = answer.goal.objective
    sign = -1 if answer.goal.more_is_better else 1
    ranked = sorted(found, key=lambda each: (bool(each.reason), sign * (_value(each, figure) or 0.0), each.name))
    shown = ranked[:_MOST_BARS]
    values = [_value(each, figure) or 0.0 for each in shown]
    spans = [
        Span(_name(each), 0.0, value, _fill(each), _shown(figure, value), tip=_tip(each, figure))
        for each, value in zip(shown, values, strict=True)
    ]
    more = [f"{len(ranked) - len(shown)} more options are in the tables."] if len(ranked) > len(shown) else []
    return Chart(
        title=f"{in_title(words_of(figure))} of each option",
        description=f"Bars of {label_of(figure)}; the best within all limits first.",
        spec=spans_chart(spans, label_of(figure), (min(0.0, *values), max(*values, 0.0) * _ROOM or 1.0)),
        legend=legend_of(_FILLS),
        notes=more,
    )


def _scatter(answer: Answer, found: Sequence[Option]) -> Chart:
    """What more IPUs buy."""
    figure = answer.goal.objective
    tips = list(_tip(found[0], figure))
    values: list[dict[str, Any]] = []
    for each in found:
        tip = {f"t{number}": text for number, text in enumerate(_tip(each, figure).values())}
        point = {"ipus": each.ipu_count, "value": _value(each, figure), "state": _BEYOND if each.reason else _WITHIN}
        values.append(point | tip)
    sizes = sorted({each.ipu_count for each in found})
    states = {"domain": list(_FILLS), "range": ["circle", "triangle-up"]}
    colours = {"domain": list(_FILLS), "range": [colour_of(fill_of(TOTAL)), "#e08214"]}
    spec: Spec = {
        "width": "container",
        "height": _HEIGHT,
        "data": {"values": values},
        "mark": {"type": "point", "filled": True, "size": 110, "opacity": 0.9},
        "encoding": {
            "x": {
                "field": "ipus",
                "type": "quantitative",
                "title": "IPUs of the pod",
                "scale": {"type": "log", "base": 2, "nice": False, "padding": 24},
                "axis": {"values": sizes},
            },
            "y": {"field": "value", "type": "quantitative", "title": label_of(figure)},
            "shape": {"field": "state", "title": None, "scale": states},
            "fill": {"field": "state", "title": None, "scale": colours},
            "tooltip": [{"field": f"t{number}", "title": name} for number, name in enumerate(tips)],
        },
    }
    return Chart(
        title=f"{in_title(words_of(figure))} against the size of the pod",
        description=f"Points of {label_of(figure)} over the IPUs of the pod, one for each option.",
        spec=spec,
    )


def _figures(found: Sequence[Option]) -> Iterator[Block]:
    """All figures of all options, folded away."""
    names = list(dict.fromkeys(name for each in found for name, _ in (each.figures or {}).items()))
    shown = [name for name in names if any(_value(each, name) is not None for each in found)]
    rows = [(_name(each), *(_figure(_value(each, name)) for name in shown)) for each in found]
    if rows:
        yield Folded("All figures of all options", [Grid(("option", *(f">{label_of(name)}" for name in shown)), rows)])


def _figure(value: float | None) -> str:
    return "–" if value is None else format_significant(value, _DIGITS)
