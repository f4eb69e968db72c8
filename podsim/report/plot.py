"""A chart of one weight update: when each IPU does what, and where its time goes.

Figures are made directly, without pyplot and its global state.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Final

from matplotlib import rc_context, rcdefaults, rcParams
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from podsim.engine.trace import Trace
from podsim.errors import OutputError
from podsim.report.breakdown import exact_seconds
from podsim.report.files import check_not_read, check_writable, write_atomically
from podsim.report.format import format_duration_s, format_percent
from podsim.report.kinds import in_kind_order, kind_of
from podsim.report.phases import of_first_group
from podsim.report.result import RunResult
from podsim.report.rows import IpuAccount
from podsim.report.windows import Part, Window, parts_of, records_in, windows_of
from podsim.units import ps_to_seconds

PLOT_SUFFIXES: Final = (".png", ".svg", ".pdf")

_MOST_IPUS: Final = 16
_MS_PER_S: Final = 1000
_WIDTH_INCHES: Final = 14.0
_ROW_INCHES: Final = 0.36
_DOTS_PER_INCH: Final = 150
_LABEL_CHARACTERS: Final = 30
_LABEL_FROM_SHARE: Final = 0.035
_PART_COLOURS: Final = ("#d9d9d9", "#f2f2f2")
_LUMINANCE: Final = (0.299, 0.587, 0.114)


def check_plot_path(path: str | Path) -> None:
    """Refuse a path that cannot hold a chart, before the work whose result it is to show.

    Raises:
        OutputError: The suffix is not one that can be drawn, or the path cannot be written.
    """
    suffix = Path(path).suffix
    if suffix.lower() not in PLOT_SUFFIXES:
        what = f"`{suffix}` is not a format for charts" if suffix else "the name of a chart needs a suffix"
        raise OutputError(what, where=str(path), do=f"end the name in {', '.join(PLOT_SUFFIXES)}")
    check_writable(path)


def write_plot(result: RunResult, path: str | Path) -> None:
    """Draw a result into a PNG, SVG or PDF file, as the suffix says; the same bytes for the same result.

    Raises:
        OutputError: The suffix is not one that can be drawn, or the path cannot be written.
    """
    check_not_read(path, "plot", result.inputs)
    save_figure(path, lambda: plot_run(result))


def save_figure(path: str | Path, draw: Callable[[], Figure]) -> None:
    """Write a figure as the suffix says, undated; it is drawn once the path has been checked.

    Raises:
        OutputError: The suffix is not one that can be drawn, or the path cannot be written.
    """
    check_plot_path(path)
    suffix = Path(path).suffix.lower()
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    buffer = BytesIO()
    with rc_context():
        rcdefaults()  # the same bytes whatever a matplotlibrc of the user says
        rcParams["svg.hashsalt"] = "podsim"
        draw().savefig(buffer, format=suffix[1:], dpi=_DOTS_PER_INCH, metadata=undated)
    write_atomically(path, buffer.getvalue())


def plot_run(result: RunResult) -> Figure:
    """The chart of a result: a timeline of the IPUs, if it was recorded, over their time by kind."""
    accounts = result.ipus[:_MOST_IPUS]
    bars_inches = 1.1 + _ROW_INCHES * (len(accounts) + 1)
    trace = _timeline(result)
    timeline_inches = (1.9 + _ROW_INCHES * len(accounts)) if trace else 0.0
    height = max(0.8 + timeline_inches + bars_inches, 1.6 + 0.21 * len(result.breakdown))
    figure = Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
    figure.suptitle(conclusion(result), x=0.01, ha="left", fontsize=14, fontweight="bold")
    figure.legend(
        handles=_legend(result),
        loc="outside right upper",
        frameon=False,
        title="share of the update",
        fontsize=9.5,
    )
    if trace:
        upper, lower = figure.subfigures(
            2, 1, squeeze=False, height_ratios=[timeline_inches, bars_inches], hspace=0.04
        ).flat
        _draw_timeline(upper, trace, accounts)
        _draw_breakdown(lower.subplots(), result, accounts)
    else:
        _draw_breakdown(figure.subplots(), result, accounts)
    return figure


def conclusion(result: RunResult) -> str:
    """What the chart shows, in one or two lines: the update time, its largest parts and who sets the pace."""
    largest = sorted(result.breakdown.items(), key=lambda item: -item[1])[:3]
    total_s = result.weight_update_s or 1.0
    parts = ", ".join(f"{kind_of(kind).label} {format_percent(time_s / total_s, 0)}" for kind, time_s in largest)
    slowest = result.slowest_ipu
    pace = f"; IPU {slowest.ipu} sets the pace" if slowest is not None and len(result.ipus) > 1 else ""
    update = format_duration_s(result.weight_update_s, 4)
    return f"{result.description or result.name}\n{update} per weight update: {parts}{pace}"


def _timeline(result: RunResult) -> Trace | None:
    """The trace, if it was recorded and there is anything to see in it."""
    trace = result.trace
    return trace if trace and trace.records and trace.phases and trace.makespan_ps else None


def _legend(result: RunResult) -> list[Patch]:
    total_s = result.weight_update_s or 1.0
    times_s = result.breakdown
    return [
        Patch(
            facecolor=kind_of(kind).colour,
            edgecolor="#666666",
            linewidth=0.4,
            label=f"{kind_of(kind).label}  {format_percent(times_s[kind] / total_s)}",
        )
        for kind in in_kind_order(times_s)
        if times_s[kind]
    ]


def _draw_timeline(figure: SubFigure, trace: Trace, accounts: Sequence[IpuAccount]) -> None:
    phases = of_first_group(trace.phases)
    parts, windows = parts_of(phases), windows_of(phases, trace.makespan_ps)
    grid = figure.add_gridspec(
        2,
        len(windows),
        height_ratios=[0.55, 1.0 + _ROW_INCHES * len(accounts)],
        width_ratios=_widths(windows),
    )
    _draw_overview(figure.add_subplot(grid[0, :]), parts, windows)
    first: Axes | None = None
    for column, window in enumerate(windows):
        axes = figure.add_subplot(grid[1, column], sharey=first)
        _draw_window(axes, trace, accounts, window, parts)
        title = f"{_letter(column)}   {window.title}" if len(windows) > 1 else window.title
        axes.set_title(title, loc="left", fontsize=10)
        axes.tick_params(axis="y", length=0, labelleft=first is None)
        first = first or axes


def _widths(windows: Sequence[Window]) -> list[float]:
    """Wider for longer stretches, within reason."""
    lengths = [window.end_ps - window.start_ps for window in windows]
    return [max(0.6, length / max(lengths)) for length in lengths]


def _draw_overview(axes: Axes, parts: Sequence[Part], windows: Sequence[Window]) -> None:
    """The whole update as a strip of its parts, with the windows below marked on it."""
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
    axes.set_title("One weight update", loc="left", fontsize=10.5)
    axes.set_xlabel("time since the start of the weight update [ms]", fontsize=9)
    plain_frame(axes)


def _draw_window(
    axes: Axes, trace: Trace, accounts: Sequence[IpuAccount], window: Window, parts: Sequence[Part]
) -> None:
    rows = {account.lane: row for row, account in enumerate(accounts)}
    shown = [record for record in trace.records if record.lane in rows]
    bars: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for record, start_ps, end_ps in records_in(shown, window):
        bars.setdefault((record.lane, record.kind), []).append((_ms(start_ps), _ms(end_ps - start_ps)))
    for (lane, kind), spans in bars.items():
        axes.broken_barh(spans, (rows[lane] - 0.41, 0.82), facecolors=kind_of(kind).colour, linewidth=0)
    for part in parts:
        if window.start_ps < part.start_ps < window.end_ps:
            axes.axvline(_ms(part.start_ps), color="black", lw=0.8, ls=(0, (4, 2)))
    axes.set(xlim=(_ms(window.start_ps), _ms(window.end_ps)), ylim=(len(accounts) - 0.45, -0.55))
    axes.set_yticks(range(len(accounts)), [f"IPU {account.ipu}" for account in accounts])
    axes.set_xlabel("[ms]", fontsize=9)
    plain_frame(axes)


def _draw_breakdown(axes: Axes, result: RunResult, accounts: Sequence[IpuAccount]) -> None:
    bars = [(fill(f"IPU {account.ipu}: {account.stages}", _LABEL_CHARACTERS), account.seconds) for account in accounts]
    if len(result.ipus) != 1:
        bars.append(("mean", exact_seconds(result.breakdown_ps)))
    total_s = result.weight_update_s or 1.0
    for row, (_, times_s) in enumerate(bars):
        left = 0.0
        for kind in in_kind_order(times_s):
            look, length = kind_of(kind), times_s[kind] * _MS_PER_S
            axes.barh(row, length, left=left, height=0.78, color=look.colour, linewidth=0)
            if times_s[kind] / total_s >= _LABEL_FROM_SHARE:
                share = format_percent(times_s[kind] / total_s, 0)
                axes.text(
                    left + length / 2,
                    row,
                    share,
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    color=ink(look.colour),
                )
            left += length
    axes.set_yticks(range(len(bars)), [label for label, _ in bars], fontsize=8.5)
    axes.set(xlim=(0, total_s * _MS_PER_S), ylim=(len(bars) - 0.45, -0.55))
    axes.tick_params(axis="y", length=0)
    axes.set_title(_breakdown_title(result), loc="left", fontsize=10.5)
    axes.set_xlabel("time in one weight update [ms]", fontsize=9)
    plain_frame(axes)


def _breakdown_title(result: RunResult) -> str:
    slowest = result.slowest_ipu
    if slowest is None or len(result.ipus) == 1:
        return "Time by kind"
    idlest = min(result.ipus, key=lambda account: account.busy_s)
    total_s = result.weight_update_s or 1.0
    more = f" (first {_MOST_IPUS} of {len(result.ipus)} IPUs)" if len(result.ipus) > _MOST_IPUS else ""
    return (
        f"IPU {slowest.ipu} is at work {format_percent(slowest.busy_s / total_s, 0)} of the time, "
        f"IPU {idlest.ipu} waits {format_percent(1 - idlest.busy_s / total_s, 0)}{more}"
    )


def plain_frame(axes: Axes) -> None:
    """Only the horizontal axis, with small numbers."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="x", labelsize=8.5)


def ink(background: str) -> str:
    """Black or white, whichever reads better."""
    luminance = sum(weight * part for weight, part in zip(_LUMINANCE, to_rgb(background), strict=True))
    return "white" if luminance < 0.5 else "black"


def _letter(number: int) -> str:
    return "ABC"[number]


def _ms(time_ps: int) -> float:
    return ps_to_seconds(time_ps) * _MS_PER_S
