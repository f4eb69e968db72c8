"""A chart as data: what is drawn over which axes, with which words and colours; what the renderers share is here.

`podsim.show.matplotlib_charts` draws it into files and notebooks, `podsim.show.vega_charts` into pages.
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
"""Relative luminance at which black and white have the same contrast: that of WCAG 2, 4.58."""
_LUMINANCE: Final = (0.2126, 0.7152, 0.0722)
_GAMMA: Final = 2.2
_HEX: Final = 16
_RIGHT_HALF: Final = 0.62
INK, PAPER = "#1a1a1a", "#ffffff"
NO_FIGURE, LEFT_OUT = "#9a4a00", "#dddddd"
COLOURS: Final = "viridis"
"""Of figures, in the words of both renderers; readable in grey and by the colour-blind."""
_LIGHT: Final = 0.6
"""Of the range of figures; those above are written in black, as their colour is light."""
_MOST_CELLS, _MOST_TICKS, _MOST_UPRIGHT = 150, 10, 8
_LARGE, _WHOLE = 1e4, 100
_LETTERS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
LOOKS: Final = (
    ("#1b6ca8", "circle", (1, 0)),
    ("#e6750f", "square", (6, 3)),
    ("#1f9e80", "triangle-up", (6, 2, 1, 2)),
    ("#6a2c86", "diamond", (1, 2)),
)
"""Colour, marker and dashes of lines that are to be told apart: any of the three does it."""


class Shape(StrEnum):
    """The pattern of a fill, which tells it apart where there is no colour."""

    SOLID = "solid"
    RISING = "rising"
    FALLING = "falling"
    DOTS = "dots"
    LINES = "lines"
    CROSSED = "crossed"


class Fill(NamedTuple):
    """A colour, `#rrggbb`, with a pattern that tells it apart where there is none."""

    colour: str
    shape: Shape = Shape.SOLID

    @property
    def ink(self) -> str:
        """Black or white, whichever is easier to read on it.

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
    """An axis of numbers: of equal ratios or differences, as far as there is something to show unless it has ends.

    Without ends one of differences begins at 0 if `from_zero`; without `ticks` round numbers are written on it.
    """

    label: str
    unit: str = ""
    ends: tuple[float, float] | None = None
    is_log: bool = False
    from_zero: bool = True
    ticks: Sequence[float] = ()

    @property
    def title(self) -> str:
        """Its label with its unit."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label


class TextPlace(StrEnum):
    """The place of the text of a bar: on it if it is wide enough, on a side with room, or beyond its end."""

    INSIDE = "inside"
    BESIDE = "beside"
    BEYOND = "beyond"


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar on a row, from one number of its axis to another, with a text and what pointing at it shows."""

    row: str
    start: float
    end: float
    fill: Fill
    text: str = ""
    place: TextPlace = TextPlace.BESIDE
    tip: Mapping[str, str] = field(default_factory=dict)

    def text_at(self, ends: tuple[float, float]) -> tuple[str, float]:
        """Return the place of a text (`inside`, `left`, `right`) and its coordinate, on an axis with these ends."""
        low, high = sorted((self.start, self.end))
        left, right = ((at - ends[0]) / ((ends[1] - ends[0]) or 1.0) for at in (low, high))
        over_middle = right > _RIGHT_HALF and left < 1 - _RIGHT_HALF
        if self.place is TextPlace.INSIDE or (self.place is TextPlace.BESIDE and over_middle):
            return "inside", (low + high) / 2
        to_right = self.end >= self.start if self.place is TextPlace.BEYOND else right <= _RIGHT_HALF
        return ("right", min(high, ends[1])) if to_right else ("left", max(low, ends[0]))


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars in rows, in the order in which these appear, and upright lines by what they mean."""

    bars: Sequence[Bar]
    x: Axis
    rules: Mapping[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> list[str]:
        """The rows from above."""
        return list(dict.fromkeys(bar.row for bar in self.bars))

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the axis of numbers."""
        assert self.x.ends is not None
        return self.x.ends


class Mark(StrEnum):
    """The ways to draw a series."""

    LINE = "line"
    POINTS = "points"
    STEPS_BEFORE = "steps before"
    """A line that goes up before it goes on."""
    STEPS_AFTER = "steps after"
    """A line that goes on before it goes up."""
    AREA = "area"
    """Areas below stretches of the horizontal axis, of which `x` has both ends of each."""
    LEVELS = "levels"
    """Lines at the height of such stretches."""
    BAND = "band"
    """What lies between `y` and `to`."""


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers that belong together: places along the horizontal axis and heights, with the name that the legend gives.

    `dash` has the lengths of dashes and gaps; a marker is `circle`, `square`, `triangle-up`, `diamond` or `cross`.
    Of each point, `tips` are shown when it is pointed at, and `texts` are written where nobody can; `to` are the upper
    ends of a band.
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
    """Return the line through the first point that grows in proportion to x."""
    return Series(name, Mark.LINE, [x[0], x[-1]], [y[0], y[0] * x[-1] / x[0]], "#767676", (5, 3), "cross")


def band(name: str, x: Sequence[float], ends: Sequence[tuple[float, float] | None], colour: str) -> list[Series]:
    """Return the band of the points whose ranges are known, if there are two or more."""
    known = [(at, *span) for at, span in zip(x, ends, strict=True) if span is not None]
    places, low, high = zip(*known, strict=True) if len(known) > 1 else ((), (), ())
    return [Series(name, Mark.BAND, places, low, colour, to=high)] if places else []


