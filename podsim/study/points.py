"""Points of a study: its file, the values of its keys, and the scenario of each combination."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from podsim.errors import BadValueError, Problem, SpecError
from podsim.format import format_significant
from podsim.metrics import FULLEST, HIGH, LOW, RUN_METRICS, SERVING, SPENT
from podsim.packages import optional
from podsim.scenario import variant_names
from podsim.scenario.base import Spec
from podsim.scenario.document import Document, KeyPath
from podsim.scenario.library import display_path, find
from podsim.scenario.load import validated
from podsim.scenario.quantity import Count, Flag
from podsim.scenario.wording import dotted, quoted
from podsim.scenario.yaml_file import read_yaml
from podsim.study.expression import Expression, expressions_in, interpolate, key_named
from podsim.study.store import COLUMNS, SCENARIO, VARIANT

MOST_POINTS: Final = 10_000_000
NUMBER_AND_UNIT: Final = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\D.*)?")
_DIGITS: Final = 12
MOST_LISTED: Final = 1_000_000  # most values of all axes together, because they are in memory
_FIGURES: Final = {*(metric.key for metric in (*RUN_METRICS, *SPENT) if metric.of != (SERVING,)), FULLEST, "warnings"}
_CURES: Final = {
    **dict.fromkeys(COLUMNS, "use another name"),
    SCENARIO: "list several scenarios at the top of the file, `scenario: [a, b]`",
    VARIANT: "write `all_variants: true` at the top of the file",
}
Value = bool | int | float | str

_LEAST, _MOST = 1e-7, 1e15  # range of numbers written without a power of ten
_DIGITS_SHOWN: Final = 4


def short(value: object) -> str:
    """Format a value with few digits; a missing value is a dash.

    >>> short(1 / 3), short("5.44331 GB/s"), short("bert_v2.0_pod64"), short(None)
    ('0.3333', '5.443 GB/s', 'bert_v2.0_pod64', '–')
    >>> short(13020.4), short(0.00002), short("13021.5 GB/s")
    ('13,020', '0.00002', '13,022 GB/s')
    """
    if value is None or value != value:  # not a number
        return "–"
    if isinstance(value, float):
        return format_significant(value, _DIGITS_SHOWN) if _LEAST <= abs(value) < _MOST or not value else f"{value:.4g}"
    number, unit = number_and_unit(value) or (None, "")
    return str(value) if number is None else f"{short(number)} {unit}".rstrip()


def number_and_unit(value: object) -> tuple[float, str] | None:
    """Return the number and the unit of a value; None for other texts."""
    match = None if isinstance(value, bool) else NUMBER_AND_UNIT.fullmatch(str(value))
    return match and (float(match[1]), (match[2] or "").strip())


# The file


def _check_value(value: Any) -> Any:
    do = "write for example `8 GB/s` or `12`"
    if not isinstance(value, Value):
        raise BadValueError(f"needs a number or a text, not {quoted(value)}", do)
    if isinstance(value, float) and not math.isfinite(value):
        raise BadValueError(f"needs a finite number, not {value}", do)
    return value


OneValue = Annotated[Value, BeforeValidator(_check_value)]
Values = Annotated[list[OneValue], Field(min_length=1)]
Number = Annotated[Count, Field(le=MOST_POINTS)]


class RangeSpec(Spec):
    """Values from one end to the other."""

    model_config = ConfigDict(alias_generator=lambda name: name.rstrip("_"))

    from_: OneValue
    """The first value; a quantity with its unit, or a number."""
    to: OneValue
    """The last value, in the same unit."""
    count: Number | None = None
    """Number of values, both ends included; none if values are sampled."""
    scale: Literal["linear", "log"] = "linear"
    """Spacing: equal differences or equal ratios of neighbours."""
    whole: Flag = False
    """True if values are rounded to whole numbers, and duplicates removed."""

    @property
    def ends(self) -> tuple[tuple[float, str], tuple[float, str]]:
        """First and last value with their units; `BadValueError` if one is not a number."""
        first, last = number_and_unit(self.from_), number_and_unit(self.to)
        if first is None or last is None:
            end = self.to if first else self.from_
            raise BadValueError(f"needs numbers at the ends of its range, not {end}", "write 8 GB/s, or 8")
        return first, last

    def values_at(self, shares: Iterable[float]) -> list[Value]:
        """Return the values at fractions of the range, 0 for its start and 1 for its end."""
        (first, unit), (last, _) = self.ends
        values: list[Value] = []
        for share in shares:
            number = first * (last / first) ** share if self.scale == "log" else first + (last - first) * share
            number = float(f"{number:.{_DIGITS}g}")
            number = round(number) if self.whole or number.is_integer() else number
            values.append(f"{number} {unit}" if unit else number)
        return list(dict.fromkeys(values)) if self.whole and self.count else values


class SamplesSpec(Spec):
    """Sampling of the ranges that have no count."""

    count: Number
    """Number of sampled points; a power of two for Sobol sequences."""
    method: Literal["sobol", "latin_hypercube"] = "sobol"
    """Sampling method."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Seed of the samples."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.method == "sobol" and self.count & (self.count - 1):
            do = "draw a power of two, such as 4 or 64, or write `method: latin_hypercube`"
            raise BadValueError(f"a Sobol sequence of {self.count:,} points does not fill its ranges evenly", do)
        return self

    def shares(self, dimensions: int) -> Sequence[Sequence[float]]:
        """Return the coordinates of all points in the unit cube, for each dimension. Source: `scipy.stats.qmc`."""
        optional("scipy", "samples need")
        from scipy.stats import qmc

        kind = qmc.Sobol if self.method == "sobol" else qmc.LatinHypercube
        shares: Sequence[Sequence[float]] = kind(dimensions, seed=self.seed).random(self.count).T.tolist()
        return shares


