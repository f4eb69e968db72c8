"""A chart as data: values, axes, texts and colours.

`podsim.show.matplotlib_charts` draws a chart into files and notebooks, `podsim.show.vega_charts` into pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from podsim.report.table import Table
from podsim.units import format_significant

_MIDDLE: Final = 0.179
"""Relative luminance at which black and white text have the same contrast by WCAG 2, 4.58."""
_LUMINANCE: Final = (0.2126, 0.7152, 0.0722)
"""Share of red, green and blue in the relative luminance of a colour."""
_GAMMA: Final = 2.2
_HEX: Final = 16
_RIGHT_HALF: Final = 0.62
"""Place on an axis from 0 to 1 beyond which a bar leaves no room for text at its right."""
INK, PAPER = "#1a1a1a", "#ffffff"
NO_FIGURE, LEFT_OUT = "#9a4a00", "#dddddd"
COLOURS: Final = "viridis"
"""Colour map of values, known to both renderers; readable in grey and by the colour-blind."""
_LIGHT: Final = 0.6
"""Fraction of the value range above which the colour map is light, so that text on it is black."""
_MOST_CELLS, _MOST_TICKS, _MOST_UPRIGHT = 150, 10, 8
_LETTERS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
LOOKS: Final = (
    ("#1b6ca8", "circle", (1, 0)),
    ("#e6750f", "square", (6, 3)),
    ("#1f9e80", "triangle-up", (6, 2, 1, 2)),
    ("#6a2c86", "diamond", (1, 2)),
)
"""Colour, marker and dashes of the lines of a chart; each of the three is enough to distinguish them."""


class Shape(StrEnum):
    """Pattern of a fill."""

    SOLID = "solid"
    RISING = "rising"
    FALLING = "falling"
    DOTS = "dots"
    LINES = "lines"
    CROSSED = "crossed"


class Fill(NamedTuple):
    """A colour, `#rrggbb`, with a pattern that distinguishes it in print without colours."""

    colour: str
    shape: Shape = Shape.SOLID

    @property
    def ink(self) -> str:
        """Colour of text on the fill: black or white, whichever has more contrast.

        >>> Fill("#f2f2f2").ink, Fill("#08306b").ink
        ('#1a1a1a', '#ffffff')
        """
        parts = [int(self.colour[place : place + 2], _HEX) for place in (1, 3, 5)]
        luminance = sum(weight * (part / 0xFF) ** _GAMMA for weight, part in zip(_LUMINANCE, parts, strict=True))
        return INK if luminance > _MIDDLE else PAPER


FOLDED: Final = Fill("#f2f2f2", Shape.CROSSED)
TOTAL: Final = Fill("#4d4d4d")
FASTER: Final = Fill("#2171b5")
SLOWER: Final = Fill("#e6750f", Shape.RISING)
_PALETTE: Final = (
    Fill("#1f4e79"),
    Fill("#e08214", Shape.RISING),
    Fill("#7fb3d5", Shape.DOTS),
    Fill("#5b3a8e", Shape.FALLING),
    Fill("#1f9e80", Shape.LINES),
    Fill("#f0c75e"),
    Fill("#8c2d04", Shape.CROSSED),
    Fill("#d9d9d9", Shape.LINES),
)


def fills_in_turn(names: Iterable[str]) -> dict[str, Fill]:
    """Return a fill for each name; names beyond the palette share the last fill."""
    return {name: _PALETTE[min(number, len(_PALETTE) - 1)] for number, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of numbers, linear or logarithmic.

    Without `ends`, the axis covers the values; a linear axis then begins at 0 if `from_zero`. Without `ticks`, the
    renderer chooses round numbers.
    """

    label: str
    unit: str = ""
    ends: tuple[float, float] | None = None
    is_log: bool = False
    from_zero: bool = True
    ticks: Sequence[float] = ()

    @property
    def title(self) -> str:
        """Label of the axis with its unit."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label


class TextPlace(StrEnum):
    """Place of a bar's text."""

    INSIDE = "inside"
    """On the bar."""
    BESIDE = "beside"
    """Next to the bar, on the side with more room; on the bar if it covers the middle of the axis."""
    BEYOND = "beyond"
    """Next to the end of the bar."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar in a row, from `start` to `end` on the axis of numbers, with a text and a tooltip (`tip`)."""

    row: str
    start: float
    end: float
    fill: Fill
    text: str = ""
    place: TextPlace = TextPlace.BESIDE
    tip: Mapping[str, str] = field(default_factory=dict)

    def text_place(self, ends: tuple[float, float]) -> tuple[str, float]:
        """Return where a renderer writes the text: `inside`, `left` or `right`, and the coordinate on the axis.

        `ends` are the ends of the axis of numbers.
        """
        low, high = sorted((self.start, self.end))
        left, right = ((edge - ends[0]) / ((ends[1] - ends[0]) or 1.0) for edge in (low, high))
        over_middle = right > _RIGHT_HALF and left < 1 - _RIGHT_HALF
        if self.place is TextPlace.INSIDE or (self.place is TextPlace.BESIDE and over_middle):
            return "inside", (low + high) / 2
        to_right = self.end >= self.start if self.place is TextPlace.BEYOND else right <= _RIGHT_HALF
        return ("right", min(high, ends[1])) if to_right else ("left", max(low, ends[0]))


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar chart: horizontal bars in rows, and vertical lines by label (`rules`)."""

    bars: Sequence[Bar]
    x: Axis
    rules: Mapping[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> list[str]:
        """Labels of the rows, from top to bottom."""
        return list(dict.fromkeys(bar.row for bar in self.bars))

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the axis of numbers."""
        assert self.x.ends is not None
        return self.x.ends


