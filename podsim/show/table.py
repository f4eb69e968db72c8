"""Tables of a training run, and those that other results share with it."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.console import Group
from rich.text import Text

from podsim.format import (
    format_bytes,
    format_count,
    format_duration_s,
    format_percent,
)
from podsim.metrics import THROUGHPUT
from podsim.result.base import Result
from podsim.result.kinds import COMPUTE, WAITING, kind_of
from podsim.result.result import RunResult
from podsim.result.rows import (
    IN_PROCESSOR,
    STREAMING,
    IpuAccount,
    MemoryReport,
    OperationRow,
    PhaseTime,
    merged,
    part_of,
)
from podsim.result.sources import Sources
from podsim.show.choice_table import choice_table
from podsim.show.fault_table import fault_tables
from podsim.show.noise_table import noise_table
from podsim.show.power_table import spent_rows
from podsim.show.tables import Tables, headline, plain_table, titled

_HEADLINE_DIGITS: Final = 4
_BAR_WIDTH: Final = 8
_MOST_IPUS: Final = 16
_MOST_OPERATIONS: Final = 8
_MS_FROM_S: Final = 0.02
_MEMORY_NAMES: Final = {IN_PROCESSOR: "In-Processor-Memory", STREAMING: "Streaming Memory"}
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def training_tables(result: RunResult, *, ascii_only: bool) -> Tables:
    """The headline, the division that was chosen, where time goes, faults, IPUs, operations and memory."""
    return (
        headline(result, training_headline(result)),
        noise_table(result.noise),
        choice_table(result.choice) if result.choice else None,
        _breakdown(result, ascii_only=ascii_only),
        None if result.faults is None else fault_tables(result.faults, result.simulated.ipus_used),
        _phases(result.phases),
        _ipus(result),
        operation_table(result.operations),
        memory_lines(result.memory),
    )


def training_headline(result: RunResult) -> list[tuple[str, str, str]]:
    """Label, name of the quantity and value of the numbers that matter most."""
    return [
        ("Throughput", THROUGHPUT, f"{format_count(result.throughput_samples_per_s)} samples/s"),
        ("Weight update", "weight_update_s", format_duration_s(result.weight_update_s, _HEADLINE_DIGITS)),
        *_time_to_train(result),
        ("MFU", "mfu", format_percent(result.mfu)),
        *share_of_pod(result, result.mfu_of_pod),
        *spent_rows(result),
    ]


def share_of_pod(result: Result, share: float) -> Sequence[tuple[str, str, str]]:
    """The share of the whole pod's peak that is used, if some of its IPUs are idle."""
    count = result.simulated.ipu_count
    return (
        []
        if result.simulated.ipus_used == count
        else [(f"  of all {format_count(count)} IPUs", "", format_percent(share))]
    )


def _time_to_train(result: RunResult) -> list[tuple[str, str, str]]:
    """Rows of the headline: the time, or the median and spread of drawn times."""
    label, quantity = "Time to train", "time_to_train_s"
    if result.time_to_train_s is not None:
        return [(label, quantity, format_duration_s(result.time_to_train_s, _HEADLINE_DIGITS))]
    if result.time_to_train_percentiles is None:
        return []
    low, middle, high = (format_duration_s(result.time_to_train_percentiles[name]) for name in ("p10", "p50", "p90"))
    return [(label, quantity, f"{middle} (median)"), ("  P10 to P90", "", f"{low} to {high}")]


def _breakdown(result: RunResult, *, ascii_only: bool) -> Group:
    count = len(result.ipus) if result.faults is None else result.simulated.ipus_used
    over = f", mean over {count} IPUs" if count > 1 else ""
    title = f"Where one weight update goes{over}"
    return breakdown_table(title, result.breakdown, result.sources, ascii_only=ascii_only)


def breakdown_table(title: str, breakdown: Mapping[str, float], sources: Sources, *, ascii_only: bool) -> Group:
    """Time by kind, largest first, each with what most of it stands on; below it what all of it stands on."""
    total_s, largest = sum(breakdown.values()), max(breakdown.values(), default=0.0)
    unit, scale_s = ("ms", 1e-3) if total_s >= _MS_FROM_S else ("us", 1e-6)
    table = plain_table("kind", "", ">share", f">{unit}", "source", "what it is")
    for name, time_s in sorted(breakdown.items(), key=lambda item: -item[1]):
        if time_s:
            kind = kind_of(name)
            table.add_row(
                Text(kind.label),
                Text(bar(time_s / largest, ascii_only=ascii_only), style=kind.colour),
                Text(format_percent(time_s / total_s)),
                Text(f"{time_s / scale_s:,.1f}"),
                Text(sources.main(name)),
                Text(kind.meaning, style="dim"),
            )
    return titled(title, table, *([f"Sources: {sources.text}"] if sources.text else []))


def bar(fraction: float, *, ascii_only: bool) -> str:
    """A bar of `fraction` of the full width, never empty."""
    if ascii_only:
        return "#" * max(1, round(fraction * _BAR_WIDTH))
    whole, eighths = divmod(max(1, round(fraction * _BAR_WIDTH * 8)), 8)
    return "█" * whole + (_EIGHTHS[eighths] if eighths else "")


