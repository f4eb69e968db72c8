"""A chart of one weight update, or of one session call of forward passes: when each IPU does what, and where time goes.

Figures are made directly, without pyplot and its global state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from podsim.engine.trace import Trace
from podsim.format import format_count, format_duration_s, format_percent
from podsim.result.base import Result
from podsim.result.breakdown import exact_seconds
from podsim.result.forward import ForwardResult
from podsim.result.kinds import in_kind_order, kind_of
from podsim.result.result import RunResult
from podsim.result.rows import IpuAccount
from podsim.show.chart_frame import framed, legend_entry, plain_frame, write_on_bar
from podsim.show.timeline_plot import ROW_INCHES, draw_timeline
from podsim.units import ps_to_seconds

_MOST_IPUS: Final = 16
_MS_PER_S: Final = 1000
_LABEL_CHARACTERS: Final = 30
_LABEL_FROM_SHARE: Final = 0.035
_ENTRY_INCHES: Final = 0.21


@dataclass(frozen=True, slots=True)
class _Subject:
    """The numbers of a result that a chart shows.

    Attributes:
        result: The result.
        what: What its time is divided, for example `weight update`.
        conclusion: The title.
        breakdown_ps: Mean over the IPUs of their time by kind. [ps]
        ipus: The IPUs of a replica.
    """

    result: Result
    what: str
    conclusion: str
    breakdown_ps: Mapping[str, int]
    ipus: Sequence[IpuAccount]

    @property
    def total_s(self) -> float:
        """Time that is divided; never 0. [s]"""
        return ps_to_seconds(sum(self.breakdown_ps.values())) or 1.0

    @property
    def trace(self) -> Trace | None:
        """The trace, if it was recorded and there is anything to see in it."""
        trace = self.result.trace
        return trace if trace and trace.records and trace.phases and trace.makespan_ps else None

    @property
    def slowest(self) -> IpuAccount | None:
        """The IPU that waits least, the first of equals."""
        return max(self.ipus, key=lambda account: account.busy_s, default=None)


def plot_run(result: RunResult | ForwardResult) -> Figure:
    """The chart of a result: a timeline of the IPUs, if it was recorded, over their time by kind."""
    subject = _subject(result)
    accounts = subject.ipus[:_MOST_IPUS]
    bars_inches = 1.1 + ROW_INCHES * (len(accounts) + 1)
    timeline_inches = (1.9 + ROW_INCHES * len(accounts)) if subject.trace else 0.0
    handles = _legend(subject)
    height = max(timeline_inches + bars_inches, 0.6 + _ENTRY_INCHES * len(handles))
    figure, body = framed(result, subject.conclusion, height)
    title = f"share of the {subject.what.split()[-1]}"
    body.legend(handles=handles, loc="outside right upper", frameon=False, title=title, fontsize=9.5)
    if subject.trace:
        heights = [timeline_inches, bars_inches]
        upper, lower = body.subfigures(2, 1, squeeze=False, height_ratios=heights, hspace=0.04).flat
        draw_timeline(upper, subject.trace, result.passes or {}, accounts, subject.what)
        _draw_breakdown(lower.subplots(), subject, accounts)
    else:
        _draw_breakdown(body.subplots(), subject, accounts)
    return figure


def conclusion(result: RunResult | ForwardResult) -> str:
    """Title of the chart, in one or two lines: the time, its largest parts, and the IPU that sets the pace."""
    return _subject(result).conclusion


def _subject(result: RunResult | ForwardResult) -> _Subject:
    if isinstance(result, RunResult):
        time = f"{format_duration_s(result.weight_update_s, 4)} per weight update"
        subject = _Subject(result, "weight update", time, result.breakdown_ps, result.ipus)
    else:
        time = f"{format_duration_s(result.call.time_s, 4)} per call of {format_count(result.batches_per_call)} batches"
        subject = _Subject(result, "session call", time, result.call.breakdown_ps, result.ipus)
    return _with_conclusion(subject)


def _with_conclusion(subject: _Subject) -> _Subject:
    """The title, led by the time."""
    times_s = exact_seconds(subject.breakdown_ps)
    largest = sorted(times_s.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(
        f"{kind_of(kind).label} {format_percent(time_s / subject.total_s, 0)}" for kind, time_s in largest
    )
    slowest = subject.slowest
    pace = f"; IPU {slowest.ipu} sets the pace" if slowest is not None and len(subject.ipus) > 1 else ""
    return replace(subject, conclusion=f"{subject.result.title}\n{subject.conclusion}: {parts}{pace}")


def _legend(subject: _Subject) -> list[Patch]:
    times_s = exact_seconds(subject.breakdown_ps)
    return [
        legend_entry(kind_of(kind).colour, f"{kind_of(kind).label}  {format_percent(times_s[kind] / subject.total_s)}")
        for kind in in_kind_order(times_s)
        if times_s[kind]
    ]


def _draw_breakdown(axes: Axes, subject: _Subject, accounts: Sequence[IpuAccount]) -> None:
    bars = [(fill(f"IPU {account.ipu}: {account.stages}", _LABEL_CHARACTERS), account.seconds) for account in accounts]
    if len(subject.ipus) != 1:
        bars.append(("mean", exact_seconds(subject.breakdown_ps)))
    total_s = subject.total_s
    for row, (_, times_s) in enumerate(bars):
        left = 0.0
        for kind in in_kind_order(times_s):
            look, length = kind_of(kind), times_s[kind] * _MS_PER_S
            axes.barh(row, length, left=left, height=0.78, color=look.colour, linewidth=0)
            if times_s[kind] / total_s >= _LABEL_FROM_SHARE:
                share = format_percent(times_s[kind] / total_s, 0)
                write_on_bar(axes, left + length / 2, row, share, look.colour)
            left += length
    axes.set_yticks(range(len(bars)), [label for label, _ in bars], fontsize=8.5)
    axes.set(xlim=(0, total_s * _MS_PER_S), ylim=(len(bars) - 0.45, -0.55))
    axes.tick_params(axis="y", length=0)
    axes.set_title(_breakdown_title(subject), loc="left", fontsize=10.5)
    axes.set_xlabel(f"time in one {subject.what} [ms]", fontsize=9)
    plain_frame(axes)


def _breakdown_title(subject: _Subject) -> str:
    slowest = subject.slowest
    if slowest is None or len(subject.ipus) == 1:
        return "Time by kind"
    idlest = min(subject.ipus, key=lambda account: account.busy_s)
    total_s = subject.total_s
    more = f" (first {_MOST_IPUS} of {len(subject.ipus)} IPUs)" if len(subject.ipus) > _MOST_IPUS else ""
    return (
        f"IPU {slowest.ipu} is at work {format_percent(slowest.busy_s / total_s, 0)} of the time, "
        f"IPU {idlest.ipu} waits {format_percent(1 - idlest.busy_s / total_s, 0)}{more}"
    )
