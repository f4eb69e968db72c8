"""Tables of training, generation and forward passes: headlines, where time goes, memory, what it all stands on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from podsim.draws import Noisy, Uncertainty
from podsim.format import (
    format_bytes,
    format_count,
    format_duration_s,
    format_energy_j,
    format_error,
    format_figure,
    format_percent,
    format_power_w,
    format_significant,
)
from podsim.metrics import METRICS, PER_SECOND, SECONDS, STEPS, THROUGHPUT, TOKENS, metric_of
from podsim.report.table import Block, Cell, Cells, Column, Passage, Table, columns
from podsim.result.base import Result
from podsim.result.faults import FaultReport, ranges
from podsim.result.forward import ForwardResult
from podsim.result.generation import GenerationResult
from podsim.result.kinds import COMPUTE, WAITING, kind_of
from podsim.result.ranges import range_text
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
from podsim.show.choice_table import choice_tables

Tables = Sequence[Block | None]
"""Tables in the order in which they are shown; those that are None are left out."""
Headline = tuple[str, str, str]
"""A row of the numbers that matter most: label, key of the figure, and its value in words."""

_DIGITS: Final = 4
_MOST_IPUS: Final = 16
_MOST_OPERATIONS: Final = 8
_MOST_ASSUMPTIONS: Final = 8
_MOST_GROUPS: Final = 8
_MOST_KINDS: Final = 3
_MOST_TENANTS: Final = 3
_LEAST_SHARE: Final = 0.01
_LEAST_INFLUENCE: Final = 0.0005
_MS_FROM_S: Final = 0.02
_KEY_WIDTH: Final = 36
_MEMORY_NAMES: Final = {IN_PROCESSOR: "In-Processor-Memory", STREAMING: "Streaming Memory"}
_ENERGY_OF: Final = ("sample", "token", "request", "run")
_NOT_MEASURED: Final = "not measured"


def training_tables(result: RunResult) -> Tables:
    """The headline, the division that was chosen, where time goes, faults, IPUs, operations and memory."""
    count = len(result.ipus) if result.faults is None else result.simulated.ipus_used
    over = f", mean over {count} IPUs" if count > 1 else ""
    return (
        headline_table(result, training_headline(result)),
        noise_table(result.noise),
        *(choice_tables(result.choice) if result.choice else ()),
        breakdown_table(f"Where one weight update goes{over}", result.breakdown, result.sources),
        *(_fault_tables(result.faults, result.simulated.ipus_used) if result.faults else ()),
        _phases(result.phases),
        _ipus(result),
        operation_table(result.operations),
        _memory(result.memory),
    )


def generation_tables(result: GenerationResult) -> Tables:
    """The headline, the division that was chosen, where the time of both steps goes, and memory."""
    steps = (
        breakdown_table(
            f"Where a {step.name} step goes: {format_duration_s(step.time_s, _DIGITS)}, bound by {step.bound}",
            step.breakdown,
            step.sources,
        )
        for step in (result.prefill, result.decode)
    )
    return (
        headline_table(result, generation_headline(result)),
        *(choice_tables(result.choice) if result.choice else ()),
        *steps,
        _memory(result.memory),
    )


def forward_tables(result: ForwardResult) -> Tables:
    """The headline, where the time of a batch and of a call goes, stages, operations and memory."""
    batch, call, stages = result.batch, result.call, None
    one = f"Where one batch goes: {format_duration_s(batch.time_s, _DIGITS)}, bound by {batch.bound}"
    many = f"Where a call of {result.batches_per_call} batches goes: {format_duration_s(call.time_s, _DIGITS)}"
    if len(result.ipus) > 1:
        title = "IPUs of one replica: share of the call at work, In-Processor-Memory"
        shares = [(account, (account.busy_s / call.time_s,)) for account in result.ipus]
        stages = _ipu_table(title, (">busy",), shares, result.memory)
    return (
        headline_table(result, forward_headline(result)),
        breakdown_table(one, batch.breakdown, batch.sources),
        breakdown_table(f"{many}, bound by {call.bound}", call.breakdown, call.sources),
        stages,
        operation_table(result.operations),
        _memory(result.memory),
    )


# Headlines


def training_headline(result: RunResult) -> list[Headline]:
    """The numbers that matter most."""
    time, percentiles = METRICS["time_to_train_s"], result.time_to_train_percentiles
    tokens = [] if result.tokens_per_s is None else [("", *_figure(result, TOKENS)[1:])]
    rows = [_figure(result, THROUGHPUT), *tokens, _figure(result, "weight_update_s")]
    if result.time_to_train_s is not None:
        rows.append(_figure(result, time.key))
    elif percentiles is not None:
        low, middle, high = (format_duration_s(percentiles[name]) for name in ("p10", "p50", "p90"))
        rows += [("Time to train", time.key, f"{middle} (median)"), ("  P10 to P90", "", f"{low} to {high}")]
    if result.drift and result.noise is None:
        rows.append(("  drift", "", result.drift.words))
    return [*rows, _figure(result, "mfu"), *_share_of_pod(result, result.mfu_of_pod), *spent_rows(result)]


def generation_headline(result: GenerationResult) -> list[Headline]:
    """The numbers that matter most."""
    return [
        _figure(result, "time_to_first_token_s"),
        _figure(result, "time_per_output_token_s"),
        ("Steps", STEPS, f"{format_significant(result.steps_per_s, _DIGITS)}/s"),
        ("Throughput", *_figure(result, TOKENS)[1:]),
        _figure(result, "latency_s", f" for {result.output_tokens} tokens"),
        ("Sequences", "", format_count(result.batch_size * result.batches_in_flight)),
        *spent_rows(result),
    ]


def forward_headline(result: ForwardResult) -> list[Headline]:
    """The numbers that matter most."""
    return [
        _figure(result, "latency_s", f" for a batch of {format_count(result.samples_per_batch)}"),
        _figure(result, THROUGHPUT),
        ("Utilization", *_figure(result, "utilization")[1:]),
        *_share_of_pod(result, result.utilization_of_pod),
        ("IPUs", "", f"{result.replication_factor} x {len(result.ipus)}"),
        ("Parameters", "", format_count(result.parameter_count)),
        ("Work", "", f"{result.flop_per_batch / 1e9:,.3g} GFLOP per batch"),
        *spent_rows(result),
    ]


def _figure(result: Result, key: str, more: str = "") -> Headline:
    """A figure by the words and the unit of its metric."""
    metric = METRICS[key]
    unit = f" {metric.head}" if metric.unit == PER_SECOND else ""
    return metric.label[:1].upper() + metric.label[1:], key, f"{format_figure(metric, metric.get(result))}{unit}{more}"


def _share_of_pod(result: Result, share: float) -> Iterator[Headline]:
    """The share of the whole pod's peak that is used, if some of its IPUs are idle."""
    count = result.simulated.ipu_count
    if result.simulated.ipus_used != count:
        yield f"  of all {format_count(count)} IPUs", "", format_percent(share)


