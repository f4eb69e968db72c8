"""The chart of a study: lines, bars, heat maps, dots or parallel axes, whichever fits the keys that vary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from podsim.errors import PodsimError
from podsim.many.store import STATUS, Row
from podsim.many.sweeps.answer import answer
from podsim.many.sweeps.chart_words import numbers_and_unit, quantity, short, words
from podsim.many.sweeps.measured import measured_points
from podsim.many.sweeps.names import COLUMNS, POINT, SCENARIO, VARIANT
from podsim.many.sweeps.rows import DONE, RowMaker
from podsim.many.sweeps.run import Swept
from podsim.many.sweeps.space import StudySpace
from podsim.metrics import HEADLINES, metric_of
from podsim.report.chart import Axis, Chart, Key, Sheet, Shown, Study, WayOver, is_wide
from podsim.scenario.wording import known_here

if TYPE_CHECKING:
    from pandas import DataFrame

_FEW_POINTS: Final = 24
_MOST_LINES: Final = 4
_MOST_PANELS: Final = 6
_FULL: Final = 0.5
"""A grid of which fewer cells are filled was not crossed, but sampled."""
_DIGITS: Final = 6
_NO_VARIANT: Final = "no variant"
NO_FIGURES: Final = frozenset((*COLUMNS, "warnings"))
"""Columns that hold no figure of results."""


def study_sheet(swept: Swept, metric: str | None = None) -> Sheet:
    """A figure of the results over the keys that vary.

    Args:
        swept: The study.
        metric: Column to draw; samples or tokens per second by default.

    Raises:
        PodsimError: The table has no such column of numbers, or nothing varies.
    """
    if DONE not in swept.by_status:
        raise PodsimError("no point of this study has figures to draw", do="read the column `reason` of the table")
    frame = swept.to_frame()
    column = metric or next((each for each in HEADLINES if each in frame), "")
    numbers = number_columns(frame, ())
    if column not in numbers:
        raise no_column(column, numbers)
    chart = study_chart(swept.space, frame, [column])
    if chart is None:
        raise PodsimError("no key of this study varies", do="give one of its keys two values or more")
    title = swept.space.study.description or chart.title
    return Sheet(title, [[chart]], warnings=answer(swept, column).notes, inputs=swept.inputs)


def number_columns(frame: DataFrame, keys: Iterable[str]) -> list[str]:
    """Columns of a table with a number in some row, but for keys and what every row says of itself."""
    names = [name for name in frame.columns if name not in {*NO_FIGURES, *keys}]
    return [name for name in names if frame[name].dtype.kind in "fi" and frame[name].notna().any()]


def no_column(column: str, numbers: Sequence[str]) -> PodsimError:
    """The error about a figure that no point has."""
    what = f"the table has no column of numbers `{column}`"
    return PodsimError(what, where="--metric", do=known_here(column, list(numbers), "use another"))


def check_metric(make: RowMaker, metric: str) -> None:
    """Refuse a column that will not be there, before the whole study is simulated.

    Args:
        make: Simulates points, of which the first that can be simulated is looked at, in each scenario.
        metric: Column that is asked for.

    Raises:
        PodsimError: None of them has such a column of numbers.
    """
    space = make.space
    scenarios = len(space.axes[0].values)
    block = len(space) // scenarios
    starts = (range(place * block, place * block + min(block, _FEW_POINTS)) for place in range(scenarios))
    rows = [row for start in starts if (row := _first_done(make, start))]
    known = dict.fromkeys(
        name for row in rows for name, each in row.items() if name not in NO_FIGURES and _may_be_number(each)
    )
    if rows and metric not in known and not any(metric.startswith(f"{name}.") for name in known):
        raise no_column(metric, [name for name in known if any(row.get(name) is not None for row in rows)])


def _first_done(make: RowMaker, numbers: Iterable[int]) -> Row | None:
    rows = map(make, (number for number in numbers if make.space.point(number)))
    return next((row for row in rows if row[STATUS] == DONE), None)


def _may_be_number(value: object) -> bool:
    """Nothing may be a number at other points."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def crossed_keys(space: StudySpace, frame: DataFrame) -> list[str]:
    """Keys that vary on their own, one of each group of those that vary together."""
    follow = {key for group in space.study.zipped for key in group[1:]}
    given = (*space.study.keys, *space.study.names)
    keys = [SCENARIO, VARIANT, *(key for key in dict.fromkeys(given) if key not in follow)]
    return [key for key in keys if frame[key].nunique(dropna=False) > 1]


