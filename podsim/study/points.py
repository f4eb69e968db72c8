"""The points of a study: its file, the values of its keys, and what each combination of them gives the simulator."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag

from podsim.errors import BadValueError, PodsimError, Problem, SpecError
from podsim.format import format_significant
from podsim.metrics import FULLEST, HIGH, LOW, OWN, SERVING, SPENT
from podsim.scenario import variant_names
from podsim.scenario.base import Spec
from podsim.scenario.document import Document, KeyPath, read_yaml
from podsim.scenario.library import display_path, find
from podsim.scenario.load import validated
from podsim.scenario.quantity import Count, Flag
from podsim.scenario.wording import dotted, shown
from podsim.study.expression import Expression, expressions_in, filled_in, key_named
from podsim.study.store import COLUMNS, SCENARIO, VARIANT

MOST_POINTS: Final = 10_000_000
NUMBER_AND_UNIT: Final = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\D.*)?")
_DIGITS: Final = 12
_MOST_LISTED: Final = 2 * MOST_POINTS
"""Values that are listed or drawn for all axes together; one study cannot need more, and they have to be in memory."""
_FIGURES: Final = {*(metric.key for metric in (*OWN, *SPENT) if metric.of != (SERVING,)), FULLEST, "warnings"}
_CURES: Final = {
    **dict.fromkeys(COLUMNS, "use another name"),
    SCENARIO: "list several scenarios at the top of the file, `scenario: [a, b]`",
    VARIANT: "write `all_variants: true` at the top of the file",
}
Value = bool | int | float | str

_LEAST, _MOST = 1e-7, 1e15
"""Numbers that are written out; others are rare, and shorter with a power of ten."""
_DIGITS_SHOWN: Final = 4


def short(value: object) -> str:
    """A value with few digits, nothing as a dash.

    >>> short(1 / 3), short("5.44331 GB/s"), short("bert_v2.0_pod64"), short(None)
    ('0.3333', '5.443 GB/s', 'bert_v2.0_pod64', '–')
    >>> short(13020.4), short(0.00002), short("13021.5 GB/s")
    ('13,020', '0.00002', '13,022 GB/s')
    """
    if value is None or value != value:  # not a number
        return "–"
    if isinstance(value, float):
        return format_significant(value, _DIGITS_SHOWN) if _LEAST <= abs(value) < _MOST or not value else f"{value:.4g}"
    match = NUMBER_AND_UNIT.fullmatch(str(value))
    return f"{short(float(match[1]))} {match[2] or ''}".rstrip() if match else str(value)


# The file


def _one_value(given: Any) -> Any:
    do = "write for example `8 GB/s` or `12`"
    if not isinstance(given, Value):
        raise BadValueError(f"needs a number or a text, not {shown(given)}", do)
    if isinstance(given, float) and not math.isfinite(given):
        raise BadValueError(f"needs a finite number, not {given}", do)
    return given


OneValue = Annotated[Value, BeforeValidator(_one_value)]
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
    """How many values there are, both ends included; left out where values are sampled."""
    scale: Literal["linear", "log"] = "linear"
    """Whether differences or ratios of neighbours are equal."""
    whole: Flag = False
    """Whether values are rounded to whole numbers, and equal ones taken once."""


class SamplesSpec(Spec):
    """Points drawn from the ranges that have no count."""

    count: Number
    """How many points are drawn; a power of two for Sobol sequences."""
    method: Literal["sobol", "latin_hypercube"] = "sobol"
    """How they are spread over the ranges."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Of the draws."""


class MeasuredSpec(Spec):
    """A scenario of which something was measured, beside the points of a study."""

    at: OneValue
    """The value of the key along which the chart is drawn."""
    scenario: str
    """A shipped scenario with published figures, simulated for its batch alone."""


def _form(given: Any) -> str:
    return "range" if isinstance(given, (Mapping, RangeSpec)) else "list"


Varied = Annotated[Annotated[Values, Tag("list")] | Annotated[RangeSpec, Tag("range")], Discriminator(_form)]
"""A list of values, or a range."""