def spent_rows(result: Result) -> list[Headline]:
    """Mean power with its range, energy, and the cost where prices are given."""
    return [*_power(result), *_cost(result)]


def _power(result: Result) -> Iterator[Headline]:
    if result.energy is None:
        if missing := result.meter.missing if result.meter else []:
            yield "Power", "", f"not known without {' and '.join(missing)}"
        return
    low, high = map(format_power_w, result.energy.range_w)
    yield "Power", "mean_power_w", format_power_w(result.energy.mean_power_w)
    yield "  range", "", f"{low.removesuffix(f' {high.split()[-1]}')} to {high}"
    label = "Energy"
    for name in _ENERGY_OF:
        if name in result.energy.per_j:
            yield label, f"energy_per_{name}_j", f"{format_energy_j(result.energy.per_j[name])}/{name}"
            label = ""


def _cost(result: Result) -> Iterator[Headline]:
    cost = result.cost
    if cost is None or cost.per_hour is None:
        return
    if cost.per_run is not None:
        whole, fixed, used, of = cost.per_run, cost.fixed_per_run, cost.energy_per_run, "run"
    else:
        whole, fixed, used, of = cost.per_hour, cost.fixed_per_hour, cost.energy_per_hour, "hour of work"
    yield "Cost", "cost_per_run" if of == "run" else "", f"{_amount(whole)} {cost.currency} per {of}"
    for label, part in (("  fixed", fixed), ("  energy", used)):
        yield label, "", "no price" if part is None else f"{_amount(part)} {cost.currency}"
    for name, value in cost.per_million.items():
        yield "", "", f"{_amount(value)} {cost.currency} per million {name}s"
    if (busy := float(cost.prices.duty_cycle)) < 1:
        yield "  at work", "", f"{format_percent(busy, 0)} of the time"


