"""Sides of a comparison: scenarios, simulated here or in a git revision, and results in JSON files."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, Field, Strict, ValidationError

from podsim import metrics
from podsim.draws import Draws, Range
from podsim.errors import PodsimError, SpecError
from podsim.git import READ, blobs, commit_of, extract, top_of
from podsim.metrics import BYTES, IN_PROCESSOR, METRICS, PERCENTILES, STREAMING, Metric
from podsim.result.base import SCHEMA_VERSION, Result, plain
from podsim.result.breakdown import apportion
from podsim.result.influence import StandsOn, ranges_line
from podsim.result.rows import MemoryReport, MemoryRow
from podsim.result.shared import Simulated
from podsim.runs import run
from podsim.scenario import LoadedScenario, variant_names
from podsim.scenario.assumptions import Value, scenario_keys
from podsim.scenario.library import data_root, find
from podsim.scenario.wording import known_here, quoted
from podsim.units import seconds_to_ps
from podsim.user_file import MOST_BYTES, content_of
from podsim.watch import Watch, silent

Ends = tuple[float, float]
Side = str | Path | Mapping[str, Any] | LoadedScenario | Result
"""A name or path, also with `@VARIANT` or `@REVISION`; a scenario or a result, also as plain data."""

TRAINING, GENERATION, FORWARD, SERVING = "training", "text generation", "forward passes", "serving"
UPDATE, PREFILL, DECODE, RUN, ANSWER = "weight update", "prefill", "decode", "run", "answer"
_MEMORY: Final = {IN_PROCESSOR: IN_PROCESSOR, STREAMING: STREAMING}
COMPARED: Final[Mapping[str, Mapping[str, str]]] = {
    TRAINING: {
        **dict.fromkeys((metrics.THROUGHPUT, metrics.UPDATE), UPDATE),
        **dict.fromkeys((metrics.TIME, *(f"{PERCENTILES}.{share}" for share in ("p50", "p10", "p90"))), RUN),
        **dict.fromkeys(("mfu", "mfu_of_pod"), UPDATE),
        **_MEMORY,
    },
    GENERATION: {
        **dict.fromkeys((metrics.TOKENS, metrics.STEPS, metrics.OUTPUT_TOKEN), DECODE),
        metrics.FIRST_TOKEN: PREFILL,
        metrics.LATENCY: ANSWER,
        **_MEMORY,
    },
    FORWARD: {
        **dict.fromkeys((metrics.THROUGHPUT, metrics.BATCHES), "call"),
        metrics.LATENCY: "batch",
        **dict.fromkeys(("utilization", "utilization_of_pod"), "call"),
        **_MEMORY,
    },
    SERVING: {
        **{f"{wait}_{share}_s": "" for wait in metrics.WAITS for share in ("p50", "p95", "p99")},
        **dict.fromkeys((metrics.REQUESTS, metrics.SERVED_TOKENS, metrics.SATURATION), ""),
    },
}
"""Compared metrics by activity, the headline first, each with the interval of time or the memory it belongs to."""
_ACTIVITY_BY_KEY: Final = {
    "weight_update_ps": TRAINING,
    metrics.FIRST_TOKEN: GENERATION,
    metrics.BATCHES: FORWARD,
    "saturation": SERVING,
}
"""Activity by a key that only its results have."""
_NEEDED: Final = 2
"""Number of the first metrics of an activity that every result has."""
_AT: Final = re.compile(r"@(?!\{)")
"""Separator between parts of a name; `HEAD@{1}` is one part."""
_SHORT_HASH: Final = 10
_MOST_PARTS: Final = 3
_SMALLEST, _LARGEST = 1e-100, 1e100
_WRITE: Final = "write one with `podsim run NAME --format json > FILE`"
_AGAIN: Final = "write it again with `podsim run NAME --format json`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Side of a comparison: its label, origin, and the values of its result."""

    label: str
    taken: str  # kind of the side and its origin, such as `scenario in a file`
    machine: str  # simulated machine
    version: str  # version of podsim that simulated it
    activity: str
    metrics: Mapping[str, float]
    spans: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # time by kind, by interval of time [ps]
    ranges: Mapping[str, Ends] = field(default_factory=dict)  # P10 and P90 of samples, by metric
    own_ranges: Mapping[str, Range] = field(default_factory=dict)  # prediction intervals without samples, by metric
    parts: Mapping[str, float] = field(default_factory=dict)  # time of each phase of a training run [s]
    memory: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # tenants of the fullest IPU, by memory [B]
    work: float | None = None  # samples per weight update; None without training
    inputs: Mapping[str, Value] = field(default_factory=dict)  # keys of the scenario, without pod and software stack
    hardware: Mapping[str, Value] = field(default_factory=dict)  # keys of pod and stack; empty if the file lacks them
    files: tuple[tuple[str, str], ...] = ()  # (path, SHA-256) of every file read
    warnings: tuple[str, ...] = ()
    # uncertain inputs and their effects; None for results in files
    stands_on: StandsOn | None = field(default=None, compare=False, repr=False)

    @property
    def about(self) -> str:
        """Label, origin, machine and ranges in one line."""
        ranges = ranges_line(self.own_ranges)
        return f"{self.label} ({self.taken}): {self.machine}{f'; {ranges}' if ranges else ''}"

    def range_of(self, metric: Metric) -> Ends | None:
        """Return P10 and P90 of a metric's samples, or of the metric that it is proportional to."""
        if metric.key in self.ranges:
            return self.ranges[metric.key]
        leader, own = self.metrics.get(metric.follows), self.metrics.get(metric.key)
        if metric.follows not in self.ranges or not leader or own is None:
            return None
        low, high = self.ranges[metric.follows]
        return low / leader * own, high / leader * own