def _phases(phases: Sequence[PhaseTime]) -> Text | None:
    """One line: the parts of the weight update in order."""
    if not phases:
        return None
    parts = []
    for part, group in groupby(merged(phases), key=lambda phase: part_of(phase.name)):
        members = list(group)
        cycles = sum(phase.count for phase in members)
        count = f" ({format_count(cycles)} cycles)" if len(members) == 1 and cycles > 1 else ""
        parts.append(f"{part} {format_duration_s(sum(phase.seconds for phase in members))}{count}")
    return Text.assemble(("Phases: ", "bold"), ", ".join(parts))


def _ipus(result: RunResult) -> Group | None:
    if not result.ipus:
        return None
    slowest, lines = result.slowest_ipu, []
    if slowest is not None and len(result.ipus) > 1:
        share = format_percent(slowest.busy_s / (result.weight_update_s or 1.0))
        lines.append(f"IPU {slowest.ipu} sets the pace: at work {share} of the time")
    rows = [(account, _shares(account), account is slowest) for account in result.ipus]
    title = "IPUs of one replica: shares of the weight update, In-Processor-Memory"
    return ipu_table(title, (">compute", ">data", ">waiting"), rows, result.memory, *lines)


def ipu_table(
    title: str,
    headers: Sequence[str],
    rows: Sequence[tuple[IpuAccount, Sequence[float], bool]],
    memory: MemoryReport,
    *lines: str,
) -> Group:
    """The first IPUs of a replica: what they hold, shares of their time, memory.

    Args:
        title: Of the table.
        headers: Of the columns with shares.
        rows: Each IPU with its shares, and whether it stands out.
        memory: Tenants of its memory.
        lines: Notes below the table.
    """
    table = plain_table(">IPU", "holds", *headers, ">used", ">free")
    for account, shares, stands_out in rows[:_MOST_IPUS]:
        used = memory.used_bytes(account.ipu)
        sizes = (format_bytes(used), format_bytes(memory.in_processor_memory_bytes - used))
        cells = (str(account.ipu), account.stages, *map(format_percent, shares), *sizes)
        table.add_row(*map(Text, cells), style="bold" if stands_out else "")
    more = (f"and {len(rows) - _MOST_IPUS} more IPUs",) if len(rows) > _MOST_IPUS else ()
    return titled(title, table, *more, *lines)


def _shares(account: IpuAccount) -> tuple[float, float, float]:
    """Shares of computing, moving data and waiting."""
    total_ps = sum(account.time_ps.values()) or 1
    compute_ps, waiting_ps = (
        sum(time_ps for kind, time_ps in account.time_ps.items() if kind_of(kind).family == family)
        for family in (COMPUTE, WAITING)
    )
    return compute_ps / total_ps, 1 - (compute_ps + waiting_ps) / total_ps, waiting_ps / total_ps


def operation_table(operations: Sequence[OperationRow]) -> Group | None:
    """The longest operations of the stage that takes longest."""
    stages: dict[str, float] = {}
    for row in operations:
        stages[row.stage] = stages.get(row.stage, 0.0) + row.total_s
    if not stages:
        return None
    slowest = max(stages, key=lambda stage: stages[stage])
    total_s = stages[slowest] or 1.0
    title = f"Slowest: {slowest}, {format_duration_s(stages[slowest])} of operations; the longest are"
    table = plain_table("block", "operation", ">runs", ">each", ">time", ">share")
    rows = [row for row in operations if row.stage == slowest]
    for row in sorted(rows, key=lambda row: -row.total_s)[:_MOST_OPERATIONS]:
        cells = (row.block, f"{_within_block(row)} ({row.kind})", format_count(row.count))
        times = (format_duration_s(row.total_s / max(1, row.count)), format_duration_s(row.total_s))
        table.add_row(*(Text(cell) for cell in (*cells, *times, format_percent(row.total_s / total_s))))
    return titled(title, table)


def _within_block(row: OperationRow) -> str:
    """The name without the words that stand beside it."""
    return row.name.removeprefix(f"{row.block}_backward/").removeprefix(f"{row.block}/")


def memory_lines(memory: MemoryReport) -> Text | None:
    """One line per memory: its fullest IPU, what is left there and the largest tenants."""
    lines = [line for where in _MEMORY_NAMES if (line := _fullest(memory, where))]
    return Text.assemble(("Memory, fullest IPU", "bold"), "\n", "\n".join(lines)) if lines else None


def _fullest(memory: MemoryReport, where: str) -> str:
    ipu = memory.fullest_ipu(where)
    if ipu is None:
        return ""
    used, capacity = memory.used_bytes(ipu, where), memory.capacity_bytes(where)
    largest = list(memory.tenants(ipu, where).items())[:3]
    tenants = ", ".join(f"{tenant.replace('_', ' ')} {format_bytes(size)}" for tenant, size in largest)
    share = f" ({format_percent(used / capacity)})" if capacity else ""
    sizes = f"{format_bytes(used)} of {format_bytes(capacity)}{share}"
    return f"{_MEMORY_NAMES[where]}: IPU {ipu} uses {sizes}; {tenants}"
