"""Charts of where time goes: a waterfall of a stretch of time, and how each IPU spends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from podsim.format import format_count, format_duration_s, format_percent
from podsim.pages.charts import Span, spans_chart
from podsim.pages.parts import Chart, Grid
from podsim.pages.patterns import TOTAL, fill_of, fill_of_kind, legend_of_kinds
from podsim.result.kinds import in_kind_order, kind_of
from podsim.result.rows import IpuAccount
from podsim.result.sources import Sources

MOST_IPUS: Final = 16
_DIGITS: Final = 4
_LABEL_CHARACTERS: Final = 34
_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_ENOUGH: Final = 2.0


def unit_for_s(longest_s: float) -> tuple[float, str]:
    """The unit of an axis that goes up to a time: its length and its name. [s]

    >>> unit_for_s(12.5), unit_for_s(0.15)
    ((1.0, 's'), (0.001, 'ms'))
    """
    return next(((scale_s, name) for scale_s, name in _UNITS if longest_s >= _ENOUGH * scale_s), _UNITS[-1])


def waterfall(what: str, breakdown: Mapping[str, float], sources: Sources) -> Chart:
    """Kinds of time one after the other, until they add up to the whole.

    Args:
        what: The stretch of time, such as `weight update`.
        breakdown: Time by kind. [s]
        sources: What each kind stands on.
    """
    kinds = [kind for kind in in_kind_order(breakdown) if breakdown[kind]]
    total_s = sum(breakdown.values())
    scale_s, unit = unit_for_s(total_s)
    ends = list(accumulate((breakdown[kind] for kind in kinds), initial=0.0))
    spans = [
        Span(
            row=kind_of(kind).label,
            start=start / scale_s,
            end=end / scale_s,
            fill=fill_of_kind(kind),
            text=f"{format_duration_s(breakdown[kind])} · {format_percent(breakdown[kind] / total_s)}",
            tip=_tip(kind, breakdown[kind], total_s, sources),
        )
        for kind, start, end in zip(kinds, ends, ends[1:], strict=False)
    ]
    spans.append(Span(what, 0.0, total_s / scale_s, fill_of(TOTAL), format_duration_s(total_s, _DIGITS)))
    largest = sorted(kinds, key=lambda kind: -breakdown[kind])[:3]
    most = ", ".join(f"{kind_of(kind).label} {format_percent(breakdown[kind] / total_s)}" for kind in largest)
    return Chart(
        title=f"Where one {what} goes: {format_duration_s(total_s, _DIGITS)}",
        description=f"Waterfall of the kinds of time of one {what}. Largest: {most}.",
        spec=spans_chart(spans, f"time [{unit}]", (0.0, total_s / scale_s)),
        numbers=_waterfall_numbers(kinds, breakdown, sources),
        notes=[f"Sources: {sources.text}."] if sources.text else [],
    )


def _tip(kind: str, time_s: float, total_s: float, sources: Sources) -> dict[str, str]:
    return {
        "kind": kind_of(kind).label,
        "what it is": kind_of(kind).meaning,
        "time": format_duration_s(time_s, _DIGITS),
        "share": format_percent(time_s / total_s),
        "stands on": sources.main(kind),
    }


def _waterfall_numbers(kinds: Sequence[str], breakdown: Mapping[str, float], sources: Sources) -> Grid:
    total_s = sum(breakdown.values())
    rows = [
        (
            kind_of(kind).label,
            f"{breakdown[kind]:.9g}",
            format_percent(breakdown[kind] / total_s),
            sources.main(kind),
            kind_of(kind).meaning,
        )
        for kind in kinds
    ]
    rows.append(("total", f"{total_s:.9g}", format_percent(1.0), "", ""))
    return Grid(("kind", ">seconds", ">share", "source", "what it is"), rows)


def ipus_chart(what: str, accounts: Sequence[IpuAccount]) -> Chart:
    """How each IPU of a replica spends a stretch of time."""
    shown = accounts[:MOST_IPUS]
    total_s = max(sum(each.seconds.values()) for each in shown)
    scale_s, unit = unit_for_s(total_s)
    slowest, idlest = max(accounts, key=lambda each: each.busy_s), min(accounts, key=lambda each: each.busy_s)
    spans = [span for account in shown for span in _account(account, scale_s, total_s)]
    kinds = {kind for account in shown for kind, time_ps in account.time_ps.items() if time_ps}
    pace = (
        f"IPU {slowest.ipu} is at work {format_percent(slowest.busy_s / total_s, 0)} of the time, "
        f"IPU {idlest.ipu} waits {format_percent(1 - idlest.busy_s / total_s, 0)}"
    )
    return Chart(
        title=pace if len(accounts) > 1 else f"How the IPU spends one {what}",
        description=f"Bars of time by kind in one {what}, one for each IPU of a replica. {pace}.",
        spec=spans_chart(spans, f"time in one {what} [{unit}]", (0.0, total_s / scale_s)),
        legend=legend_of_kinds(kinds),
        numbers=_account_numbers(shown, in_kind_order(kinds)),
        notes=left_out(len(accounts)),
    )


def left_out(ipu_count: int) -> list[str]:
    """A note where a chart does not show all IPUs."""
    if ipu_count <= MOST_IPUS:
        return []
    return [f"The first {MOST_IPUS} of {format_count(ipu_count)} IPUs are shown."]


def _account(account: IpuAccount, scale_s: float, total_s: float) -> list[Span]:
    times_s, end, spans = account.seconds, 0.0, []
    for kind in in_kind_order(times_s):
        start, end = end, end + times_s[kind]
        share = format_percent(times_s[kind] / total_s, 0)
        tip = {
            "IPU": str(account.ipu),
            "holds": account.stages,
            "kind": kind_of(kind).label,
            "time": format_duration_s(times_s[kind], _DIGITS),
            "share": share,
        }
        if times_s[kind]:
            bounds = (start / scale_s, end / scale_s)
            spans.append(Span(_label(account), *bounds, fill_of_kind(kind), share, inside=True, tip=tip))
    return spans


def _label(account: IpuAccount) -> str:
    text = f"IPU {account.ipu}: {account.stages}" if account.stages else f"IPU {account.ipu}"
    return text if len(text) <= _LABEL_CHARACTERS else f"{text[: _LABEL_CHARACTERS - 1]}…"


def _account_numbers(accounts: Sequence[IpuAccount], kinds: Sequence[str]) -> Grid:
    headers = (">IPU", "holds", *(f">{kind_of(kind).label} [s]" for kind in kinds))
    rows = []
    for account in accounts:
        times_s = account.seconds
        rows.append((str(account.ipu), account.stages, *(f"{times_s.get(kind, 0.0):.6g}" for kind in kinds)))
    return Grid(headers, rows)
