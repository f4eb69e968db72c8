"""Report sections on inputs by influence, percentiles over runs, and sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from podsim.draws import Noisy, Uncertainty
from podsim.format import format_count, format_duration_s, format_error, format_significant
from podsim.metrics import SECONDS, metric_of
from podsim.report.chart import FASTER, SLOWER, Axis, Bar, Bars, Chart, TextPlace
from podsim.report.report import Folded, Part
from podsim.report.table import Cell, Cells, Column, Table, columns

_DIGITS: Final = 4
_MOST_LISTED, _MOST_DRAWN = 8, 15
_LEAST: Final = 0.0005
_KEY_WIDTH: Final = 36
_ROOM: Final = 0.18
_PERCENT: Final = 100
_NOT_MEASURED: Final = "not measured"
_ENDS: Final = {"low": ("at the lower end of its range", FASTER), "high": ("at the upper end", SLOWER)}
Input = Mapping[str, object]


# Inputs


def inputs_blocks(assumptions: Sequence[Input]) -> Iterator[Part]:
    """Yield a chart of the inputs that change the headline metric most, then a folded table of all inputs."""
    if not assumptions:
        return
    table = inputs_table(assumptions)
    yield inputs_chart(assumptions, table) or table
    heads = columns("input", "value", "basis", ">at lower end", ">at upper end", "source", "note")
    rows = [
        (*_texts(row, "key", "value", "basis"), *(_end(row, end, 2) for end in _ENDS), *_texts(row, "source", "note"))
        for row in assumptions
    ]
    yield Folded(f"All {len(assumptions)} inputs, with their notes", [Table(heads, rows)])


def _texts(row: Input, *names: str) -> Iterator[str]:
    return (str(row.get(name) or "") for name in names)


def inputs_table(assumptions: Sequence[Input]) -> Table:
    """Return the inputs that change the headline metric of a result, the most influential first."""
    counts = Counter(str(row.get("basis", "")) for row in assumptions)
    moving = [(row, text) for row in assumptions if (text := _influence(row))]
    figure = _moved_figure(assumptions)
    rows = [(_broken(str(row["key"])), *_texts(row, "value", "basis"), text) for row, text in moving[:_MOST_LISTED]]
    notes = ["at the ends of its range, or a tenth either way; products keep their splits"]
    if any(text == _NOT_MEASURED for _, text in moving):
        notes.append("not measured: what needs new splits of every product; `--influence` measures it")
    if (more := len(moving) - _MOST_LISTED) > 0:
        notes.append(f"and {more} more; `--format json` lists them all")
    if (others := len(assumptions) - len(moving)) > 0:
        verb = "moves" if others == 1 else "move"
        notes.append(f"{others} of them {verb} {figure} by less than 0.05 %, or other figures alone")
    title = f"Stands on {', '.join(f'{count} {basis}' for basis, count in counts.items())} inputs"
    return Table(columns("input", "value", "basis", f">{figure}"), rows, title, notes)


def inputs_chart(assumptions: Sequence[Input], numbers: Table | None = None) -> Chart | None:
    """Return bars of the headline's change at both ends of each input's range; None if all are unknown."""
    moving = [row for row in assumptions if _influence(row) not in ("", _NOT_MEASURED)]
    if not moving:
        return None
    rows, metric, first = moving[:_MOST_DRAWN], _moved_figure(assumptions), str(moving[0]["key"])
    # Bars show the last part of a key unless it is ambiguous; the tip shows the whole key.
    short = {key: ".".join(key.split(".")[-2:]) for key in (str(row["key"]) for row in rows)}
    counts = Counter(short.values())
    names = {key: name if counts[name] == 1 else key for key, name in short.items()}
    bars: list[Bar] = []
    for row in rows:
        name = f"{names[str(row['key'])]} = {row['value']}"
        influence = cast(Mapping[str, float | None], row["influence"])
        told = ("key", "value", "basis", "source")
        both = [
            Bar(name, 0.0, _PERCENT * (influence[end] or 0.0), fill, change, TextPlace.BEYOND, tip)
            for end, (where, fill) in _ENDS.items()
            for change in [_end(row, end)]
            for tip in [{"where": where, "change": change, **dict(zip(told, _texts(row, *told), strict=True))}]
        ]
        bars += sorted(both, key=lambda bar: -abs(bar.end))  # the longer bar first, so that it does not hide the other
    ends = [bar.end for bar in bars]
    reach = max(map(abs, ends)) or 1.0
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = _ROOM * (high - low)  # room for the numbers next to the bars
    domain = (low - room, high + room) if any(ends) else (-reach, reach)
    more = len(moving) - len(rows)
    return Chart(
        title=f"Measure this next: {first} moves {metric} most",
        description=f"Bars of how far each input moves {metric}; {first} moves it most, by up to {reach:.3g} %.",
        drawn=Bars(bars, Axis(f"change of {metric}", "%", domain), {"no change": 0.0}),
        legend=dict(_ENDS.values()),
        numbers=numbers,
        notes=[f"{more} more inputs move it less."] if more else [],
    )


def _moved_figure(assumptions: Sequence[Input]) -> str:
    """Return the column heading of the metric whose changes are shown."""
    names = (str(known["metric"]) for row in assumptions if isinstance(known := row.get("influence"), Mapping))
    first = next(names, None)
    return "influence" if first is None else metric_of(first).head


def _end(row: Input, end: str, decimals: int = 1) -> str:
    influence = row.get("influence")
    if not isinstance(influence, Mapping):
        return _NOT_MEASURED
    return "impossible" if influence[end] is None else format_error(influence[end], decimals)


def _influence(row: Input) -> str:
    """Return the change of the headline metric over an input's range; empty if only other metrics change."""
    influence = row.get("influence")
    if not isinstance(influence, Mapping):
        return _NOT_MEASURED
    ends = [influence["low"], influence["high"]]
    texts = [format_error(end) if abs(end) >= _LEAST else "0" for end in sorted(end for end in ends if end is not None)]
    texts += ["impossible"] * ends.count(None)
    return "" if set(texts) == {"0"} else " to ".join(texts)


