"""A chart of a study: lines, bars, heat maps, dots or parallel axes, whichever fits the keys that vary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from podsim.errors import PodsimError
from podsim.many.store import STATUS, Row
from podsim.many.sweeps import panels
from podsim.many.sweeps.answer import answer
from podsim.many.sweeps.chart_words import numbers_and_unit, quantity, short, words
from podsim.many.sweeps.measured import measured_points
from podsim.many.sweeps.names import COLUMNS, SCENARIO, VARIANT
from podsim.many.sweeps.rows import DONE, RowMaker
from podsim.many.sweeps.run import Swept
from podsim.many.sweeps.space import Space
from podsim.metrics import HEADLINES
from podsim.scenario.wording import known_here
from podsim.show.chart_frame import WARNING_INK, write_figure

if TYPE_CHECKING:
    from pandas import DataFrame

_SIZE_INCHES: Final = (10.0, 5.5)
_NOTE_CHARACTERS: Final = 150
_FEW_POINTS: Final = 24
_MOST_LINES: Final = 4
_MOST_PANELS: Final = 6
_FULL: Final = 0.5
"""A grid of which fewer cells are filled was not crossed, but sampled."""
_NO_VARIANT: Final = "no variant"
_NO_FIGURES: Final = (*COLUMNS, "warnings")


def plot_study(swept: Swept, path: str | Path, metric: str | None = None) -> None:
    """Draw a figure of the results over the keys that vary.

    Args:
        swept: The study.
        path: A .png, .svg or .pdf file to make or replace.
        metric: Column to draw; samples or tokens per second by default.

    Raises:
        PodsimError: The table has no such column of numbers, or nothing varies.
        OutputError: The path cannot be written.
    """
    frame = swept.frame()
    variants = frame[VARIANT].astype(object)
    frame[VARIANT] = variants.where(variants.notna(), _NO_VARIANT)
    if DONE not in swept.by_status:
        raise PodsimError("no point of this study has figures to draw", do="read the column `reason` of the table")
    column = metric or next((each for each in HEADLINES if each in frame), "")
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "fi" and frame[name].notna().any()]
    if column not in numbers:
        raise _no_column(column, numbers)
    keys = [key for key in _crossed(swept.space) if frame[key].nunique(dropna=False) > 1]
    if not keys:
        raise PodsimError("no key of this study varies", do="give one of its keys two values or more")
    study = swept.space.study
    measured = list(measured_points(study.measured, column))
    shown = quantity(column, max([*frame[column].dropna().abs(), *(value for _, value in measured)]))
    drawn = panels.Drawn(frame, column, shown, measured)
    notes = answer(swept, column).notes
    write_figure(path, lambda: _figure(drawn, keys, study.description, notes), swept.inputs)


def check_metric(space: Space, metric: str) -> None:
    """Refuse a column that will not be there, before the whole study is simulated.

    Args:
        space: The points, of which the first that can be simulated is looked at, in each scenario.
        metric: Column that is asked for.

    Raises:
        PodsimError: None of them has such a column of numbers.
    """
    scenarios = len(space.axes[0].values)
    block = len(space) // scenarios
    starts = (range(place * block, place * block + min(block, _FEW_POINTS)) for place in range(scenarios))
    rows = [row for start in starts if (row := _first_done(space, start))]
    known = dict.fromkeys(
        name for row in rows for name, each in row.items() if name not in _NO_FIGURES and _may_be_number(each)
    )
    if rows and metric not in known and not any(metric.startswith(f"{name}.") for name in known):
        raise _no_column(metric, [name for name in known if any(row.get(name) is not None for row in rows)])


def _first_done(space: Space, numbers: Iterable[int]) -> Row | None:
    rows = map(RowMaker(space), (number for number in numbers if space.point(number)))
    return next((row for row in rows if row[STATUS] == DONE), None)


def _may_be_number(value: object) -> bool:
    """Nothing may be a number at other points."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _no_column(column: str, numbers: Sequence[str]) -> PodsimError:
    what = f"the table has no column of numbers `{column}`"
    return PodsimError(what, where="--metric", do=known_here(column, list(numbers), "use another"))