def side(given: Side, letter: str, uncertainty: Draws | None, watch: Watch) -> Subject:
    """Return a side of a comparison, simulated if it is a scenario; `letter` is its label if it has no name.

    Raises:
        PodsimError: It cannot be read or simulated.
    """
    match given:
        case Result():
            return result_subject(given, given.name, f"result, podsim {given.version}")
        case Mapping() if "simulated" in given:
            return subject_of(given, letter, "result as plain data")
        case Mapping():
            return _simulated(given, letter, "scenario as plain data", None, uncertainty, watch)
        case LoadedScenario():
            return _simulated(given, given.name, "loaded scenario", None, uncertainty, watch)
        case str() | os.PathLike():
            return _named(os.fspath(given), uncertainty, watch)
    do = "give names, paths, scenarios or results"
    raise PodsimError(f"{type(given).__name__} is nothing that can be compared", where=letter, do=do)


def result_subject(result: Result, label: str, taken: str, *, ranged: bool = True) -> Subject:
    """Return a side of a comparison from a result; with `ranged=False`, no ranges are computed, which is faster."""
    data = replace(result, assumptions=()).to_dict() | {"ranges": plain(result.ranges) if ranged else {}}
    stands_on = result.assumptions if ranged and isinstance(result.assumptions, StandsOn) else None
    return replace(subject_of(data, label, taken), stands_on=stands_on)


def _simulated(
    scenario: str | Mapping[str, Any] | LoadedScenario,
    label: str,
    taken: str,
    variant: str | None,
    uncertainty: Draws | None,
    watch: Watch,
) -> Subject:
    try:
        return result_subject(run(scenario, variant=variant, uncertainty=uncertainty, watch=watch), label, taken)
    except SpecError:
        raise  # the error names its files
    except PodsimError as error:
        error.where = f"{label}: {error.where}" if error.where else label
        raise


def _path_subject(
    path: str, label: str, taken: str, variant: str | None, uncertainty: Draws | None, watch: Watch
) -> Subject:
    """Return a side from a scenario, by path or shipped name, or from a file with a result."""
    if not _is_result(path):
        return _simulated(path, label, taken, variant, uncertainty, watch)
    content = content_of(Path(path), MOST_BYTES, _WRITE, name=label)
    try:
        data = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        what = f"this is not JSON: {error}" if isinstance(error, ValueError) else "this is nested too deeply"
        raise PodsimError(what, where=label, do=_WRITE) from error
    data = data if isinstance(data, dict) else {}
    name = f" of {data['name']}" if isinstance(data.get("name"), str) else ""
    return subject_of(data, label, f"result{name} in a file, podsim {data.get('version')}")


def _is_result(path: str) -> bool:
    return Path(path).suffix.lower() == ".json"


# Names


def _named(word: str, uncertainty: Draws | None, watch: Watch) -> Subject:
    """Return the side named by a word of the command line: a file, or else a variant of it, or else a revision."""
    path, *others = _AT.split(word)
    file = _file(word)
    if not others or file is not None:
        shipped = file is not None and file.resolve().is_relative_to(data_root().resolve())
        taken = "shipped scenario" if shipped else "scenario in a file"
        return _path_subject(word, word, taken, None, uncertainty, watch)
    if len(others) >= _MOST_PARTS or not all((path, *others)):
        do = "write `NAME@VARIANT`, `NAME@REVISION` or `NAME@VARIANT@REVISION`"
        raise PodsimError("this is no name with a variant or a revision", where=word, do=do)
    *variant, name = others
    if variant:
        return _Revision.from_name(path, name).subject(word, f"variant {variant[0]} of {path}", variant[0], uncertainty)
    file = _file(path)
    variants = () if file is None or _is_result(path) else variant_names(path)
    if name in variants:
        return _path_subject(path, word, f"variant {name} of {path}", name, uncertainty, watch)
    try:
        revision = _Revision.from_name(path, name)
    except PodsimError as error:
        missing = f"{path} has no variant `{name}`" if file else f"no scenario `{path}` was found"
        cure = known_here(name, variants, error.do or "name a revision") if variants else error.do
        raise PodsimError(f"{missing}; as a revision: {error.message}", where=word, do=cure) from None
    return revision.subject(word, path, None, uncertainty)