class CombinedSpec(Spec):
    """How keys that vary go together."""

    names: Annotated[Mapping[str, Varied], Field(default_factory=dict)]
    """Values of names that are no keys, for expressions."""
    zipped: Annotated[list[Annotated[list[str], Field(min_length=2)]], Field(default_factory=list)]
    """Groups of keys and names that vary together; all others are crossed."""
    derived: Annotated[Mapping[str, str], Field(default_factory=dict)]
    """Keys that follow from others, with `${...}` for expressions."""
    where: Annotated[list[str], Field(default_factory=list)]
    """Expressions that a point has to meet."""
    samples: SamplesSpec | None = None
    """How ranges without a count are sampled."""


class StudySpec(CombinedSpec):
    """A study: every combination of the values of its keys, simulated."""

    kind: Literal["study"]
    """What the file is."""
    description: str = ""
    """What it is about, in a line."""
    scenario: str | Annotated[list[str], Field(min_length=1)]
    """The scenario that varies, by path or name; or several."""
    all_variants: Flag = False
    """Whether every variant of the file is run as well as the file itself."""
    keys: Annotated[Mapping[str, Varied], Field(default_factory=dict)]
    """Values by key of the scenario or its hardware, as `--set` names it."""
    measured: Annotated[list[MeasuredSpec], Field(default_factory=list)]
    """Scenarios with published figures, which charts of lines show."""

    @property
    def scenarios(self) -> list[str]:
        """The scenarios that vary."""
        return [self.scenario] if isinstance(self.scenario, str) else self.scenario


# The values of its keys


@dataclass(frozen=True, slots=True)
class SweptAxis:
    """Keys that vary together, and as many values of each."""

    keys: tuple[str, ...]
    columns: Sequence[Sequence[Value]]

    def __len__(self) -> int:
        """How many places the axis has."""
        return len(self.columns[0])

    @property
    def values(self) -> Iterator[tuple[Value, ...]]:
        """A value of each key at every place."""
        return zip(*self.columns, strict=True)


@dataclass(frozen=True, slots=True)
class SteppedValues(Sequence[Any]):
    """Values from one end to another, made when they are asked for: there may be millions."""

    first: float
    last: float
    unit: str
    given: RangeSpec

    def __len__(self) -> int:
        """How many there are."""
        return self.given.count or 0

    def __getitem__(self, place: Any) -> Any:
        """The value at a place from 0 on."""
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self.at(place / max(1, len(self) - 1))

    def at(self, share: float) -> Value:
        """The value at a share of the way."""
        if self.given.scale == "log":
            number = self.first * (self.last / self.first) ** share
        else:
            number = self.first + (self.last - self.first) * share
        number = float(f"{number:.{_DIGITS}g}") + 0.0  # not -0
        number = round(number) if self.given.whole or number.is_integer() else number
        return f"{number} {self.unit}" if self.unit else number


@dataclass(frozen=True, slots=True)
class _Wrong:
    """What is wrong in a study, with its place."""

    document: Document

    def problem(self, path: KeyPath, what: str, do: str) -> Problem:
        return Problem(self.document.where(path), dotted(path), what, do)

    def error(self, path: KeyPath, what: str, do: str) -> SpecError:
        return SpecError([self.problem(path, what, do)])


