"""The page of a plan: what reaches a goal, ranked, what rules the others out, and the figures that are weighed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from podsim._version import __version__
from podsim.draws import SHARE
from podsim.format import format_percent, in_title
from podsim.many.capacity.answer import Answer
from podsim.many.capacity.front import value
from podsim.many.capacity.option import Option
from podsim.many.capacity.plot import options_chart, weighed_charts, with_figures
from podsim.many.capacity.show import answer_tables, cell, headline, option_table, range_text
from podsim.metrics import metric_of
from podsim.report.report import Folded, Report, Section, Tile
from podsim.report.table import Table

_MOST_LISTED: Final = 500


def plan_page(answer: Answer) -> Report:
    """A page of an answer to a goal."""
    goal = answer.goal
    overrides = f"; changed: {', '.join(goal.overrides)}" if goal.overrides else ""
    variant = f", variant {goal.variant}" if goal.variant else ""
    found = with_figures(answer)
    ranking, *others = _tables(answer)
    if found:
        ranking = Section(ranking.title, [*ranking.blocks, options_chart(answer)])
    weighed = [Section(title, [chart]) for title, chart in weighed_charts(answer)]
    return Report(
        title=goal.description or in_title(f"{_wanted(answer)}: {goal.title}"),
        about=(f"{goal.title}{variant}, podsim {__version__}{overrides}", f"Wanted: {headline(answer)}"),
        version=__version__,
        inputs=answer.inputs,
        warnings=_warnings(answer),
        tiles=list(_tiles(answer)),
        sections=[ranking, *weighed, *others, *_figures(answer, found)],
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
    tables = [table for number, table in enumerate(answer_tables(answer)) if not number or isinstance(table, Table)]
    for title, table in zip(titles, tables, strict=True):
        yield Section(title, [table])


def _tiles(answer: Answer) -> Iterator[Tile]:
    if answer.best is not None:
        drawn = answer.drawn(answer.best)
        best, figures = answer.best, [answer.goal.figure, *([answer.second] if answer.second else [])]
        yield Tile("Best", best.system, tuple(text for text in (best.division, best.varied) if text))
        for figure in figures:
            ends = range_text(figure, drawn.ranges.get(figure), best.currency) if drawn else "–"
            notes = () if ends == "–" else (f"{SHARE:.0%}: {ends}".replace("%", " %"),)
            yield Tile(in_title(metric_of(figure).head), str(cell(figure, value(best, figure), best.currency)), notes)
        if drawn is not None:
            yield Tile("Holds in", f"{format_percent(drawn.within, 0)} of the draws")
        yield Tile("IPUs", best.arithmetic)
    count = len(answer.ranked) + len(answer.ruled_out)
    yield Tile("Within all limits", f"{len(answer.ranked):,} of {count:,} options")


def _figures(answer: Answer, found: Sequence[Option]) -> Iterator[Section]:
    """All figures of all options, folded away."""
    if found:
        shown = found[:_MOST_LISTED]
        more = [f"The best {len(shown)} of {len(found):,}."] if len(shown) < len(found) else []
        yield Section("Figures", [Folded("All figures of all options", [option_table(answer, shown, more)])])