def bar_axis(label: str, unit: str, bars: Iterable[Bar], room: float) -> Axis:
    """Return an axis that holds 0 and the ends of bars, and is `room` times as long, for texts next to them."""
    ends = [0.0, *(bar.end for bar in bars)]
    low, high = room * min(ends), room * max(ends)
    return Axis(label, unit, (low, high if high > low else 1.0))


class Mark(StrEnum):
    """Form of a series."""

    LINE = "line"
    POINTS = "points"
    STEPS_BEFORE = "steps before"
    """A step line that changes its height at the start of each interval."""
    STEPS_AFTER = "steps after"
    """A step line that changes its height at the end of each interval."""
    AREA = "area"
    """Filled areas below intervals; `x` has both ends of each interval."""
    LEVELS = "levels"
    """Horizontal lines over intervals; `x` has both ends of each interval."""
    BAND = "band"
    """The area between `y` and `to`."""


@dataclass(frozen=True, slots=True)
class Series:
    """A series of points, with its name in the legend.

    `dash` has the lengths of dashes and gaps. `marker` is `circle`, `square`, `triangle-up`, `diamond` or `cross`.
    `tips` are the tooltips of the points; `texts` label the points in charts without tooltips. `to` are the upper ends
    of a band.
    """

    name: str
    mark: Mark
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dash: tuple[int, ...] = ()
    marker: str = "circle"
    tips: Sequence[Mapping[str, str]] = ()
    texts: Sequence[str] = ()
    to: Sequence[float] = ()


def in_proportion(name: str, x: Sequence[float], y: Sequence[float]) -> Series:
    """Return the line through the first point and the origin, up to the last x."""
    return Series(name, Mark.LINE, [x[0], x[-1]], [y[0], y[0] * x[-1] / x[0]], "#767676", (5, 3), "cross")


def band(name: str, x: Sequence[float], ends: Sequence[tuple[float, float] | None], colour: str) -> list[Series]:
    """Return a band over the points with a known range, as a list of one series; empty with fewer than two points."""
    points = [(place, *span) for place, span in zip(x, ends, strict=True) if span is not None]
    if len(points) <= 1:
        return []
    places, low, high = zip(*points, strict=True)
    return [Series(name, Mark.BAND, places, low, colour, to=high)]


@dataclass(frozen=True, slots=True)
class Curves:
    """A chart of series over two axes of numbers, with vertical lines by label (`rules`)."""

    series: Sequence[Series]
    x: Axis
    y: Axis
    rules: Mapping[str, float] = field(default_factory=dict)


class TimelineBar(NamedTuple):
    """Bar of a timeline: one activity in one row. A tuple, because a timeline has many thousands."""

    row: str
    start: float
    end: float
    fill: Fill
    what: str
    kind: str
    time: str