def _axes(study: StudySpec, wrong: _Wrong) -> Iterator[SweptAxis]:
    """The axes that are crossed: groups that vary together, every other key on its own, and samples."""
    given = {**study.names, **study.keys}
    paths: dict[str, KeyPath] = {key: ("keys" if key in study.keys else "names", key) for key in given}
    drawn = {key: each for key, each in given.items() if isinstance(each, RangeSpec) and each.count is None}
    counts = {("samples", "count"): len(drawn) * (study.samples.count if study.samples else 0)} | {
        paths[key]: (each.count or 0) * each.whole if isinstance(each, RangeSpec) else len(each)
        for key, each in given.items()
    }
    path = max(counts, key=lambda path: counts[path])
    if (total := sum(counts.values())) > _MOST_LISTED:
        what = f"the study lists {total:,} values, {counts[path]:,} of them here; the limit is {_MOST_LISTED:,}"
        raise wrong.error(path, what, "give a smaller `count`")
    columns: dict[str, Sequence[Value]] = {}
    for key, each in given.items():
        if key not in drawn:
            values = _stepped(paths[key], each, wrong) if isinstance(each, RangeSpec) else each
            columns[key] = list(dict.fromkeys(values)) if isinstance(each, RangeSpec) and each.whole else values
    for place, group in enumerate(study.zipped):
        if missing := next((key for key in group if key not in columns), None):
            what = f"`zipped` names `{missing}`, which has no list of values"
            raise wrong.error(("zipped", place), what, "name keys of this study")
        if len({len(columns[key]) for key in group}) > 1:
            lengths = ", ".join(f"{key} has {len(columns[key])}" for key in group)
            what = f"keys that vary together need as many values each: {lengths}"
            raise wrong.error(("zipped", place), what, "give them as many values")
        yield SweptAxis(tuple(group), [columns[key] for key in group])
    grouped = [key for group in study.zipped for key in group]
    if twice := next((key for key in grouped if grouped.count(key) > 1), None):
        what, do = f"`zipped` names `{twice}` twice", "name each key once; keys of one group vary together"
        raise wrong.error(("zipped",), what, do)
    yield from (SweptAxis((key,), [column]) for key, column in columns.items() if key not in grouped)
    if drawn and study.samples is None:
        path = paths[next(iter(drawn))]
        raise wrong.error(path, f"the range of `{path[-1]}` has no count", "give it a `count`, or add `samples`")
    if study.samples is not None:
        if not drawn:
            raise wrong.error(("samples",), "there is no range to draw samples from", "write a range without `count`")
        ranges = [_stepped(paths[key], each, wrong) for key, each in drawn.items()]
        shares = _spread(len(drawn), study.samples, wrong)
        yield SweptAxis(tuple(drawn), [[*map(each.at, of_key)] for each, of_key in zip(ranges, shares, strict=True)])


def _spread(dimensions: int, samples: SamplesSpec, wrong: _Wrong) -> Sequence[Sequence[float]]:
    """Points of the unit cube, by their dimensions. Source: `scipy.stats.qmc`."""
    try:
        from scipy.stats import qmc
    except ImportError as error:
        do = "pip install 'podsim[sweep]'"
        raise PodsimError("samples need scipy, which is not installed", do=do) from error
    if samples.method == "sobol" and samples.count & (samples.count - 1):
        do = "draw a power of two, such as 4 or 64, or write `method: latin_hypercube`"
        what = f"a Sobol sequence of {samples.count:,} points does not fill its ranges evenly"
        raise wrong.error(("samples", "count"), what, do)
    kind = qmc.Sobol if samples.method == "sobol" else qmc.LatinHypercube
    shares: Sequence[Sequence[float]] = kind(dimensions, seed=samples.seed).random(samples.count).T.tolist()
    return shares


def _stepped(path: KeyPath, given: RangeSpec, wrong: _Wrong) -> SteppedValues:
    name = f"`{path[-1]}`"
    ends = []
    for end in (given.from_, given.to):
        match = None if isinstance(end, bool) else NUMBER_AND_UNIT.fullmatch(str(end))
        if match is None:
            what = f"{name} needs numbers at the ends of its range, not {end}"
            raise wrong.error(path, what, "write 8 GB/s, or 8")
        ends.append((float(match[1]), (match[2] or "").strip()))
    (first, unit), (last, other) = ends
    between = f"{name} goes from {given.from_} to {given.to}, which"
    if unit != other:
        raise wrong.error(path, f"{between} have different units", "write both ends in the same unit")
    if not math.isfinite(last - first):
        raise wrong.error(path, f"{between} is too far for numbers", "write ends nearer to 0")
    if given.scale == "log" and (min(first, last) <= 0 <= max(first, last) or not math.isfinite(last / first)):
        raise wrong.error(path, f"{name} has an end at 0, or ends of both signs", "use `scale: linear`")
    return SteppedValues(first, last, unit, given)


