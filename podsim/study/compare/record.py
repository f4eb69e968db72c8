"""A result as plain data, read and checked: all that a comparison needs of it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podsim import metrics as metric_keys
from podsim.errors import PodsimError
from podsim.metrics import BATCHES, BYTES, FIRST_TOKEN, PERCENTILES, THROUGHPUT, TIME
from podsim.result.base import SCHEMA_VERSION
from podsim.result.breakdown import apportion
from podsim.result.rows import MemoryReport, MemoryRow
from podsim.result.shared import Simulated
from podsim.scenario.assumptions import Value, scenario_keys
from podsim.scenario.wording import shown
from podsim.study.compare.metrics import COMPARED, FORWARD, GENERATION, SERVING, TRAINING, UPDATE
from podsim.study.compare.subject import Range, Subject
from podsim.units import seconds_to_ps

_MARKS: Final = {
    "weight_update_ps": TRAINING,
    FIRST_TOKEN: GENERATION,
    BATCHES: FORWARD,
    "saturation": SERVING,
}
"""Keys that results of one activity alone have."""
_AGAIN: Final = "write it again with `podsim run NAME --format json`"
_ALL: Final = object()
_SMALLEST, _LARGEST = 1e-100, 1e100
_MEDIAN: Final = f"{PERCENTILES}.p50"


@dataclass(frozen=True, slots=True)
class PlainResult:
    """A result as plain data, as `to_dict` makes it, and what it is called in messages."""

    data: Mapping[str, Any]
    label: str

    def refusal(self, what: str, do: str = _AGAIN) -> PodsimError:
        """The error of a result that cannot be used."""
        return PodsimError(what, where=self.label, do=do)

    def at(self, key: str, kind: type[Any] | tuple[type[Any], ...], inside: Any = _ALL) -> Any:
        """The value of a dotted key, of a kind that is given, in a part of the result or all of it."""
        value: Any = self.data if inside is _ALL else inside
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            found = "is missing" if value is None else f"is {shown(value)}"
            raise self.refusal(f"this is no result that can be compared: `{key}` {found}")
        return value

    def listed(self, key: str) -> list[Any]:
        """A list."""
        found: list[Any] = self.at(key, list)
        return found

    def number(self, key: str, inside: Any = _ALL) -> float:
        """A number that is not negative, and of a size that can be computed with."""
        value = self.at(key, (int, float), inside)
        if value and not _SMALLEST <= value <= _LARGEST:
            raise self.refusal(f"this is no result that can be compared: `{key}` is {shown(value)}")
        return float(value)

    def whole(self, key: str, inside: Any = _ALL) -> int:
        """A whole number that is not negative."""
        self.number(key, inside)
        return int(self.at(key, int, inside))

    def numbers(self, key: str) -> dict[str, float]:
        """A mapping of numbers."""
        return {name: self.number(f"{key}.{name}") for name in self.at(key, Mapping)}

    def maybe(self, key: str) -> float | None:
        """A number, or None where there is none."""
        value: Any = self.data
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else value
        return None if value is None else self.number(key)


def subject_of(data: Mapping[str, Any], label: str, taken: str) -> Subject:
    """One side of a comparison, from a result as `to_dict` makes it; what it is called, and what it was taken for.

    Raises:
        PodsimError: It is no result, one of another schema version, or does not add up.
    """
    record = PlainResult(data, label)
    activity = _activity(record)
    memory = {} if activity == SERVING else _memory(record)
    metrics = dict(_metrics(record, activity)) | {name: float(sum(each.values())) for name, each in memory.items()}
    spans = dict(_spans(record, activity))
    hardware = record.at("hardware", Mapping) if data.get("hardware") else {}
    return Subject(
        label=label,
        taken=taken,
        machine=_simulated(record).machine,
        version=record.at("version", str),
        activity=activity,
        metrics=metrics,
        spans=spans,
        ranges=dict(_ranges(record)),
        own_ranges=_own_ranges(record),
        parts=record.numbers("run_breakdown") if activity == TRAINING else {},
        memory=memory,
        work=metrics[THROUGHPUT] * metrics[metric_keys.UPDATE] if activity == TRAINING else None,
        inputs=scenario_keys(record.at("scenario", Mapping)),
        hardware={key: Value(text, str(text)) for key, text in hardware.items()},
        files=tuple((record.at("path", str, each), record.at("sha256", str, each)) for each in record.listed("inputs")),
        warnings=tuple(map(str, record.listed("warnings"))),
    )


def _activity(record: PlainResult) -> str:
    written = record.data.get("schema_version", SCHEMA_VERSION)
    if written != SCHEMA_VERSION:
        what = f"this result has schema version {shown(written)}, this podsim reads {SCHEMA_VERSION}"
        raise record.refusal(what, f"{_AGAIN} of this version")
    found = next((activity for key, activity in _MARKS.items() if key in record.data), None)
    if found is None or "simulated" not in record.data:
        raise record.refusal("this is no result of podsim", "write one with `podsim run NAME --format json > FILE`")
    return found


def _metrics(record: PlainResult, activity: str) -> Iterator[tuple[str, float]]:
    figures = [each.figure for each in COMPARED[activity]]
    for metric in figures:
        value = record.maybe(metric.json_key) if metric.unit != BYTES else None
        if value is not None:
            yield metric.key, value
    for key in (metric.json_key for metric in figures[:2] if "." not in metric.json_key):
        record.number(key)  # no result is without it


def _spans(record: PlainResult, activity: str) -> Iterator[tuple[str, Mapping[str, int]]]:
    if activity == TRAINING:
        times_ps = {kind: record.whole(f"breakdown_ps.{kind}") for kind in record.at("breakdown_ps", Mapping)}
        yield UPDATE, _adding_up(record, UPDATE, times_ps, record.whole("weight_update_ps"), 0)
    elif activity != SERVING:
        for step in record.listed("steps"):
            name = record.at("name", str, step)
            kinds = record.at("breakdown", Mapping, step)
            times_ps = {kind: seconds_to_ps(record.number(kind, kinds)) for kind in kinds}
            total_ps = seconds_to_ps(record.number("time_s", step))
            yield name, _adding_up(record, name, times_ps, total_ps, len(times_ps))


def _adding_up(
    record: PlainResult, name: str, times_ps: Mapping[str, int], total_ps: int, rounding_ps: int
) -> Mapping[str, int]:
    """Times that add up to their total exactly; they come in seconds that were rounded, if at all."""
    sum_ps = sum(times_ps.values())
    if abs(sum_ps - total_ps) > rounding_ps or (total_ps and not sum_ps):
        raise record.refusal(f"the breakdown of the {name} adds up to {sum_ps:,} ps, its time is {total_ps:,} ps")
    return apportion(total_ps, times_ps)


def _memory(record: PlainResult) -> dict[str, Mapping[str, int]]:
    """Tenants of the fullest IPU, by memory."""
    rows = tuple(
        MemoryRow(
            record.whole("ipu", each),
            record.at("tenant", str, each),
            record.whole("size_bytes", each),
            record.at("where", str, each),
        )
        for each in record.listed("memory.rows")
    )
    report = MemoryReport(rows, 0, 0)
    fullest = {where: report.fullest_ipu(where) for where in dict.fromkeys(row.where for row in rows)}
    return {where: report.tenants(ipu, where) for where, ipu in fullest.items() if ipu is not None}


def _ranges(record: PlainResult) -> Iterator[tuple[str, Range]]:
    if record.data.get("uncertainty") is None:
        return
    for name in record.at("uncertainty.metrics", Mapping):
        low, high = (record.number(f"uncertainty.metrics.{name}.{share}") for share in ("p10", "p90"))
        yield name, (low, high)
        if name == TIME:
            yield _MEDIAN, (low, high)


def _own_ranges(record: PlainResult) -> dict[str, Range]:
    """Ranges of a single run; results of older versions have none."""
    known = record.at("ranges", Mapping) if record.data.get("ranges") else {}
    return {name: (record.number("low", ends), record.number("high", ends)) for name, ends in known.items()}


def _simulated(record: PlainResult) -> Simulated:
    names, counts = ("system", "ipu", "software"), ("ipus_used", "ipu_count")
    texts: dict[str, Any] = {name: record.at(f"simulated.{name}", str) for name in names}
    texts |= {name: record.whole(f"simulated.{name}") for name in counts}
    return Simulated(clock_hz=record.number("simulated.clock_hz"), **texts)