class MeasuredSpec(Spec):
    """A measured scenario, shown next to the points of a study."""

    at: OneValue
    """Value of the key on the chart's axis."""
    scenario: str
    """Shipped scenario with published figures; only its batch is simulated."""


def _form(values: Any) -> str:
    return "range" if isinstance(values, (Mapping, RangeSpec)) else "list"


def _check_range(values: Any) -> Any:
    """Return a list or a range unchanged; raise `BadValueError` if the ends of a range do not match."""
    if isinstance(values, RangeSpec):
        (first, first_unit), (last, last_unit) = values.ends
        between = f"goes from {values.from_} to {values.to}, which"
        if first_unit != last_unit:
            raise BadValueError(f"{between} have different units", "write both ends in the same unit")
        if not math.isfinite(last - first):
            raise BadValueError(f"{between} is too far for numbers", "write ends nearer to 0")
        if values.scale == "log" and (min(first, last) <= 0 <= max(first, last) or not math.isfinite(last / first)):
            raise BadValueError("has an end at 0, or ends of both signs", "use `scale: linear`")
    return values


_Form = Annotated[Annotated[Values, Tag("list")] | Annotated[RangeSpec, Tag("range")], Discriminator(_form)]
Varied = Annotated[_Form, AfterValidator(_check_range)]  # a list of values, or a range


class CombinedSpec(Spec):
    """Combination of the keys that vary: names, zipped groups and derived values."""

    names: Annotated[Mapping[str, Varied], Field(default_factory=dict)]
    """Values of names for expressions that are not keys."""
    zipped: Annotated[list[Annotated[list[str], Field(min_length=2)]], Field(default_factory=list)]
    """Groups of keys and names that vary together; all others are crossed."""
    derived: Annotated[Mapping[str, str], Field(default_factory=dict)]
    """Keys computed from others, with `${...}` for expressions."""
    where: Annotated[list[str], Field(default_factory=list)]
    """Expressions that a point has to meet."""
    samples: SamplesSpec | None = None
    """Sampling of ranges without a count."""