def _amount(value: float) -> str:
    """An amount of money, in hundredths from one on.

    >>> _amount(1234.567), _amount(0.0123456), _amount(0.0)
    ('1,234.57', '0.0123', '0')
    """
    return f"{value:,.2f}" if abs(value) >= 1 else format_significant(value)


def headline_table(result: Result, rows: Sequence[Headline]) -> Table:
    """The numbers that matter most, each with its range and with what was measured; below them what measured it."""
    shown: list[Cells] = []
    for label, key, value in rows:
        range_known, measured = range_text(result, key), compared(result, key)
        told = f"{value}  ({range_known})" if range_known else value
        if not result.ranges:
            shown.append((label, told, "\n".join(measured)))
        else:  # ranges leave no room beside them
            shown += [(label, told), *(("", text) for text in measured)]
    references = [each for each in result.references if result.error_of(each) is not None]
    fitted = {"calibration": " (constants were fitted to it)"}
    sources = "; ".join(dict.fromkeys(f"{each.label}{fitted.get(each.role, '')}" for each in references))
    heads = (Column("", style="bold"), *columns(*[""] * (1 if result.ranges else 2)))
    return Table(heads, shown, notes=[f"Measured: {sources}"] if sources else ())


def compared(result: Result, quantity: str) -> list[str]:
    """The measured values of a quantity, and how far the prediction is from each."""
    metric = metric_of(quantity)
    unit = "/s" if metric.unit == PER_SECOND else ""
    return [
        f"measured {format_figure(metric, each.measured)}{unit}, error {format_error(error)}"
        for each in result.references
        if each.quantity == quantity and (error := result.error_of(each)) is not None
    ]


# Where time goes


def breakdown_table(title: str, breakdown: Mapping[str, float], sources: Sources) -> Table:
    """Time by kind, largest first, each with what most of it stands on; below it what all of it stands on."""
    total_s = sum(breakdown.values())
    unit, scale_s = ("ms", 1e-3) if total_s >= _MS_FROM_S else ("us", 1e-6)
    rows = [
        (
            kind.label,
            Cell(format_percent(time_s / total_s), time_s / total_s),
            Cell(f"{time_s / scale_s:,.1f}", time_s / scale_s),
            sources.main(name),
            kind.meaning,
        )
        for name, time_s in sorted(breakdown.items(), key=lambda item: -item[1])
        if time_s and (kind := kind_of(name))
    ]
    heads = (*columns("kind", ">share", f">{unit}", "source"), Column("what it is", style="dim"))
    return Table(heads, rows, title, [f"Sources: {sources.text}"] if sources.text else ())


def _phases(phases: Sequence[PhaseTime]) -> Passage | None:
    """One line: the parts of the weight update in order."""
    parts = []
    for part, group in groupby(merged(phases), key=lambda phase: part_of(phase.name)):
        members = list(group)
        cycles = sum(phase.count for phase in members)
        count = f" ({format_count(cycles)} cycles)" if len(members) == 1 and cycles > 1 else ""
        parts.append(f"{part} {format_duration_s(sum(phase.seconds for phase in members))}{count}")
    return Passage(f"Phases: {', '.join(parts)}") if parts else None