def _crossed(space: Space) -> list[str]:
    """Keys that vary on their own, one of each group of those that vary together."""
    follow = {key for group in space.study.zipped for key in group[1:]}
    given = (*space.study.keys, *space.study.names)
    return [SCENARIO, VARIANT, *(key for key in dict.fromkeys(given) if key not in follow)]


def _figure(drawn: panels.Drawn, keys: Sequence[str], title: str, notes: Sequence[str]) -> Figure:
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    figures = drawn.figures(drawn.frame).dropna()
    norm = Normalize(figures.min(), figures.max())
    lined = _along_and_of(drawn.frame, keys)
    if lined is not None:
        panels.lines(figure.add_subplot(), drawn, *lined)
    elif len(keys) == 1:
        panels.bars(figure.add_subplot(), drawn, keys[0])
    else:
        _coloured(figure, drawn, keys, norm)
        figure.colorbar(panels.mappable(norm), ax=figure.axes, label=drawn.quantity.label, format=panels.PLAIN)
    figure.suptitle(title.replace("$", r"\$"), x=0.01, ha="left", fontsize=12, fontweight="bold")
    if notes:
        lines = [line for note in notes for line in wrap(note.replace("$", r"\$"), _NOTE_CHARACTERS)]
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=8.5, color=WARNING_INK)
    return figure


def _along_and_of(frame: DataFrame, keys: Sequence[str]) -> tuple[str, str | None] | None:
    """The key along which lines are drawn and the key that tells them apart, where lines say most."""
    numeric = [key for key in keys if numbers_and_unit(list(frame[key])) is not None]
    if len(keys) == 1:
        return (keys[0], None) if numeric else None
    words_of = [key for key in keys if key not in numeric]
    if len(keys) == 2 and len(words_of) == 1 and frame[words_of[0]].nunique(dropna=False) <= _MOST_LINES:
        return numeric[0], words_of[0]
    return None


def _coloured(figure: Figure, drawn: panels.Drawn, keys: Sequence[str], norm: Normalize) -> None:
    """Two keys as a heat map, three as one for each value of the key with the fewest, others as parallel axes."""
    counts = {key: drawn.frame[key].nunique(dropna=False) for key in keys}
    split = min(keys, key=lambda key: counts[key])
    down, across = sorted((key for key in keys if len(keys) == 2 or key != split), key=lambda key: counts[key])[:2]
    cells = counts[down] * counts[across] * (counts[split] if len(keys) > 2 else 1)
    full = len(drawn.frame) >= _FULL * cells
    if len(keys) == 2 and full:
        panels.heat_map(figure.add_subplot(), drawn, down, across, norm)
    elif len(keys) == 2 and all(numbers_and_unit(list(drawn.frame[key])) for key in keys):
        panels.dots(figure.add_subplot(), drawn, down, across, norm)
    elif len(keys) == 3 and full and counts[split] <= _MOST_PANELS:
        _heat_maps(figure, drawn, (split, down, across), norm)
    else:
        panels.parallel_axes(figure.add_subplot(), drawn, keys, norm)


def _heat_maps(figure: Figure, drawn: panels.Drawn, keys: tuple[str, str, str], norm: Normalize) -> None:
    """A heat map for each value of the first key, all with the same colours."""
    split, down, across = keys
    groups = list(drawn.frame.groupby(split, sort=False, dropna=False))
    columns = min(len(groups), 2 if len(groups) in (2, 4) else 3)
    grid = figure.subplots(-(-len(groups) // columns), columns, squeeze=False)
    for axes, (value, rows) in zip(grid.flat, groups, strict=False):
        part = panels.Drawn(rows, drawn.metric, drawn.quantity)
        panels.heat_map(axes, part, down, across, norm)
        axes.set_title(f"{words(split)} {short(value)}", fontsize=10)
        axes.label_outer()
    for axes in list(grid.flat)[len(groups) :]:
        axes.remove()