def _file(word: str) -> Path | None:
    try:
        return find(word, "scenario", ())
    except SpecError:
        return None


@dataclass(frozen=True, slots=True)
class _Revision:
    """A file at a revision of its git repository."""

    name: str  # of the revision, as the user writes it
    commit: str  # full hash
    top: Path  # top folder of the repository
    path: PurePosixPath  # of the file, relative to `top`

    @classmethod
    def from_name(cls, path: str, name: str) -> _Revision:
        """Return the file and revision of `path@name`; the file need not exist in the working tree.

        Raises:
            PodsimError: There is no such repository or revision, or the revision does not contain the file.
        """
        file = _file(path)
        files = [file] if file is not None else [Path(f"{path}{suffix}") for suffix in ("", ".yaml", ".yml")]
        where = f"{files[0]}@{name}"
        folder = next(parent for parent in files[0].absolute().parents if parent.is_dir())
        top = top_of(folder, where, "name a file in a git repository, or one of the variants of the file")
        commit = commit_of(top, where, name)
        committed = blobs(top, where, commit)
        for file in files:
            full = file.absolute().parent.resolve() / file.name
            inside = PurePosixPath(full.relative_to(top).as_posix()) if full.is_relative_to(top) else None
            if inside in committed:
                return cls(name, commit, top, inside)
        do = f"`git log --oneline -- {files[0]}` lists revisions that have it"
        raise PodsimError(f"`{files[0]}` is not in revision `{name}`", where=where, do=do)

    def subject(self, label: str, taken: str, variant: str | None, uncertainty: Draws | None) -> Subject:
        """Return a side that is read and simulated from the files of the revision, in a temporary folder."""
        with tempfile.TemporaryDirectory(prefix="podsim-") as name:
            folder, working = Path(name).resolve(), Path.cwd().resolve()
            where = f"{self.path}@{self.name}"
            extract(self.top, where, self.commit, folder, lambda path: path.suffix.lower() in READ or path == self.path)
            here = folder / working.relative_to(self.top) if working.is_relative_to(self.top) else working
            here.mkdir(parents=True, exist_ok=True)

            def without_folder(text: str | None) -> str:
                near = f"{here}/" if here.is_relative_to(folder) else f"{folder}/"
                return (text or "").replace(near, "").replace(f"{folder}/", "")

            arguments = (str(folder / self.path), label, taken, variant, uncertainty, silent)
            try:
                # Relative paths need the extracted folder as working folder, which only another process can change.
                with ProcessPoolExecutor(1, initializer=os.chdir, initargs=(here,)) as pool:
                    subject = pool.submit(_path_subject, *arguments).result()
            except PodsimError as error:
                error.message, error.where, error.do = map(without_folder, (error.message, error.where, error.do))
                raise error.with_place(label) from None
        at = f"revision {self.name}" + f" ({self.commit[:_SHORT_HASH]})" * (not self.commit.startswith(self.name))
        taken = f"{subject.taken}, at {at}" if _is_result(str(self.path)) else f"{taken} at {at}"
        files = tuple((without_folder(path), digest) for path, digest in subject.files)
        return replace(subject, taken=taken, files=files)


# Results as plain data


def _computable(value: float) -> float:
    if value and not _SMALLEST <= value <= _LARGEST:
        raise ValueError("it cannot be computed with")
    return value


_Number = Annotated[float, AfterValidator(_computable), Strict()]
_Whole = Annotated[int, AfterValidator(_computable), Strict()]
_EmptyForNull = BeforeValidator(lambda value: value or {})


class _Tenant(BaseModel):
    ipu: _Whole
    tenant: str
    size_bytes: _Whole
    where: str


class _Step(BaseModel):
    name: str
    time_s: _Number
    breakdown: dict[str, _Number]


class _File(BaseModel):
    path: str
    sha256: str


class _Ends(BaseModel):
    low: _Number
    high: _Number


class _Sampled(BaseModel):
    p10: _Number
    p90: _Number