def _ipus(result: RunResult) -> Table | None:
    """Shares of computing, moving data and waiting of each IPU."""
    if not result.ipus:
        return None
    slowest, lines = result.slowest_ipu, []
    if slowest is not None and len(result.ipus) > 1:
        share = format_percent(slowest.busy_s / (result.weight_update_s or 1.0))
        lines.append(f"IPU {slowest.ipu} sets the pace: at work {share} of the time")
    rows = []
    for account in result.ipus:
        total_ps = sum(account.time_ps.values()) or 1
        compute, waiting = (
            sum(time_ps for kind, time_ps in account.time_ps.items() if kind_of(kind).family == family) / total_ps
            for family in (COMPUTE, WAITING)
        )
        rows.append((account, (compute, 1 - (compute + waiting), waiting)))
    title = "IPUs of one replica: shares of the weight update, In-Processor-Memory"
    return _ipu_table(title, (">compute", ">data", ">waiting"), rows, result.memory, lines, slowest)


def _ipu_table(
    title: str,
    heads: Sequence[str],
    accounts: Sequence[tuple[IpuAccount, Sequence[float]]],
    memory: MemoryReport,
    lines: Sequence[str] = (),
    slowest: IpuAccount | None = None,
) -> Table:
    """The first IPUs of a replica: what they hold, shares of their time by the heads, memory; neighbours alike once."""

    def cells(account: IpuAccount, shares: Sequence[float]) -> Cells:
        used = memory.used_bytes(account.ipu)
        sizes = (Cell(format_bytes(each), each) for each in (used, memory.in_processor_memory_bytes - used))
        return account.stages, *(Cell(format_percent(each), each) for each in shares), *sizes

    alike = [
        (each, [account for account, _ in members]) for each, members in groupby(accounts, key=lambda row: cells(*row))
    ]
    rows: list[Cells] = [(_numbers(members), *each) for each, members in alike[:_MOST_IPUS]]
    left = sum(len(members) for _, members in alike[_MOST_IPUS:])
    more = [f"and {left} more IPUs"] if left else []
    chosen = next((place for place, (_, members) in enumerate(alike) if slowest in members), None)
    return Table(columns(">IPU", "holds", *heads, ">used", ">free"), rows, title, [*more, *lines], chosen)


def _numbers(members: Sequence[IpuAccount]) -> str:
    first, last = members[0].ipu, members[-1].ipu
    return f"{first}" if first == last else f"{first} to {last}"


def operation_table(operations: Sequence[OperationRow]) -> Table | None:
    """The longest operations of the stage that takes longest."""
    stages: dict[str, float] = {}
    for row in operations:
        stages[row.stage] = stages.get(row.stage, 0.0) + row.total_s
    if not stages:
        return None
    slowest = max(stages, key=lambda stage: stages[stage])
    total_s = stages[slowest] or 1.0
    rows: list[Cells] = []
    longest = sorted((row for row in operations if row.stage == slowest), key=lambda row: -row.total_s)
    for row in longest[:_MOST_OPERATIONS]:
        name = row.name.removeprefix(f"{row.block}_backward/").removeprefix(f"{row.block}/")
        times = (Cell(format_duration_s(each), each) for each in (row.total_s / max(1, row.count), row.total_s))
        share = row.total_s / total_s
        count = Cell(format_count(row.count), row.count)
        rows.append((row.block, f"{name} ({row.kind})", count, *times, Cell(format_percent(share), share)))
    title = f"Slowest: {slowest}, {format_duration_s(stages[slowest])} of operations; the longest are"
    return Table(columns("block", "operation", ">runs", ">each", ">time", ">share"), rows, title)


def _memory(memory: MemoryReport) -> Passage | None:
    """One line per memory: its fullest IPU, what is left there and the largest tenants."""
    lines = []
    for where, name in _MEMORY_NAMES.items():
        ipu = memory.fullest_ipu(where)
        if ipu is None:
            continue
        used, capacity = memory.used_bytes(ipu, where), memory.capacity_bytes(where)
        largest = list(memory.tenants(ipu, where).items())[:_MOST_TENANTS]
        tenants = ", ".join(f"{tenant.replace('_', ' ')} {format_bytes(size)}" for tenant, size in largest)
        share = f" ({format_percent(used / capacity)})" if capacity else ""
        lines.append(f"{name}: IPU {ipu} uses {format_bytes(used)} of {format_bytes(capacity)}{share}; {tenants}")
    return Passage("\n".join(lines), "Memory, fullest IPU") if lines else None