class TimelineStretch(NamedTuple):
    """An interval of a timeline, in the unit of its axis."""

    title: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """A timeline: rows from top to bottom, with a bar for each activity."""

    what: str
    """Name of the whole interval, such as `weight update`."""
    rows: Sequence[str]
    bars: Sequence[TimelineBar]
    x: Axis
    parts: Sequence[TimelineStretch]
    """Consecutive phases of the whole interval."""
    stretches: Sequence[TimelineStretch]
    """Intervals to zoom to; the first is the whole interval."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key that varies over the points of a study."""

    name: str
    axis: Axis
    """Axis with the common unit of the values."""
    values: Sequence[str]
    """Distinct values in order, as texts without their common unit."""
    numbers: Sequence[float]
    """The values as numbers; empty if a value is not a number."""
    at: Sequence[int]
    """Index in `values` of each point's value."""

    @property
    def ticks(self) -> dict[float, str]:
        """Tick labels by their places on an axis from 0 to 1; at most ten."""
        step = -(-len(self.values) // _MOST_TICKS)
        return {self._place(index): self.values[index] for index in range(0, len(self.values), step)}

    @property
    def is_crowded(self) -> bool:
        """True if there are too many labels to write them horizontally next to each other."""
        return len(self.values) > _MOST_UPRIGHT

    def place(self, point: int) -> float:
        """Return the place of a point's value on an axis from 0 to 1."""
        return self._place(self.at[point])

    def _place(self, index: int) -> float:
        return round(index / max(1, len(self.values) - 1), 5)


class StudyPlot(StrEnum):
    """Kind of chart for a metric over several keys."""

    HEAT_MAP = "heat map"
    """A cell for each pair of values of the first key (vertical) and the second; a map for each value of a third key.

    A cell with several points shows the best.
    """
    DOTS = "dots"
    """A dot for each sampled point, with the first key vertical and the second horizontal."""
    PARALLEL = "parallel axes"
    """An axis for each key, a line for each point."""


@dataclass(frozen=True, slots=True)
class Study:
    """A chart of a metric over several keys of a study."""

    plot: StudyPlot
    keys: Sequence[Key]
    figure: Axis
    """Axis of the metric."""
    values: Sequence[float | None]
    """Metric of each point; None if the point has none."""
    points: Sequence[int]
    """Number of each point in the study."""
    statuses: Sequence[str]
    """Status of each point."""
    more_is_better: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        known = [value for value in self.values if value is not None]
        return min(known), max(known)

    @property
    def order(self) -> list[int]:
        """Indices of the points in drawing order: points without the metric, then from the worst to the best."""
        sign = 1 if self.more_is_better else -1
        ranks = [-inf if value is None else sign * value for value in self.values]
        return sorted(range(len(ranks)), key=ranks.__getitem__)

    @property
    def has_texts(self) -> bool:
        """True if a heat map has few enough cells to write numbers on them."""
        return len(self.keys[0].values) * len(self.keys[1].values) <= _MOST_CELLS

    def text(self, value: float) -> tuple[str, str]:
        """Return the text and the text colour of a cell of a heat map."""
        low, high = self.ends
        return short_number(value, high), "#000000" if value - low > _LIGHT * (high - low) else PAPER


def short_number(value: float, most: float) -> str:
    """Return a number in five characters, for a series whose largest number is `most`.

    >>> [short_number(*pair) for pair in ((15702.0, 15702.0), (1073.4, 15702.0), (1073.4, 2009.0), (0.1234, 0.2))]
    ['15.7k', '1.07k', '1,073', '0.123']
    >>> short_number(1.302e6, 1.302e6), short_number(999_900.0, 999_900.0)
    ('1.3M', '1,000k')
    """
    if most >= 1e4:
        divisor, letter = next(pair for pair in _LETTERS if most >= pair[0])
        return f"{format_significant(value / divisor)}{letter}"
    return f"{value:,.0f}" if most >= 100 else format_significant(value)


def is_wide(numbers: Iterable[float], ratio: float = 12.0) -> bool:
    """Return True if a logarithmic axis suits numbers: all are positive, and the largest is `ratio` x the smallest."""
    values = list(numbers)
    return bool(values) and min(values) > 0 and max(values) >= ratio * min(values)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its title, legend and notes."""

    title: str
    description: str
    """Alternative text for screen readers."""
    drawn: Bars | Curves | TimelineChart | Study
    legend: Mapping[str, Fill] = field(default_factory=dict)
    """Fills by label."""
    legend_title: str = ""
    numbers: Table | None = None
    """The same data as a table, for text and Markdown."""
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A file of charts, in rows, with texts above the charts and the inputs of the result."""

    title: str
    rows: Sequence[Sequence[Chart]]
    about: Sequence[str] = ()
    warnings: Sequence[str] = ()
    inputs: Sequence[tuple[str, str]] = ()