@dataclass(frozen=True, slots=True)
class Curves:
    """Series over two axes of numbers, with upright lines by what they mean."""

    series: Sequence[Series]
    x: Axis
    y: Axis
    rules: Mapping[str, float] = field(default_factory=dict)


class TimelineBar(NamedTuple):
    """Bar of a timeline: one activity in one row. A tuple, since timelines have many thousands."""

    row: str
    start: float
    end: float
    fill: Fill
    what: str
    kind: str
    time: str


class TimelineStretch(NamedTuple):
    """A part of a timeline, in the unit of its axis."""

    title: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """Rows of stretches of time from above, each with what went on.

    `parts` make up the whole, such as a `weight update`; the first of the `stretches` to look at closely is all of it.
    """

    what: str
    rows: Sequence[str]
    pieces: Sequence[TimelineBar]
    x: Axis
    parts: Sequence[TimelineStretch]
    stretches: Sequence[TimelineStretch]


@dataclass(frozen=True, slots=True)
class Key:
    """A key that varies over the points of a study, with the unit that all its values share on its axis.

    Values are texts without that unit, in order; `numbers` is empty if one of them is none. `at` is the place of the
    value of each point among them.
    """

    name: str
    axis: Axis
    values: Sequence[str]
    numbers: Sequence[float]
    at: Sequence[int]

    @property
    def ticks(self) -> dict[float, str]:
        """Labels of an axis from 0 to 1 by their places, as many as have room."""
        every = -(-len(self.values) // _MOST_TICKS)
        return {self._place(at): self.values[at] for at in range(0, len(self.values), every)}

    @property
    def is_crowded(self) -> bool:
        """True if labels next to each other have no room to stand upright."""
        return len(self.values) > _MOST_UPRIGHT

    def place(self, point: int) -> float:
        """Return the place of a point's value on an axis from 0 to 1."""
        return self._place(self.at[point])

    def _place(self, at: int) -> float:
        return round(at / max(1, len(self.values) - 1), 5)


class WayOver(StrEnum):
    """The ways to draw a figure over several keys."""

    HEAT_MAP = "heat map"
    """The first key upwards and the second across, one map for each value of a third; the best where points meet."""
    DOTS = "dots"
    """As a heat map, for points that were sampled."""
    PARALLEL = "parallel axes"
    """An axis for each key, a line for each point."""


@dataclass(frozen=True, slots=True)
class Study:
    """A figure over several keys of a study: its value at each point, None where it has none, and what became of it.

    The best of points that meet is the largest if `more_is_better`.
    """

    over: WayOver
    keys: Sequence[Key]
    figure: Axis
    values: Sequence[float | None]
    points: Sequence[int]
    statuses: Sequence[str]
    more_is_better: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest figure."""
        known = [value for value in self.values if value is not None]
        return min(known), max(known)

    @property
    def order(self) -> list[int]:
        """Places of the points as they are drawn: those without the figure, then from the worst to the best."""
        sign = 1 if self.more_is_better else -1
        known = [-inf if value is None else sign * value for value in self.values]
        return sorted(range(len(known)), key=known.__getitem__)

    @property
    def has_texts(self) -> bool:
        """True if a heat map has few enough cells to write numbers on them."""
        return len(self.keys[0].values) * len(self.keys[1].values) <= _MOST_CELLS

    def text(self, value: float) -> tuple[str, str]:
        """Return the text and the text colour of a cell."""
        low, high = self.ends
        return short_number(value, high), "#000000" if value - low > _LIGHT * (high - low) else PAPER


def short_number(value: float, most: float) -> str:
    """Return a number in five characters, for a series whose largest number is `most`.

    >>> [short_number(*each) for each in ((15702.0, 15702.0), (1073.4, 15702.0), (1073.4, 2009.0), (0.1234, 0.2))]
    ['15.7k', '1.07k', '1,073', '0.123']
    >>> short_number(1.302e6, 1.302e6), short_number(999_900.0, 999_900.0)
    ('1.3M', '1,000k')
    """
    if most >= _LARGE:
        divisor, letter = next((each for each in _LETTERS if most >= each[0]), _LETTERS[-1])
        return f"{format_significant(value / divisor)}{letter}"
    return f"{value:,.0f}" if most >= _WHOLE else format_significant(value)


def is_wide(numbers: Iterable[float], ratio: float = 12.0) -> bool:
    """Return True if numbers span so wide a range that their axis is better logarithmic."""
    given = list(numbers)
    return bool(given) and min(given) > 0 and max(given) >= ratio * min(given)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its words: a description for those who do not see it, fills by what they mean, lines below it.

    `numbers` is what it shows as a table.
    """

    title: str
    description: str
    drawn: Bars | Curves | TimelineChart | Study
    legend: Mapping[str, Fill] = field(default_factory=dict)
    legend_title: str = ""
    numbers: Table | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """Charts of one file in rows, with the texts above them and the inputs they were made from."""

    title: str
    rows: Sequence[Sequence[Chart]]
    about: Sequence[str] = ()
    warnings: Sequence[str] = ()
    inputs: Sequence[tuple[str, str]] = ()