def _wrong_names(study: StudySpec, wrong: _Wrong) -> Iterator[Problem]:
    """Names with two meanings, and expressions that are none or use names without a value."""
    meanings = dict.fromkeys(COLUMNS, "is a column of every table")
    for section in ("keys", "names", "derived"):
        for name in getattr(study, section):
            figure = name.removesuffix(LOW).removesuffix(HIGH)
            if name in meanings:
                do = _CURES.get(name, "leave one of them out")
                yield wrong.problem((section, name), f"`{name}` {meanings[name]}", do)
            elif {figure, figure.partition(".")[0]} & _FIGURES:
                what = f"`{name}` is a figure of results, which would replace its values"
                yield wrong.problem((section, name), what, "use another name")
            meanings.setdefault(name, f"has its values under `{section}` already")
    known: dict[str, object] = dict.fromkeys((*study.keys, *study.names))
    texts: list[tuple[KeyPath, str]] = [(("derived", key), text) for key, text in study.derived.items()]
    texts += [(("where", place), text) for place, text in enumerate(study.where)]
    for path, text in texts:
        try:
            expressions = (Expression(text),) if path[0] == "where" else expressions_in(text)
        except BadValueError as error:
            yield wrong.problem(path, str(error), error.do)
            expressions = ()
        for name in sorted(name for each in expressions for name in each.names if not key_named(name, known)):
            if key_named(name, dict.fromkeys(study.derived)):
                what, do = f"`{name}` is derived further down", "write it above the keys that follow from it"
            else:
                what = f"`{name}` is no key of this study, or of several the last part"
                do = f"use one of: {', '.join(known)}" if known else "give it values under `keys` or `names`"
            yield wrong.problem(path, what, do)
        if path[0] == "derived":
            known[str(path[1])] = None


# Its points


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of values, by its place among all of the study.

    `values` are by key and name, those that are derived last; `overrides` are those of keys, as `--set` takes them.
    Where an expression has no value there is a `problem`, and the point cannot be simulated.
    """

    number: int
    scenario: str
    variant: str | None
    values: Mapping[str, Value]
    overrides: tuple[str, ...]
    problem: Problem | None = None


@dataclass(frozen=True)
class StudySpace:
    """The points of a study: all that is crossed, of which the last axis varies fastest."""

    study: StudySpec
    axes: tuple[SweptAxis, ...]
    document: Document = field(default_factory=lambda: Document({}))  # for the places of what is wrong

    def __len__(self) -> int:
        """How many combinations there are, those included that `where` leaves out."""
        return math.prod(map(len, self.axes))

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Columns of the table: keys and names in the order of the file, those that are derived last."""
        return tuple(dict.fromkeys((*self.study.keys, *self.study.names, *self.study.derived)))

    @cached_property
    def crossed(self) -> tuple[str, ...]:
        """Columns that may vary on their own, of each group that varies together the first."""
        follow = {key for group in self.study.zipped for key in group[1:]}
        given = dict.fromkeys((SCENARIO, VARIANT, *self.study.keys, *self.study.names))
        return tuple(key for key in given if key not in follow)

    @cached_property
    def _steps(self) -> Sequence[tuple[KeyPath, Expression | str]]:
        """Conditions, which keep points from a division by zero, what is derived, and conditions that need that."""
        derived, keys = self.study.derived, dict.fromkeys(self.keys)
        conditions = [(("where", place), Expression(text)) for place, text in enumerate(self.study.where)]
        late = [each for each in conditions if any(key_named(name, keys) in derived for name in each[1].names)]
        texts = [(("derived", key), text) for key, text in derived.items()]
        return [*(each for each in conditions if each not in late), *texts, *late]

    def point(self, number: int) -> Point | None:
        """A combination by its number; None if `where` leaves it out."""
        values: dict[str, Value] = {}
        rest = number
        for axis in reversed(self.axes):
            rest, place = divmod(rest, len(axis))
            values.update((key, column[place]) for key, column in zip(axis.keys, axis.columns, strict=True))
        scenario, variant = str(values.pop(SCENARIO)), values.pop(VARIANT, None)
        ordered = {key: values[key] for key in self.keys if key in values}
        problem: Problem | None = None
        for path, step in self._steps:
            try:
                if isinstance(step, str):
                    ordered[str(path[-1])] = filled_in(step, ordered)
                elif not step.holds(ordered):
                    return None
            except BadValueError as error:
                problem = _Wrong(self.document).problem(path, str(error), error.do)
                break
        pairs = ((key, value) for key, value in ordered.items() if key not in self.study.names)
        overrides = tuple(f"{key}={str(each).lower() if isinstance(each, bool) else each}" for key, each in pairs)
        return Point(number, scenario, str(variant) if variant else None, ordered, overrides, problem)

    def numbers(self) -> Iterable[int]:
        """The numbers of all points that `where` lets through."""
        return (point.number for point in self.points()) if self.study.where else range(len(self))

    def points(self) -> Iterator[Point]:
        """All points that `where` lets through."""
        return (point for point in map(self.point, range(len(self))) if point is not None)