class StudySpec(CombinedSpec):
    """A study: every combination of the values of its keys, simulated."""

    kind: Literal["study"]
    """Kind of the file."""
    description: str = ""
    """Description in one line."""
    scenario: str | Annotated[list[str], Field(min_length=1)]
    """The scenario that varies, by path or name; or several."""
    all_variants: Flag = False
    """True if every variant of the file is run too."""
    keys: Annotated[Mapping[str, Varied], Field(default_factory=dict)]
    """Values by key of the scenario or its hardware, as `--set` names it."""
    measured: Annotated[list[MeasuredSpec], Field(default_factory=list)]
    """Scenarios with published figures, which charts of lines show."""

    @property
    def scenarios(self) -> list[str]:
        """Paths or names of the scenarios that vary."""
        return [self.scenario] if isinstance(self.scenario, str) else self.scenario

    @property
    def varied(self) -> dict[str, list[Value] | RangeSpec]:
        """Keys and names that vary, with their values or ranges."""
        return {**self.names, **self.keys}

    @property
    def drawn(self) -> dict[str, RangeSpec]:
        """Ranges to sample, by key or name."""
        ranges = {key: values for key, values in self.varied.items() if isinstance(values, RangeSpec)}
        return {key: span for key, span in ranges.items() if span.count is None}

    def columns(self) -> dict[str, list[Value]]:
        """Return the values of each key and name that is not sampled."""
        columns: dict[str, list[Value]] = {}
        for key, values in self.varied.items():
            if not isinstance(values, RangeSpec):
                columns[key] = values
            elif count := values.count:
                columns[key] = values.values_at(place / max(1, count - 1) for place in range(count))
        return columns


def _wrong(study: StudySpec) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield the inconsistencies of a study: key path, problem and cure."""
    yield from _wrong_names(study)
    varied, drawn = study.varied, study.drawn
    paths: dict[str, KeyPath] = {key: ("keys" if key in study.keys else "names", key) for key in varied}
    if drawn and study.samples is None:
        key = next(iter(drawn))
        yield paths[key], f"the range of `{key}` has no count", "give it a `count`, or add `samples`"
    if study.samples is not None and not drawn:
        yield ("samples",), "there is no range to draw samples from", "write a range without `count`"
    counts = {
        paths[key]: values.count or 0 if isinstance(values, RangeSpec) else len(values)
        for key, values in varied.items()
    }
    counts["samples", "count"] = len(drawn) * (study.samples.count if study.samples else 0)
    if (total := sum(counts.values())) > MOST_LISTED:
        path = max(counts, key=lambda path: counts[path])
        what = f"the study lists {total:,} values, {counts[path]:,} of them here; the limit is {MOST_LISTED:,}"
        yield path, what, "give a smaller `count`"
        return
    lengths = {key: len(values) for key, values in study.columns().items()} if study.zipped else {}
    for place, group in enumerate(study.zipped):
        if missing := next((key for key in group if key not in lengths), None):
            what = f"`zipped` names `{missing}`, which has no list of values"
            yield ("zipped", place), what, "name keys of this study"
        elif len({lengths[key] for key in group}) > 1:
            shown = ", ".join(f"{key} has {lengths[key]}" for key in group)
            what = f"keys that vary together need as many values each: {shown}"
            yield ("zipped", place), what, "give them as many values"
    grouped = [key for group in study.zipped for key in group]
    if twice := next((key for key in grouped if grouped.count(key) > 1), None):
        do = "name each key once; keys of one group vary together"
        yield ("zipped",), f"`zipped` names `{twice}` twice", do


def _wrong_names(study: StudySpec) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield names with two meanings, and invalid expressions or expressions with unknown names."""
    meanings = dict.fromkeys(COLUMNS, "is a column of every table")
    for section in ("keys", "names", "derived"):
        for name in getattr(study, section):
            figure = name.removesuffix(LOW).removesuffix(HIGH)
            if name in meanings:
                yield (section, name), f"`{name}` {meanings[name]}", _CURES.get(name, "leave one of them out")
            elif {figure, figure.partition(".")[0]} & _FIGURES:
                what = f"`{name}` is a figure of results, which would replace its values"
                yield (section, name), what, "use another name"
            meanings.setdefault(name, f"has its values under `{section}` already")
    known: dict[str, object] = dict.fromkeys((*study.keys, *study.names))
    texts: list[tuple[KeyPath, str]] = [(("derived", key), text) for key, text in study.derived.items()]
    for path, text in [*texts, *((("where", place), text) for place, text in enumerate(study.where))]:
        try:
            expressions = (Expression(text),) if path[0] == "where" else expressions_in(text)
        except BadValueError as error:
            yield path, str(error), error.do
            expressions = ()
        for name in sorted(
            name for expression in expressions for name in expression.names if not key_named(name, known)
        ):
            if key_named(name, dict.fromkeys(study.derived)):
                yield path, f"`{name}` is derived further down", "write it above the keys that follow from it"
            else:
                do = f"use one of: {', '.join(known)}" if known else "give it values under `keys` or `names`"
                yield path, f"`{name}` is no key of this study, or of several the last part", do
        if path[0] == "derived":
            known[str(path[1])] = None


