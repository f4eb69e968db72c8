"""All points of a study, each by its number: what is given to the simulator, and why a point is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from podsim.errors import BadValueError, Problem, SpecError
from podsim.specs import variant_names
from podsim.specs.document import Document
from podsim.specs.problems import problems_of
from podsim.specs.yaml_source import read_yaml
from podsim.sweeps.axes import Axis, axes_of
from podsim.sweeps.expression import Expression, expressions_in, filled_in, known_name
from podsim.sweeps.spec import StudySpec, Value

MOST_POINTS: Final = 10_000_000
SCENARIO, VARIANT = "scenario", "variant"


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of values.

    Attributes:
        number: Its place among all of the study.
        scenario: The scenario that varies.
        variant: Its variant.
        values: Values by key and name, those that are derived last.
        keys: Those of them that are keys of the scenario.
    """

    number: int
    scenario: str
    variant: str | None
    values: Mapping[str, Value]
    keys: tuple[str, ...]

    @property
    def overrides(self) -> tuple[str, ...]:
        """As `--set` takes them."""
        return tuple(f"{key}={_written(self.values[key])}" for key in self.keys)


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Space:
    """The points of a study.

    Attributes:
        study: The study.
        axes: What is crossed; the last varies fastest.
        folder: Where scenarios are looked up by relative paths.
    """

    study: StudySpec
    axes: tuple[Axis, ...]
    folder: Path = Path()

    def __len__(self) -> int:
        """How many combinations there are, those included that `where` leaves out."""
        return math.prod(len(axis.values) for axis in self.axes)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Columns of the table: keys and names in the order of the file, those that are derived last."""
        return tuple(dict.fromkeys((*self.study.keys, *self.study.names, *self.study.derived)))

    @cached_property
    def _conditions(self) -> tuple[Expression, ...]:
        return tuple(Expression(text) for text in self.study.where)

    def point(self, number: int) -> Point | None:
        """A combination by its number; None if `where` leaves it out.

        Raises:
            BadValueError: An expression has no value there.
        """
        values: dict[str, Value] = {}
        rest = number
        for axis in reversed(self.axes):
            rest, place = divmod(rest, len(axis.values))
            values.update(zip(axis.keys, axis.values[place], strict=True))
        scenario, variant = str(values.pop(SCENARIO)), values.pop(VARIANT, None)
        ordered = {key: values[key] for key in self.keys if key in values}
        for key, text in self.study.derived.items():
            ordered[key] = filled_in(text, ordered)
        if not all(each.value(ordered) for each in self._conditions):
            return None
        keys = tuple(key for key in self.keys if key not in self.study.names)
        return Point(number, scenario, str(variant) if variant else None, ordered, keys)

    def points(self) -> Iterator[Point]:
        """All points that `where` lets through."""
        found = map(self.point, range(len(self)))
        return (each for each in found if each is not None)


def read_study(path: str | Path) -> Space:
    """Read a study file.

    Raises:
        SpecError: It is wrong, or asks for too many points; each problem with its place.
    """
    place = Path(path)
    return space_of(read_yaml(place, str(path)), place.parent)


def space_of(document: Document, folder: Path = Path()) -> Space:
    """The points of a study that has been read.

    Raises:
        SpecError: As of `read_study`.
    """
    try:
        study = StudySpec.model_validate(document.data)
    except ValidationError as error:
        raise SpecError(list(problems_of(error, document, StudySpec))) from None
    problems = list(_unknown_names(study, document))
    if problems:
        raise SpecError(problems)
    try:
        space = Space(study, (*_scenarios(study, folder), *axes_of(study)), folder)
    except BadValueError as error:
        raise SpecError([Problem(document.where(()), "", str(error), error.do)]) from None
    if len(space) > MOST_POINTS:
        what = f"the study has {len(space):,} points; the limit is {MOST_POINTS:,}"
        raise SpecError([Problem(document.where(("keys",)), "keys", what, "give fewer values, or draw `samples`")])
    return space


def _scenarios(study: StudySpec, folder: Path) -> Iterator[Axis]:
    names = [study.scenario] if isinstance(study.scenario, str) else study.scenario
    found = [_located(name, folder) for name in names]
    if not study.all_variants:
        yield Axis((SCENARIO,), [(each,) for each in found])
        return
    pairs = [(each, variant) for each in found for variant in ("", *variant_names(each))]
    yield Axis((SCENARIO, VARIANT), pairs)


def _located(name: str, folder: Path) -> str:
    """A path as seen from the file of the study; the name of a shipped scenario as it is."""
    beside = folder / name
    return str(beside) if Path(name).suffix and beside.is_file() else name


def _unknown_names(study: StudySpec, document: Document) -> Iterator[Problem]:
    """Expressions that are none, or use names that nothing gives a value."""
    known: dict[str, object] = dict.fromkeys((*study.keys, *study.names))
    for key, text in study.derived.items():
        yield from _wrong(text, ("derived", key), known, document, whole=False)
        known[key] = None
    for number, text in enumerate(study.where):
        yield from _wrong(text, ("where", number), known, document, whole=True)


def _wrong(
    text: str, path: tuple[str | int, ...], known: Mapping[str, object], document: Document, *, whole: bool
) -> Iterator[Problem]:
    place, key = document.where(path), ".".join(map(str, path))
    try:
        expressions = (Expression(text),) if whole else expressions_in(text)
    except BadValueError as error:
        yield Problem(place, key, str(error), error.do)
        return
    for name in sorted(name for each in expressions for name in each.names if not known_name(name, known)):
        close = f"use one of: {', '.join(known)}" if known else "give it values under `keys` or `names`"
        yield Problem(place, key, f"`{name}` is no key of this study, or of several the last part", close)