def read_study(path: str | Path, scenario: str | None = None) -> StudySpace:
    """Read a study file, or a shipped study by its name; the scenario given varies instead of its own.

    Raises:
        SpecError: It is not there, is wrong, or asks for too many points; each problem with its place.
    """
    place = find(str(path), "study", ())
    return space_of(read_yaml(place, display_path(place)), place.parent, scenario)


def space_of(document: Document, folder: Path = Path(), scenario: str | None = None) -> StudySpace:
    """The points of a study that has been read, whose scenarios have paths from a folder.

    A scenario that varies instead of that of the study has its path from here.

    Raises:
        SpecError: As of `read_study`.
    """
    wrong = _Wrong(document)
    if not isinstance(document.data, dict) or document.data.get("kind") != "study":
        other = isinstance(document.data, dict) and document.data.get("kind") == "goal"
        do = "begin it with `kind: study` and `scenario: NAME`; `podsim run` simulates a scenario as it is"
        raise wrong.error(("kind",), "this is no study", "`podsim plan` takes goals" if other else do)
    if scenario is not None:
        places = {**document.places, (SCENARIO,): "--scenario"}
        document = replace(document, data={**document.data, SCENARIO: scenario}, places=places)
        folder, wrong = Path(), _Wrong(document)
    study = validated(StudySpec, document)
    if problems := list(_wrong_names(study, wrong)):
        raise SpecError(problems)
    space = StudySpace(study, (_scenarios(study, folder, document), *_axes(study, wrong)), document)
    if not (study.keys or study.names) and len(space) == 1:
        do = "give `keys` with lists or ranges; `podsim run` simulates one scenario"
        raise wrong.error(("keys",), "nothing varies in this study", do)
    if len(space) > MOST_POINTS:
        what = f"the study has {len(space):,} points; the limit is {MOST_POINTS:,}"
        raise wrong.error(("keys",), what, "give fewer values, or draw `samples`")
    return space


def located(name: str, folder: Path) -> str:
    """A path as seen from the file in which it stands; the name of a shipped scenario as it is."""
    beside = folder / name
    return str(beside) if beside.suffix and beside.is_file() else name


def _scenarios(study: StudySpec, folder: Path, document: Document) -> SweptAxis:
    names = [located(name, folder) for name in study.scenarios]
    for name in names:
        find(name, SCENARIO, (), document.where((SCENARIO,)), SCENARIO)
    if not study.all_variants:
        return SweptAxis((SCENARIO,), [names])
    pairs = [(name, variant) for name in names for variant in ("", *variant_names(name))]
    return SweptAxis((SCENARIO, VARIANT), [*zip(*pairs, strict=True)])