# Its points


@dataclass(frozen=True, slots=True)
class SweptAxis:
    """Keys that vary together; each element of `values` has a value for each key."""

    keys: tuple[str, ...]
    values: Sequence[tuple[Value, ...]]


def _axes(study: StudySpec) -> Iterator[SweptAxis]:
    """Yield the axes to cross: zipped groups, every other key separately, and samples."""
    columns, drawn = study.columns(), study.drawn
    grouped = {key for group in study.zipped for key in group}
    groups = [*study.zipped, *([key] for key in columns if key not in grouped)]
    if study.samples is not None:
        shares = study.samples.shares(len(drawn))
        columns |= {key: drawn[key].values_at(along) for key, along in zip(drawn, shares, strict=True)}
        groups.append(list(drawn))
    for group in groups:
        yield SweptAxis(tuple(group), list(zip(*(columns[key] for key in group), strict=True)))


@dataclass(frozen=True, slots=True)
class Point:
    """Combination of values, numbered within the study."""

    number: int
    scenario: str
    variant: str | None
    values: Mapping[str, Value]  # by key and name, derived values last
    overrides: tuple[str, ...]  # values of keys in the form of `--set`
    problem: Problem | None = None  # the reason if an expression has no value, and the point cannot be simulated


@dataclass(frozen=True)
class StudySpace:
    """The points of a study: every combination of one element of each axis; the last axis varies fastest."""

    study: StudySpec
    axes: tuple[SweptAxis, ...]
    document: Document = field(default_factory=lambda: Document({}))  # file of the study, to locate errors

    def __len__(self) -> int:
        """Return the number of combinations, before `where` excludes some."""
        return math.prod(len(axis.values) for axis in self.axes)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Columns of the table: keys and names in the order of the file, derived ones last."""
        return tuple(dict.fromkeys((*self.study.keys, *self.study.names, *self.study.derived)))

    @cached_property
    def crossed(self) -> tuple[str, ...]:
        """Columns that vary independently; of keys that vary together, only the first."""
        followers = {key for group in self.study.zipped for key in group[1:]}
        columns = dict.fromkeys((SCENARIO, VARIANT, *self.study.keys, *self.study.names))
        return tuple(key for key in columns if key not in followers)

    @cached_property
    def _steps(self) -> Sequence[tuple[KeyPath, Expression | str]]:
        """Conditions of `where` and texts of derived keys, with their key paths, in the order of evaluation.

        Conditions come before derived keys where possible, so that they can exclude points that divide by zero.
        """
        derived, keys = self.study.derived, dict.fromkeys(self.keys)
        conditions = [(("where", place), Expression(text)) for place, text in enumerate(self.study.where)]
        late = [
            condition
            for condition in conditions
            if any(key_named(name, keys) in derived for name in condition[1].names)
        ]
        texts = [(("derived", key), text) for key, text in derived.items()]
        return [*(condition for condition in conditions if condition not in late), *texts, *late]

    def point(self, number: int) -> Point | None:
        """Return a combination by number; None if `where` excludes it."""
        values: dict[str, Value] = {}
        rest = number  # its digits, with the length of each axis as base, are the places on the axes
        for axis in reversed(self.axes):
            rest, place = divmod(rest, len(axis.values))
            values.update(zip(axis.keys, axis.values[place], strict=True))
        scenario, variant = str(values.pop(SCENARIO)), values.pop(VARIANT, None)
        ordered = {key: values[key] for key in self.keys if key in values}
        problem: Problem | None = None
        for path, step in self._steps:
            try:
                if isinstance(step, str):
                    ordered[str(path[-1])] = interpolate(step, ordered)
                elif not step.holds(ordered):
                    return None
            except BadValueError as error:
                problem = _problem(self.document, path, str(error), error.do)
                break
        overrides = tuple(
            f"{key}={str(value).lower() if isinstance(value, bool) else value}"
            for key, value in ordered.items()
            if key not in self.study.names
        )
        return Point(number, scenario, str(variant) if variant else None, ordered, overrides, problem)

    def numbers(self) -> Iterable[int]:
        """Return the numbers of all points that `where` allows."""
        return (point.number for point in self.points()) if self.study.where else range(len(self))

    def points(self) -> Iterator[Point]:
        """Return all points that `where` allows."""
        return (point for point in map(self.point, range(len(self))) if point is not None)


def read_study(path: str | Path, scenario: str | None = None) -> StudySpace:
    """Read a study file, or a shipped study by its name; `scenario` replaces the study's own.

    Raises:
        SpecError: The file is wrong; each problem has its place.
    """
    place = find(str(path), "study", ())
    return space_of(read_yaml(place, display_path(place)), place.parent, scenario)


def space_of(document: Document, folder: Path = Path(), scenario: str | None = None) -> StudySpace:
    """Return the points of a study.

    Args:
        document: Content of the study file.
        folder: Folder to which paths of scenarios in the file are relative.
        scenario: Scenario that replaces the study's own; a path is relative to the working folder.

    Raises:
        SpecError: The study is wrong; each problem has its place.
    """
    if not isinstance(document.data, dict) or document.data.get("kind") != "study":
        is_goal = isinstance(document.data, dict) and document.data.get("kind") == "goal"
        do = "begin it with `kind: study` and `scenario: NAME`; `podsim run` simulates a scenario as it is"
        do = "`podsim plan` takes goals" if is_goal else do
        raise SpecError([_problem(document, ("kind",), "this is no study", do)])
    if scenario is not None:
        places = {**document.places, (SCENARIO,): "--scenario"}
        document = replace(document, data={**document.data, SCENARIO: scenario}, places=places)
        folder = Path()
    study = validated(StudySpec, document)
    if problems := [_problem(document, *wrong) for wrong in _wrong(study)]:
        raise SpecError(problems)
    space = StudySpace(study, (_scenarios(study, folder, document), *_axes(study)), document)
    if not (study.keys or study.names) and len(space) == 1:
        do = "give `keys` with lists or ranges; `podsim run` simulates one scenario"
        raise SpecError([_problem(document, ("keys",), "nothing varies in this study", do)])
    if len(space) > MOST_POINTS:
        what = f"the study has {len(space):,} points; the limit is {MOST_POINTS:,}"
        raise SpecError([_problem(document, ("keys",), what, "give fewer values, or draw `samples`")])
    return space


def _problem(document: Document, path: KeyPath, what: str, do: str) -> Problem:
    return Problem(document.where(path), dotted(path), what, do)


def located(name: str, folder: Path) -> str:
    """Return the path of a file in `folder` with this name, or else the name unchanged, as of a shipped scenario."""
    beside = folder / name
    return str(beside) if beside.suffix and beside.is_file() else name


def _scenarios(study: StudySpec, folder: Path, document: Document) -> SweptAxis:
    """Return the axis of scenarios, with their variants if the study names `all_variants`."""
    names = [located(name, folder) for name in study.scenarios]
    for name in names:
        find(name, SCENARIO, (), document.where((SCENARIO,)), SCENARIO)
    if not study.all_variants:
        return SweptAxis((SCENARIO,), [(name,) for name in names])
    pairs = [(name, variant) for name in names for variant in ("", *variant_names(name))]
    return SweptAxis((SCENARIO, VARIANT), pairs)