class _Record(BaseModel):
    """Parts of a result that a comparison needs; some activities have no memory, steps or breakdown."""

    figures: dict[str, _Number]
    version: str
    simulated: Simulated
    warnings: list[Any]
    inputs: list[_File]
    scenario: dict[str, Any]
    hardware: Annotated[dict[str, Any], _EmptyForNull] = {}
    ranges: Annotated[dict[str, _Ends], _EmptyForNull] = {}
    drawn: dict[str, _Sampled] = Field({}, validation_alias=AliasPath("uncertainty", "metrics"))
    tenants: list[_Tenant] = Field([], validation_alias=AliasPath("memory", "rows"))
    steps: list[_Step] = []
    weight_update_ps: _Whole = 0
    breakdown_ps: dict[str, _Whole] = {}
    run_breakdown: dict[str, _Number] = {}


def subject_of(data: Mapping[str, Any], label: str, taken: str) -> Subject:
    """Return a side of a comparison from the `to_dict` form of a result, with its label and origin.

    Raises:
        PodsimError: The data are no result, or of another schema version.
    """
    schema = data.get("schema_version", SCHEMA_VERSION)
    if schema != SCHEMA_VERSION:
        what = f"this result has schema version {quoted(schema)}, this podsim reads {SCHEMA_VERSION}"
        raise PodsimError(what, where=label, do=f"{_AGAIN} of this version")
    activity = next((activity for key, activity in _ACTIVITY_BY_KEY.items() if key in data), None)
    if activity is None or "simulated" not in data:
        raise PodsimError("this is no result of podsim", where=label, do=_WRITE)
    keys = {METRICS[key].name: key for key in COMPARED[activity] if METRICS[key].unit != BYTES}
    values = {name: _value_at(data, name) for name in keys}
    needed = [name for name in list(keys)[:_NEEDED] if "." not in name]
    values = {name: value for name, value in values.items() if value is not None or name in needed}
    try:
        record = _Record.model_validate({**data, "figures": values})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])).removeprefix("figures.")
        is_missing = first["type"] == "missing" or first["input"] is None
        what = "is missing" if is_missing else f"is {quoted(first['input'])}"
        raise PodsimError(f"this is no result that can be compared: `{key}` {what}", where=label, do=_AGAIN) from None
    memory = _fullest(record.tenants)
    figures = {keys[name]: value for name, value in record.figures.items()}
    drawn = {name: (ends.p10, ends.p90) for name, ends in record.drawn.items()}
    if metrics.TIME in drawn:
        drawn[f"{PERCENTILES}.p50"] = drawn[metrics.TIME]
    return Subject(
        label=label,
        taken=taken,
        machine=record.simulated.machine,
        version=record.version,
        activity=activity,
        metrics=figures | {where: float(sum(sizes.values())) for where, sizes in memory.items()},
        spans=dict(_spans(record, label)),
        ranges=drawn,
        own_ranges={name: Range(ends.low, ends.high) for name, ends in record.ranges.items()},
        parts=record.run_breakdown,
        memory=memory,
        work=figures[metrics.THROUGHPUT] * figures[metrics.UPDATE] if activity == TRAINING else None,
        inputs=scenario_keys(record.scenario),
        hardware={key: Value(text, str(text)) for key, text in record.hardware.items()},
        files=tuple((file.path, file.sha256) for file in record.inputs),
        warnings=tuple(map(str, record.warnings)),
    )


def _value_at(data: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted key; None if absent, a text if a part on the way is not a mapping."""
    value: Any = data
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None if value is None else str(value)
    return value


def _spans(record: _Record, label: str) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield each interval of time with its breakdown by kind, which adds up exactly; in seconds it may be rounded. [ps]

    Raises:
        PodsimError: A breakdown does not add up to its time.
    """
    spans = [(UPDATE, record.breakdown_ps, record.weight_update_ps)] if record.weight_update_ps else []
    for step in record.steps:
        rounded_ps = {kind: seconds_to_ps(time_s) for kind, time_s in step.breakdown.items()}
        spans.append((step.name, rounded_ps, seconds_to_ps(step.time_s)))
    for name, times_ps, total_ps in spans:
        sum_ps = sum(times_ps.values())
        if abs(sum_ps - total_ps) > (len(times_ps) if record.steps else 0) or (total_ps and not sum_ps):
            what = f"the breakdown of the {name} adds up to {sum_ps:,} ps, its time is {total_ps:,} ps"
            raise PodsimError(what, where=label, do=_AGAIN)
        yield name, apportion(total_ps, times_ps)


def _fullest(tenants: list[_Tenant]) -> Mapping[str, Mapping[str, int]]:
    """Return the tenants of the fullest IPU, by memory. [B]"""
    report = MemoryReport(tuple(MemoryRow(**tenant.model_dump()) for tenant in tenants), 0, 0)
    memories = dict.fromkeys(row.where for row in report.rows)
    return {where: report.tenants(ipu, where) for where in memories if (ipu := report.fullest_ipu(where)) is not None}
