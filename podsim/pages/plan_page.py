"""The page of a plan: what reaches a goal, ranked, what rules the others out, and the figures that are weighed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from podsim._version import __version__
from podsim.draws import SHARE
from podsim.format import format_percent
from podsim.many.capacity.answer import Answer
from podsim.many.capacity.front import value
from podsim.many.capacity.option import Option
from podsim.many.capacity.show import answer_tables, headline
from podsim.many.capacity.wording import axis_label, cell, range_cell
from podsim.metrics import metric_of
from podsim.pages.charts import Span, spans_chart
from podsim.pages.parts import Block, Chart, Folded, Grid, Page, Section, Spec, Tile, in_title
from podsim.pages.patterns import FOLDED, SLOWER, TOTAL, colour_of, fill_of, legend_of
from podsim.pages.rich_tables import blocks_of

_MOST_BARS: Final = 30
_MOST_LISTED: Final = 500
_FEW_TICKS: Final = {"tickCount": 6}
_HEIGHT: Final = 320
_ROOM: Final = 1.02
_WITHIN, _RARELY, _BEYOND = "within all limits", "in too few of the draws", "ruled out by a limit"
_FILLS: Final = {_WITHIN: fill_of(TOTAL), _RARELY: fill_of(SLOWER), _BEYOND: fill_of(FOLDED)}


def plan_page(answer: Answer) -> Page:
    """A page of an answer to a goal."""
    goal = answer.goal
    overrides = f"; changed: {', '.join(goal.overrides)}" if goal.overrides else ""
    variant = f", variant {goal.variant}" if goal.variant else ""
    found = _with_figures(answer)
    ranking, *others = _tables(answer)
    if found:
        ranking = Section(ranking.title, [*ranking.blocks, _bars(answer, found)])
    return Page(
        title=goal.description or in_title(f"{_wanted(answer)}: {goal.title}"),
        about=(f"{goal.title}{variant}, podsim {__version__}{overrides}", f"Wanted: {headline(answer)}"),
        version=__version__,
        inputs=answer.inputs,
        warnings=_warnings(answer),
        tiles=list(_tiles(answer)),
        sections=[ranking, *_weighed(answer, found), *others, *_figures(answer, found)],
    )


def _warnings(answer: Answer) -> list[str]:
    if not answer.ranked:
        return ["nothing reaches the goal; see what rules each system out"]
    return [answer.doubt] if answer.doubt else []


def _wanted(answer: Answer) -> str:
    return f"{'most' if answer.goal.more_is_better else 'least'} {metric_of(answer.goal.figure).head}"


def _tables(answer: Answer) -> Iterator[Section]:
    """The tables of the terminal, without its chart."""
    titles = ["Ranking"]
    titles += ["Ruled out"] * bool(answer.ruled_out)
    titles += ["Twice the IPUs"] * bool(answer.doublings)
    titles += ["How sure", "Ranges"] * (answer.sureness is not None)
    each = [list(blocks_of(table)) for table in answer_tables(answer)]
    kept = [blocks for number, blocks in enumerate(each) if not number or any(isinstance(one, Grid) for one in blocks)]
    for title, blocks in zip(titles, kept, strict=True):
        yield Section(title, blocks)


def _with_figures(answer: Answer) -> list[Option]:
    """Options that have the figure that counts, those within all limits first, the best first."""
    figure = answer.goal.figure
    found = [each for each in (*answer.ranked, *answer.ruled_out) if value(each, figure) is not None]
    return sorted(found, key=lambda each: (bool(each.reason), metric_of(figure).rank(value(each, figure) or 0.0)))


def _tiles(answer: Answer) -> Iterator[Tile]:
    if answer.best is not None:
        drawn = answer.drawn(answer.best)
        best, figures = answer.best, [answer.goal.figure, *([answer.second] if answer.second else [])]
        yield Tile("Best", best.system, tuple(text for text in (best.division, best.varied) if text))
        for figure in figures:
            ends = range_cell(figure, drawn.ranges.get(figure), best.currency) if drawn else "–"
            notes = () if ends == "–" else (f"{SHARE:.0%}: {ends}".replace("%", " %"),)
            yield Tile(in_title(metric_of(figure).head), cell(figure, value(best, figure), best.currency), notes)
        if drawn is not None:
            yield Tile("Holds in", f"{format_percent(drawn.within, 0)} of the draws")
        yield Tile("IPUs", best.arithmetic)
    count = len(answer.ranked) + len(answer.ruled_out)
    yield Tile("Within all limits", f"{len(answer.ranked):,} of {count:,} options")


def _state(answer: Answer, option: Option) -> str:
    """Whether an option reaches the goal, and in enough of the draws."""
    drawn = answer.drawn(option)
    return _BEYOND if option.reason else _RARELY if drawn is not None and not drawn.is_reliable else _WITHIN


def _tip(option: Option, figures: Sequence[str]) -> dict[str, str]:
    shown = {metric_of(figure).head: cell(figure, value(option, figure), option.currency) for figure in figures}
    return {"option": option.label, "IPUs": option.arithmetic, **shown, "ruled out by": option.reason or "nothing"}


def _bars(answer: Answer, found: Sequence[Option]) -> Chart:
    figure, shown = answer.goal.figure, found[:_MOST_BARS]
    values = [value(each, figure) or 0.0 for each in shown]
    spans = [
        Span(
            each.label,
            0.0,
            number,
            _FILLS[_state(answer, each)],
            cell(figure, number, each.currency),
            tip=_tip(each, [figure]),
        )
        for each, number in zip(shown, values, strict=True)
    ]
    more = [f"{len(found) - len(shown):,} more options are in the tables."] if len(found) > len(shown) else []
    axis = axis_label(figure, answer.currency)
    return Chart(
        title=f"{in_title(metric_of(figure).head)} of each option",
        description=f"Bars of {axis}; the best within all limits first.",
        spec=spans_chart(spans, axis, (min(0.0, *values), max(*values, 0.0) * _ROOM or 1.0)),
        legend=legend_of(_FILLS),
        notes=more,
    )


def _weighed(answer: Answer, found: Sequence[Option]) -> Iterator[Section]:
    """The figure that counts against the second, or against the size of the pod."""
    second = answer.second
    placed = [each for each in found if second and value(each, second) is not None]
    if second and len(placed) > 1:
        title = f"{in_title(metric_of(answer.goal.figure).head)} against {metric_of(second).head}"
        yield Section("Weighed", [_scatter(answer, placed, second, title)])
    if len({each.ipu_count for each in found}) > 1:
        title = f"{in_title(metric_of(answer.goal.figure).head)} against the size of the pod"
        yield Section("Against size", [_scatter(answer, found, None, title)])


def _scatter(answer: Answer, found: Sequence[Option], second: str | None, title: str) -> Chart:
    """Options by two figures, with the front that no option beats; or by their IPUs."""
    figure, front = answer.goal.figure, answer.front if second else ()
    figures = [figure, *([second] if second else [])]
    tips = list(_tip(found[0], figures))
    values: list[dict[str, Any]] = []
    for each in found:
        place = {"x": each.ipu_count if second is None else value(each, second), "y": value(each, figure)}
        state = {"state": _state(answer, each), "front": each in front}
        tip = {f"t{number}": text for number, text in enumerate(_tip(each, figures).values())}
        values.append(place | state | tip)
    notes = ["The line joins the options within all limits that none beats in both figures."] if front else []
    x = (
        _sizes(found)
        if second is None
        else {"title": axis_label(second, answer.currency), "scale": {"zero": False}, "axis": _FEW_TICKS}
    )
    return Chart(
        title=title,
        description=f"{title}: a point for each option.",
        spec=_points(values, x, axis_label(figure, answer.currency), tips),
        notes=notes,
    )


def _sizes(found: Sequence[Option]) -> Spec:
    sizes = sorted({each.ipu_count for each in found})
    scale = {"type": "log", "base": 2, "nice": False, "padding": 24}
    return {"title": "IPUs of the pod", "scale": scale, "axis": {"values": sizes}}


def _points(values: list[dict[str, Any]], x: Spec, y: str, tips: Sequence[str]) -> Spec:
    states = {"domain": list(_FILLS), "range": ["circle", "diamond", "triangle-up"]}
    colours = {"domain": list(_FILLS), "range": [colour_of(fill_of(TOTAL)), "#7b6fa8", "#e08214"]}
    line = {
        "transform": [{"filter": "datum.front"}],
        "mark": {"type": "line", "stroke": "#1b5e92", "strokeWidth": 2, "interpolate": "step-after"},
    }
    points = {
        "mark": {"type": "point", "filled": True, "size": 110, "opacity": 0.9},
        "encoding": {
            "shape": {"field": "state", "title": None, "scale": states},
            "fill": {"field": "state", "title": None, "scale": colours},
            "tooltip": [{"field": f"t{number}", "title": name} for number, name in enumerate(tips)],
        },
    }
    return {
        "width": "container",
        "height": _HEIGHT,
        "data": {"values": values},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", **x},
            "y": {"field": "y", "type": "quantitative", "title": y},
        },
        "layer": [*([line] if any(each["front"] for each in values) else []), points],
    }


def _figures(answer: Answer, found: Sequence[Option]) -> Iterator[Section]:
    """All figures of all options, folded away."""
    shown = found[:_MOST_LISTED]
    names = list(dict.fromkeys(name for each in shown for name in each.figures or {}))
    known = [name for name in names if any(value(each, name) is not None for each in shown)]
    rows = [(each.label, *(cell(name, value(each, name), each.currency) for name in known)) for each in shown]
    if rows:
        more = [f"The best {len(shown)} of {len(found):,}."] if len(shown) < len(found) else []
        headers = ("option", *(f">{metric_of(name).head}" for name in known))
        blocks: list[Block] = [Folded("All figures of all options", [Grid(headers, rows, notes=more)])]
        yield Section("Figures", blocks)