def _broken(key: str) -> str:
    """Break a long key into two lines after a dot."""
    cut = key.rfind(".", 0, _KEY_WIDTH) + 1
    return key if len(key) <= _KEY_WIDTH or not cut else f"{key[:cut]}\n{key[cut:]}"


# Percentiles


def noise_table(found: Noisy) -> Table:
    """Return a table of percentiles over the runs with noise."""
    times = {
        "weight update": found.weight_update_s,
        "epoch, its weight updates": found.epoch_s,
        "time to train": found.time_to_train_s,
    }
    rows: list[Cells] = [(label, *_percentiles(values, "s")) for label, values in times.items() if values]
    runs = "1 run" if found.seeds == 1 else f"{format_count(found.seeds)} runs"
    side = "less" if found.longer_s < 0 else "more"
    mean = format_duration_s(found.mean_weight_update_s, _DIGITS)
    notes = [
        f"weight updates of a run differ by {format_duration_s(found.jitter_s)} (standard deviation)",
        f"they take {mean} on average, {format_duration_s(abs(found.longer_s), 2)} {side} than without noise",
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


def uncertainty_table(found: Uncertainty) -> Table:
    """Return a table of percentiles of each metric over the samples; the width is the 80 % interval's."""
    metrics = ((metric_of(name), values) for name, values in found.metrics.items())
    rows: list[Cells] = [(metric.head, *_percentiles(values, metric.unit, 3)) for metric, values in metrics]
    notes = ["inputs lie anywhere in their ranges, most often near their values"]
    if found.model_scatter is None:
        notes[0] += "; the model itself may be wrong, too"
    else:
        scatter = f"{found.model_scatter:.1%} (one standard deviation)"
        notes.append(f"model form: one factor on all times of a draw, {scatter}")
    if found.impossible:
        notes.append(f"{found.impossible:,} draws had no run that is possible")
    title = f"How sure: {found.draws:,} draws of {len(found.drawn)} inputs, seed {found.seed}"
    return Table(_percentile_columns("metric"), rows, title, notes)


def _percentile_columns(what: str) -> tuple[Column, ...]:
    return columns(what, ">P10", ">P50", ">P90", ">P10 to P90")


def _percentiles(values: Mapping[str, float], unit: str, digits: int = _DIGITS) -> Iterator[Cell]:
    """Yield P10, P50 and P90, and the relative distances of P10 and P90 from P50."""
    low, middle, high = (values[each] for each in ("p10", "p50", "p90"))
    told = format_duration_s if unit == SECONDS else format_significant
    yield from (Cell(told(each, digits), each) for each in (low, middle, high))
    yield Cell(" to ".join(format_error(each / middle - 1) for each in (low, high)))


# Sources


def source_blocks(
    assumptions: Sequence[Input], measured: Sequence[Sequence[str]], inputs: Sequence[tuple[str, str]]
) -> Iterator[Part]:
    """Yield measured figures for comparison, sources of the inputs, and the files read with their hashes."""
    if measured:
        heads = columns("figure", "quantity", ">measured", ">prediction is off by", "role", "source")
        yield Table(heads, measured, "Measured and published figures for this scenario")
    known = _bibliography()
    keys = dict.fromkeys(
        str(assumption["source"]) for assumption in assumptions if str(assumption.get("source", "")) in known
    )
    if keys:
        rows = [(key, *(str(known[key].get(name, "")) for name in ("title", "where"))) for key in keys]
        yield Table(columns("key", "title", "where"), rows, "Sources of the inputs above")
    yield Folded("Files read, with their SHA-256", [Table(columns("file", "SHA-256"), inputs)])


@lru_cache
def _bibliography() -> Mapping[str, Mapping[str, Any]]:
    from podsim.scenario import data_file
    from podsim.scenario.document import plain_data
    from podsim.scenario.yaml_file import read_yaml

    data: Mapping[str, Mapping[str, Any]] = plain_data(read_yaml(data_file("hardware_specs/references.yaml")).data)
    return data
