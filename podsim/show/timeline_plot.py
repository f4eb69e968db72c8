"""The timeline of a chart: when each IPU does what, in a few windows of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import StepPatch

from podsim.engine.trace import Record, Trace
from podsim.program.passes_in_order import Passes
from podsim.result.kinds import in_kind_order, kind_of
from podsim.result.rows import IpuAccount, of_first_group
from podsim.result.slices import REPEATED, Slice, slices_of
from podsim.result.windows import Part, Window, parts_of, records_in, windows_of
from podsim.show.chart_frame import plain_frame
from podsim.units import ps_to_seconds

ROW_INCHES: Final = 0.36
_MS_PER_S: Final = 1000
_PART_COLOURS: Final = ("#d9d9d9", "#f2f2f2")
_BINS: Final = 480
_BAR: Final = 0.82


@dataclass(frozen=True, slots=True)
class Share:
    """A stretch of a lane that is of one kind to some part.

    Attributes:
        record: When, and how often.
        share: How much of it is of this kind, 1 for all of it.
    """

    record: Record
    share: float


def shares_of(trace: Trace, passes: Passes) -> Iterator[Share]:
    """All stretches; repetitions that are not told apart are a mixture of their kinds."""
    for each in slices_of(trace.records, passes):
        yield from _shares(each, each)


def _shares(each: Slice, around: Slice) -> Iterator[Share]:
    if each.inside and each.category != REPEATED:
        for part in each.inside:
            yield from _shares(part, around)
        return
    length_ps = each.end_ps - each.start_ps
    for part in each.inside or (each,):
        record = Record(
            each.lane,
            part.category,
            part.name,
            each.start_ps,
            each.end_ps,
            around.repeat_count,
            around.repeat_period_ps,
        )
        yield Share(record, (part.end_ps - part.start_ps) / length_ps)


def filled(shares: Sequence[Share], window: Window, bins: int = _BINS) -> Mapping[str, list[float]]:
    """How much of each of a number of equal stretches of a window is of each kind."""
    width_ps = (window.end_ps - window.start_ps) / bins
    columns: dict[str, list[float]] = {}
    for each in shares:
        column = columns.setdefault(each.record.kind, [0.0] * bins)
        for _, start_ps, end_ps in records_in([each.record], window):
            start, end = (start_ps - window.start_ps) / width_ps, (end_ps - window.start_ps) / width_ps
            for number in range(int(start), min(bins, int(end) + 1)):
                column[number] += each.share * max(0.0, min(end, number + 1) - max(start, number))
    return columns


def draw_timeline(figure: SubFigure, trace: Trace, passes: Passes, accounts: Sequence[IpuAccount], what: str) -> None:
    """An overview of the whole, over windows in which every IPU is a row."""
    phases = of_first_group(trace.phases)
    parts, windows = parts_of(phases), windows_of(phases, trace.makespan_ps, what)
    grid = figure.add_gridspec(
        2,
        len(windows),
        height_ratios=[0.55, 1.0 + ROW_INCHES * len(accounts)],
        width_ratios=_widths(windows),
    )
    _draw_overview(figure.add_subplot(grid[0, :]), parts, windows, what)
    shares = list(shares_of(trace, passes))
    first: Axes | None = None
    for column, window in enumerate(windows):
        axes = figure.add_subplot(grid[1, column], sharey=first)
        _draw_window(axes, shares, accounts, window, parts)
        title = f"{_letter(column)}   {window.title}" if len(windows) > 1 else window.title
        axes.set_title(title, loc="left", fontsize=10)
        axes.tick_params(axis="y", length=0, labelleft=first is None)
        first = first or axes


def _widths(windows: Sequence[Window]) -> list[float]:
    """Widths of windows: wider for longer stretches, within limits."""
    lengths = [window.end_ps - window.start_ps for window in windows]
    return [max(0.6, length / max(lengths)) for length in lengths]


def _draw_overview(axes: Axes, parts: Sequence[Part], windows: Sequence[Window], what: str) -> None:
    """The whole as a strip of its parts, with the windows below marked on it."""
    for number, part in enumerate(parts):
        start, length = _ms(part.start_ps), _ms(part.end_ps - part.start_ps)
        axes.barh(0, length, left=start, height=0.8, color=_PART_COLOURS[number % 2], edgecolor="#888888", lw=0.6)
        if length > 0.04 * _ms(parts[-1].end_ps):
            axes.text(start + length / 2, 0, part.name, ha="center", va="center", fontsize=9)
    for number, window in enumerate(windows if len(windows) > 1 else ()):
        start, end = _ms(window.start_ps), _ms(window.end_ps)
        axes.axvspan(start, end, color="#f0a000", alpha=0.3, lw=0.8)
        # Short windows lie close together at the start: the letter of the second goes to its right.
        place, side = (end, "left") if number == 1 else ((start + end) / 2, "center")
        axes.text(place, 0.5, _letter(number), ha=side, va="bottom", fontsize=9)
    axes.set(xlim=(0, _ms(parts[-1].end_ps)), ylim=(-0.45, 0.85), yticks=[])
    # The letters of short windows at the start stand between the strip and its title.
    axes.set_title(f"One {what}", loc="left", fontsize=10.5, pad=12)
    axes.set_xlabel(f"time since the start of the {what} [ms]", fontsize=9)
    plain_frame(axes)


def _draw_window(
    axes: Axes, shares: Sequence[Share], accounts: Sequence[IpuAccount], window: Window, parts: Sequence[Part]
) -> None:
    """Every IPU as a bar; where operations are shorter than a point its height is divided among their kinds."""
    edges = [_ms(window.start_ps + (window.end_ps - window.start_ps) * number // _BINS) for number in range(_BINS + 1)]
    for row, account in enumerate(accounts):
        columns = filled([each for each in shares if each.record.lane == account.lane], window)
        below = [row + _BAR / 2] * _BINS
        for kind in in_kind_order(columns):
            above = [edge - _BAR * height for edge, height in zip(below, columns[kind], strict=True)]
            # Thousands of corners would make a vector file of many MB. `Axes.stairs` would look at every one of them
            # for limits, which are set below.
            columns_of_kind = StepPatch(
                above,
                edges,
                baseline=below,  # type: ignore[arg-type]  # a line is as good as a number
                fill=True,
                color=kind_of(kind).colour,
                linewidth=0,
                rasterized=True,
            )
            axes.add_artist(columns_of_kind)
            below = above
    for part in parts:
        if window.start_ps < part.start_ps < window.end_ps:
            axes.axvline(_ms(part.start_ps), color="black", lw=0.8, ls=(0, (4, 2)))
    axes.set(xlim=(_ms(window.start_ps), _ms(window.end_ps)), ylim=(len(accounts) - 0.45, -0.55))
    axes.set_yticks(range(len(accounts)), [f"IPU {account.ipu}" for account in accounts])
    axes.set_xlabel("[ms]", fontsize=9)
    plain_frame(axes)


def _letter(number: int) -> str:
    return "ABC"[number]


def _ms(time_ps: int) -> float:
    return ps_to_seconds(time_ps) * _MS_PER_S
