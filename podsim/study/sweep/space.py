"""All points of a study, each by its number: what is given to the simulator, and why a point is left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from podsim.errors import BadValueError, Problem, SpecError
from podsim.scenario import variant_names
from podsim.scenario.document import Document, KeyPath
from podsim.scenario.library import display_path, find
from podsim.scenario.load import validated
from podsim.scenario.yaml_file import read_yaml
from podsim.study.sweep.axes import AxisError, SweptAxis, axes_of
from podsim.study.sweep.expression import Expression, filled_in, key_named
from podsim.study.sweep.names import SCENARIO, VARIANT, wrong_names
from podsim.study.sweep.spec import MOST_POINTS, StudySpec, Value


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of values, by its place among all of the study.

    Attributes:
        values: Values by key and name, those that are derived last.
        keys: Those of them that are keys of the scenario.
        problem: Why it cannot be simulated, if an expression has no value at it.
    """

    number: int
    scenario: str
    variant: str | None
    values: Mapping[str, Value]
    keys: tuple[str, ...]
    problem: Problem | None = None

    @property
    def overrides(self) -> tuple[str, ...]:
        """As `--set` takes them."""
        values = ((key, self.values[key]) for key in self.keys)
        return tuple(f"{key}={str(each).lower() if isinstance(each, bool) else each}" for key, each in values)


@dataclass(frozen=True)
class StudySpace:
    """The points of a study.

    Attributes:
        study: The study.
        axes: What is crossed; the last varies fastest.
        document: The file of the study, for the places of what is wrong.
    """

    study: StudySpec
    axes: tuple[SweptAxis, ...]
    document: Document = field(default_factory=lambda: Document({}))

    def __len__(self) -> int:
        """How many combinations there are, those included that `where` leaves out."""
        return math.prod(len(axis.values) for axis in self.axes)

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
    def _conditions(self) -> tuple[tuple[int, Expression, bool], ...]:
        """Place, expression and whether it needs what is derived, of each condition."""
        derived, keys = self.study.derived, dict.fromkeys(self.keys)
        found = ((place, Expression(text)) for place, text in enumerate(self.study.where))
        return tuple(
            (place, each, any(key_named(name, keys) in derived for name in each.names)) for place, each in found
        )

    def point(self, number: int) -> Point | None:
        """A combination by its number; None if `where` leaves it out."""
        values: dict[str, Value] = {}
        rest = number
        for axis in reversed(self.axes):
            rest, place = divmod(rest, len(axis.values))
            values.update(zip(axis.keys, axis.values[place], strict=True))
        scenario, variant = str(values.pop(SCENARIO)), values.pop(VARIANT, None)
        ordered = {key: values[key] for key in self.keys if key in values}
        path: tuple[str | int, ...] = ()
        problem: Problem | None = None
        try:
            # Conditions that need nothing derived come first, and keep points from a division by zero.
            for late in (False, True):
                for place, condition, needs_derived in self._conditions:
                    path = ("where", place)
                    if needs_derived == late and not _holds(condition, ordered):
                        return None
                for key, text in () if late else self.study.derived.items():
                    path = ("derived", key)
                    ordered[key] = filled_in(text, ordered)
        except BadValueError as error:
            problem = Problem(self.document.where(path), ".".join(map(str, path)), str(error), error.do)
        keys = tuple(key for key in self.keys if key not in self.study.names)
        return Point(number, scenario, str(variant) if variant else None, ordered, keys, problem)

    def numbers(self) -> Iterable[int]:
        """The numbers of all points that `where` lets through."""
        return (point.number for point in self.points()) if self.study.where else range(len(self))

    def points(self) -> Iterator[Point]:
        """All points that `where` lets through."""
        found = map(self.point, range(len(self)))
        return (each for each in found if each is not None)


def _holds(condition: Expression, values: Mapping[str, Value]) -> bool:
    holds = condition.value(values)
    if isinstance(holds, str):
        what = f"`{condition.text}` is a text, which neither holds nor fails"
        raise BadValueError(what, "compare it with something")
    return bool(holds)


def read_study(path: str | Path, scenario: str | None = None) -> StudySpace:
    """Read a study file, or a shipped study by its name.

    Args:
        path: The file, or the name.
        scenario: Path or name of the scenario that varies, instead of that of the study.

    Raises:
        SpecError: It is not there, is wrong, or asks for too many points; each problem with its place.
    """
    place = find(str(path), "study", ())
    return space_of(read_yaml(place, display_path(place)), place.parent, scenario)


def space_of(document: Document, folder: Path = Path(), scenario: str | None = None) -> StudySpace:
    """The points of a study that has been read.

    Args:
        document: The study.
        folder: Where scenarios are looked up by relative paths.
        scenario: The scenario that varies, instead of that of the study; a relative path is one from here.

    Raises:
        SpecError: As of `read_study`.
    """
    if not isinstance(document.data, dict) or document.data.get("kind") != "study":
        other = isinstance(document.data, dict) and document.data.get("kind") == "goal"
        do = "begin it with `kind: study` and `scenario: NAME`; `podsim run` simulates a scenario as it is"
        do = "`podsim plan` takes goals" if other else do
        raise _wrong(document, ("kind",), "this is no study", do)
    if scenario is not None:
        places = {**document.places, (SCENARIO,): "--scenario"}
        document = replace(document, data={**document.data, SCENARIO: scenario}, places=places)
        folder = Path()
    study = validated(StudySpec, document)
    if problems := list(wrong_names(study, document)):
        raise SpecError(problems)
    try:
        space = StudySpace(study, (*_scenarios(study, folder, document), *axes_of(study)), document)
    except AxisError as error:
        raise _wrong(document, error.path, str(error), error.do) from None
    if not (study.keys or study.names) and len(space) == 1:
        do = "give `keys` with lists or ranges; `podsim run` simulates one scenario"
        raise _wrong(document, ("keys",), "nothing varies in this study", do)
    if len(space) > MOST_POINTS:
        what = f"the study has {len(space):,} points; the limit is {MOST_POINTS:,}"
        raise _wrong(document, ("keys",), what, "give fewer values, or draw `samples`")
    return space


def _wrong(document: Document, path: KeyPath, what: str, do: str) -> SpecError:
    return SpecError([Problem(document.where(path), ".".join(map(str, path)), what, do)])


def _scenarios(study: StudySpec, folder: Path, document: Document) -> Iterator[SweptAxis]:
    names = [study.scenario] if isinstance(study.scenario, str) else study.scenario
    beside = [folder / name for name in names]  # a path is one from the file of the study
    found = [str(path) if path.suffix and path.is_file() else name for path, name in zip(beside, names, strict=True)]
    for name in found:
        find(name, SCENARIO, (), document.where((SCENARIO,)), SCENARIO)
    if not study.all_variants:
        yield SweptAxis((SCENARIO,), [(each,) for each in found])
        return
    pairs = [(each, variant) for each in found for variant in ("", *variant_names(each))]
    yield SweptAxis((SCENARIO, VARIANT), pairs)