def _fault_tables(report: FaultReport, ipu_count: int) -> Iterator[Table]:
    """The stretches of the run, and who waits for whom in the one that the other tables show."""
    rows = []
    for number, each in enumerate(report.stretches):
        mark = " (shown here)" if number == report.shown and len(report.stretches) > 1 else ""
        rows.append(
            (
                Cell(format_duration_s(each.from_s), each.from_s),
                "end" if each.until_s is None else Cell(format_duration_s(each.until_s), each.until_s),
                Cell(format_duration_s(each.weight_update_s, _DIGITS), each.weight_update_s),
                "" if each.weight_updates is None else Cell(format_count(each.weight_updates), each.weight_updates),
                ("; ".join(each.faults) or "none") + mark,
            )
        )
    yield Table(columns(">from", ">until", ">weight update", ">updates", "faults"), rows, "Faults")
    groups: dict[str, list[int]] = {}
    for alike in report.waiting:
        groups.setdefault(", ".join(_changes(alike.more_s)) or "as without", []).extend(alike.ipus)
    waiting = [
        ("all others" if len(ipus) > ipu_count // 2 and len(groups) > 1 else ranges(ipus), text)
        for text, ipus in list(groups.items())[:_MOST_GROUPS]
    ]
    longer = report.stretches[report.shown].weight_update_s / report.weight_update_without_s - 1
    without = f"Without faults a weight update takes {format_duration_s(report.weight_update_without_s, _DIGITS)}"
    notes = [f"and {left} more groups"] if (left := len(groups) - _MOST_GROUPS) > 0 else []
    notes.append(f"{without}; with those shown here it is {format_percent(longer)} longer.")
    heads = columns("IPUs", "more or less time in a weight update than without faults")
    yield Table(heads, waiting, "Who waits for whom", notes)


def _changes(more_s: Mapping[str, float]) -> Iterator[str]:
    """The largest changes, each with its sign."""
    largest = max((abs(change) for change in more_s.values()), default=0.0)
    for kind, change in sorted(more_s.items(), key=lambda each: -abs(each[1]))[:_MOST_KINDS]:
        if abs(change) >= _LEAST_SHARE * largest:
            yield f"{kind_of(kind).label} {'+' if change > 0 else '-'}{format_duration_s(abs(change), 2)}"


# How sure it is, and what it stands on


def noise_table(found: Noisy | None) -> Table | None:
    """Percentiles over the runs with noise."""
    if found is None:
        return None
    times = {
        "weight update": found.weight_update_s,
        "epoch, its weight updates": found.epoch_s,
        "time to train": found.time_to_train_s,
    }
    rows: list[Cells] = [(label, *_percentiles(values, "s")) for label, values in times.items() if values]
    runs = "1 run" if found.seeds == 1 else f"{format_count(found.seeds)} runs"
    side = "less" if found.longer_s < 0 else "more"
    mean, longer = (
        format_duration_s(found.mean_weight_update_s, _DIGITS),
        format_duration_s(abs(found.longer_s), 2),
    )
    notes = [
        f"weight updates of a run differ by {format_duration_s(found.jitter_s)} (standard deviation)",
        f"they take {mean} on average, {longer} {side} than without noise",
    ]
    if found.waiting_s:
        notes.append(f"waiting for the slowest machine: {format_duration_s(found.waiting_s, 2)} per update")
    if found.drifting_s:
        drifting, drift = format_duration_s(found.drifting_s, 2), f"{100 * found.drift:.1f} %"
        notes.append(f"slowing down within a run: {drifting} per update on average, {drift} at its end")
    if found.run_updates:
        count = format_count(found.run_updates)
        notes.append(f"each run has {count} weight updates, counting evaluations in the training program")
    if found.simulated_updates < (found.run_updates or 0):
        simulated = format_count(found.simulated_updates)
        notes.append(f"of each run {simulated} were simulated, and the rest drawn from those of all runs")
    return Table(_percentile_columns(""), rows, f"Noise: {runs}, seed {found.seed}", notes)


def uncertainty_table(found: Uncertainty | None) -> Table | None:
    """Percentiles of each metric over the draws; the width is that of the middle 80 %."""
    if found is None:
        return None
    metrics = ((metric_of(name), values) for name, values in found.metrics.items())
    rows: list[Cells] = [(metric.head, *_percentiles(values, metric.unit, 3)) for metric, values in metrics]
    inputs = "inputs lie anywhere in their ranges, most often near their values"
    if found.model_scatter is None:
        notes = [f"{inputs}; the model itself may be wrong, too"]
    else:
        form = f"model form: one factor on all times of a draw, {found.model_scatter:.1%} (one standard deviation)"
        notes = [inputs, form]
    if found.impossible:
        notes.append(f"{found.impossible:,} draws had no run that is possible")
    title = f"How sure: {found.draws:,} draws of {len(found.drawn)} inputs, seed {found.seed}"
    return Table(_percentile_columns("metric"), rows, title, notes)


def _percentile_columns(what: str) -> tuple[Column, ...]:
    return columns(what, ">P10", ">P50", ">P90", ">P10 to P90")


def _percentiles(values: Mapping[str, float], unit: str, digits: int = _DIGITS) -> Iterator[Cell]:
    """P10, P50 and P90, and how far the first and the last are from the middle."""
    low, middle, high = (values[each] for each in ("p10", "p50", "p90"))
    told = format_duration_s if unit == SECONDS else format_significant
    yield from (Cell(told(each, digits), each) for each in (low, middle, high))
    yield Cell(" to ".join(format_error(each / middle - 1) for each in (low, high)))


def assumption_table(assumptions: Sequence[Mapping[str, object]]) -> Table | None:
    """The assumptions that move the headline of the result, the most influential first."""
    if not assumptions:
        return None
    counts = Counter(str(each.get("basis", "")) for each in assumptions)
    moving = [(each, text) for each in assumptions if (text := _influence(each))]
    figure = moved_figure(assumptions)
    rows = [
        (_broken(str(each["key"])), str(each["value"]), str(each["basis"]), text)
        for each, text in moving[:_MOST_ASSUMPTIONS]
    ]
    notes = ["at the ends of its range, or a tenth either way; products keep their splits"]
    if any(text == _NOT_MEASURED for _, text in moving):
        notes.append("not measured: what needs new splits of every product; `--influence` measures it")
    if (more := len(moving) - _MOST_ASSUMPTIONS) > 0:
        notes.append(f"and {more} more; `--format json` lists them all")
    if (others := len(assumptions) - len(moving)) > 0:
        verb = "moves" if others == 1 else "move"
        notes.append(f"{others} of them {verb} {figure} by less than 0.05 %, or other figures alone")
    title = f"Stands on {', '.join(f'{count} {basis}' for basis, count in counts.items())} inputs"
    return Table(columns("input", "value", "basis", f">{figure}"), rows, title, notes)


def moved_figure(assumptions: Sequence[Mapping[str, object]]) -> str:
    """The headline by which influences are measured, in words."""
    names = [str(found["metric"]) for each in assumptions if isinstance(found := each.get("influence"), Mapping)]
    return metric_of(names[0]).head if names else "influence"


def _influence(assumption: Mapping[str, object]) -> str:
    """How far it moves the headline within its range; empty if it moves other figures alone."""
    influence = assumption.get("influence")
    if not isinstance(influence, Mapping):
        return _NOT_MEASURED
    ends = [influence["low"], influence["high"]]
    known = sorted(end for end in ends if end is not None)
    texts = [format_error(end) if abs(end) >= _LEAST_INFLUENCE else "0" for end in known]
    texts += ["impossible"] * ends.count(None)
    return "" if set(texts) == {"0"} else " to ".join(texts)


def _broken(key: str) -> str:
    """A long key on two lines, cut behind a dot."""
    cut = key.rfind(".", 0, _KEY_WIDTH) + 1
    return key if len(key) <= _KEY_WIDTH or not cut else f"{key[:cut]}\n{key[cut:]}"