def study_chart(space: StudySpace, frame: DataFrame, figures: Sequence[str], notes: Sequence[str] = ()) -> Chart | None:
    """Figures over the keys that vary; None where none does.

    Args:
        space: The points.
        frame: The table, or some of its rows.
        figures: Columns that can be shown, the first of them first.
        notes: What is said below it.
    """
    frame = frame.sort_values(POINT)
    names = crossed_keys(space, frame)
    if not names:
        return None
    keys = [_key(frame, name) for name in names]
    over, keys = _drawn_over(keys, len(frame))
    shown = [_shown(space, frame, keys[0], figure, over) for figure in figures]
    titles = [key.name for key in keys]
    listed = f"{', '.join(titles[:-1])} and {titles[-1]}" if len(titles) > 1 else titles[0]
    said = {
        WayOver.HEAT_MAP: ["Grey: could not be simulated, has no such figure, or is not part of the study."],
        WayOver.LINES: ["Black crosses were measured."] * bool(shown[0].measured),
        WayOver.PARALLEL: ["A line is a point of the study, its colour the figure."],
    }.get(over, [])
    return Chart(
        title=f"Over {listed}",
        description=f"{over.value.capitalize()} of the figure over {listed}.",
        drawn=Study(
            over,
            keys,
            shown,
            points=[int(each) for each in frame[POINT]],
            statuses=[str(each) for each in frame[STATUS]],
            more_is_better=metric_of(figures[0]).more_is_better,
        ),
        notes=[*said, *notes],
    )


def _key(frame: DataFrame, name: str) -> Key:
    """A key with its values in order: numbers by size, words in the order in which they appear."""
    nothing = _NO_VARIANT if name == VARIANT else "none"
    given = [nothing if value is None or value != value else value for value in frame[name]]
    found = list(dict.fromkeys(given))
    numbers = numbers_and_unit(found)
    unit = numbers[1] if numbers else ""
    if numbers:
        found = [value for _, value in sorted(zip(numbers[0], found, strict=True), key=lambda each: each[0])]
    texts = [short(value).removesuffix(f" {unit}") if unit else short(value) for value in found]
    if len(set(texts)) < len(texts):  # numbers that few digits do not tell apart
        texts = [str(value).removesuffix(f" {unit}") if unit else str(value) for value in found]
    places = {value: place for place, value in enumerate(found)}
    ordered = sorted(numbers[0]) if numbers else []
    return Key(name, Axis(words(name), unit), texts, ordered, [places[value] for value in given])


def _drawn_over(keys: list[Key], count: int) -> tuple[WayOver, list[Key]]:
    """The way to draw a figure over keys, and the order in which it takes them."""
    numeric, by_count = [key for key in keys if key.numbers], sorted(keys, key=lambda key: len(key.values))
    of_words = [key for key in keys if not key.numbers]
    if len(keys) == 1:
        return (WayOver.LINES if numeric else WayOver.BARS), keys
    if len(keys) == 2 and len(of_words) == 1 and len(of_words[0].values) <= _MOST_LINES:
        return WayOver.LINES, [*numeric, *of_words]
    split, inner = (by_count[:1], by_count[1:]) if len(keys) == 3 else ([], by_count)
    cells = 1
    for key in keys:
        cells *= len(key.values)
    is_full = count >= _FULL * cells
    if is_full and len(inner) == 2 and (not split or len(split[0].values) <= _MOST_PANELS):
        return WayOver.HEAT_MAP, [*inner, *split]
    if len(keys) == 2 and len(numeric) == 2:
        return WayOver.DOTS, by_count
    return WayOver.PARALLEL, keys


def _shown(space: StudySpace, frame: DataFrame, key: Key, figure: str, over: WayOver) -> Shown:
    """A figure of each point in the unit of its axis, and what was measured of it."""
    is_line = over is WayOver.LINES
    measured = list(measured_points(space.study.measured, figure)) if is_line else []
    given = [None if value != value else float(value) for value in frame[figure]]
    known = [value for value in given if value is not None]
    is_shown = quantity(figure, max([*map(abs, known), *(abs(value) for _, value in measured)]))
    scaled = [None if value is None else _rounded(value / is_shown.divisor) for value in given]
    places: Any = numbers_and_unit([at for at, _ in measured]) if measured else None
    points = (
        [(at, value / is_shown.divisor) for at, (_, value) in zip(places[0], measured, strict=True)] if places else []
    )
    reached = [*key.numbers, *(at for at, _ in points)]
    is_log = is_line and is_wide(reached) and is_wide(value for value in scaled if value is not None)
    return Shown(Axis(is_shown.name, is_shown.unit, is_log=is_log), scaled, points)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
