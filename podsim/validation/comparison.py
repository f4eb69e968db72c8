"""Comparisons of predictions with published figures, figures without a prediction, and errors of groups."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final

from podsim.result.evidence import dimensions_of, framework_of
from podsim.scenario import load_scenario
from podsim.scenario.quantity import LEVELS, Level
from podsim.scenario.scenario import Scenario

WHOLE_RUNS: Final = "published averages of whole runs"
"""Group of averages over whole programs, with compilation, data loading, logging and evaluation."""
BEYOND: Final = 2
"""Standard deviations of data and inputs that explain an error; a larger one is an error of the model."""


@dataclass(frozen=True, slots=True)
class Blind:
    """A prediction by an earlier version of a figure that nobody who built it had seen; never computed again."""

    row: str  # name of the row at the time of the prediction
    predicted: float
    described_as: str  # how the run was described; the shipped scenario may say it otherwise
    version: str  # the version that made it


@dataclass(frozen=True, slots=True)
class RowComparison:
    """A prediction and the figure it is held against."""

    group: str  # what is compared, for example `BERT weight update`
    name: str  # the row, for example a scenario
    predicted: float
    published: float
    unit: str
    role: str  # `calibration` or `hold-out`
    source: str  # where the published figure comes from
    blind: tuple[Blind, ...] = ()  # predictions of earlier versions, made before the figure was known
    scenarios: tuple[str, ...] = ()  # simulated scenarios; empty for a vertex or a product
    uncertainty: float | None = None  # standard deviation of the published figure
    configuration: str = ""  # equal for rows that run the same

    @property
    def error(self) -> float:
        """Predicted / published - 1."""
        return self.predicted / self.published - 1

    def is_beyond(self, of_inputs: float = 0.0) -> bool | None:
        """Return True if the error exceeds the uncertainty of measurement and inputs, as in ASME V&V 20.

        >>> RowComparison("group", "row", 103.0, 100.0, "ms", "hold-out", "logs", uncertainty=0.01).is_beyond()
        True
        >>> RowComparison("group", "row", 103.0, 100.0, "ms", "hold-out", "logs", uncertainty=0.01).is_beyond(0.02)
        False
        """
        if self.uncertainty is None:
            return None
        return abs(self.error) > BEYOND * math.hypot(self.uncertainty, of_inputs)


@dataclass(frozen=True, slots=True)
class NotRun:
    """A published figure that nothing is held against."""

    group: str  # what would be compared
    name: str
    published: float
    unit: str
    role: str  # `calibration` or `hold-out`
    source: str  # where it comes from
    reason: str  # why there is no prediction
    blind: tuple[Blind, ...] = ()  # predictions of earlier versions, made before the figure was known
    scenarios: tuple[str, ...] = ()  # what would be simulated for it
    uncertainty: float | None = None  # standard deviation of the published figure


@dataclass(frozen=True, slots=True)
class Validation:
    """Published figures, with and without predictions."""

    comparisons: tuple[RowComparison, ...]  # rows with a prediction
    not_run: tuple[NotRun, ...]

    @property
    def rows(self) -> tuple[RowComparison | NotRun, ...]:
        """Rows with a prediction, then rows without."""
        return (*self.comparisons, *self.not_run)

    def only(self, role: str | None = None, groups: Sequence[str] = ()) -> Validation:
        """Return rows of one role, and of groups whose name contains one of the texts; all by default."""
        texts = [text.casefold() for text in groups]

        def matches(row: RowComparison | NotRun) -> bool:
            of_group = not texts or any(text in row.group.casefold() for text in texts)
            return of_group and (role is None or row.role == role)

        return Validation(tuple(filter(matches, self.comparisons)), tuple(filter(matches, self.not_run)))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of errors."""

    bias: float  # mean of the signed errors
    mean: float  # mean of the absolute errors
    rms: float  # root of the mean square of the errors
    worst: float  # the largest absolute error, with its sign


_LEVEL_OF: Final[Mapping[str, Level]] = {
    "AMP vertex": "kernel",
    "GEMM": "operation",
    "Mk1 convolution": "operation",
    "Mk1 product": "operation",
    "C600 operation": "operation",
    "Mk1 transfer": "collective",
    "Mk1 collective": "collective",
    "Bow gather": "operation",
    "Bow scatter-add": "operation",
    "Bow SchNet block": "operation",
    "time to train": "run",
    "averages of whole runs": "run",
    "effect": "run",
    "scaling": "run",
    "ratios": "run",
}
"""Levels by part of the name of a group; the default is `update or pass`."""


def level_of(group: str) -> Level:
    """Return the level of evidence of a group of comparisons.

    >>> level_of("GEMM fp16"), level_of("BERT weight update"), level_of("published effect of more IPUs")
    ('operation', 'update or pass', 'run')
    """
    return next((level for part, level in _LEVEL_OF.items() if part in group), "update or pass")


def sizes_of(errors: Sequence[float]) -> Sizes:
    """Return the sizes of one error or more.

    >>> sizes_of([0.03, -0.04])
    Sizes(bias=-0.005000000000000001, mean=0.035, rms=0.035355339059327376, worst=-0.04)
    """
    return Sizes(
        bias=math.fsum(errors) / len(errors),
        mean=math.fsum(map(abs, errors)) / len(errors),
        rms=math.sqrt(math.fsum(error**2 for error in errors) / len(errors)),
        worst=max(errors, key=abs),
    )


@dataclass(frozen=True, slots=True)
class Summary(Sizes):
    """Errors of a group."""

    level: Level
    group: str
    role: str  # `calibration` or `hold-out`
    count: int
    configurations: int  # distinct configurations among them
    beyond: int  # comparisons whose errors exceed twice the uncertainty of the measurement


def summarize(comparisons: Sequence[RowComparison]) -> tuple[Summary, ...]:
    """Return one summary per group and role, from the lowest level of evidence to the highest."""
    groups: dict[tuple[str, str], list[RowComparison]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison.group, comparison.role), []).append(comparison)
    found = (_summary(level_of(group), group, role, rows) for (group, role), rows in groups.items())
    return tuple(sorted(found, key=lambda each: LEVELS.index(each.level)))


def by_level(comparisons: Sequence[RowComparison]) -> tuple[Summary, ...]:
    """Return one summary per level of evidence and role, without averages of whole runs."""
    rows: dict[tuple[Level, str], list[RowComparison]] = {}
    for row in comparisons:
        if row.group != WHOLE_RUNS:
            rows.setdefault((level_of(row.group), row.role), []).append(row)
    found = (_summary(level, "all", role, same) for (level, role), same in rows.items())
    return tuple(sorted(found, key=lambda each: LEVELS.index(each.level)))


def _summary(level: Level, group: str, role: str, rows: Sequence[RowComparison]) -> Summary:
    return Summary(
        level=level,
        group=group,
        role=role,
        count=len(rows),
        configurations=len({row.configuration or row.name for row in rows}),
        beyond=sum(row.is_beyond() is True for row in rows),
        **asdict(sizes_of([row.error for row in rows])),
    )


_WORDS: Final = frozenset({"basis", "description", "level", "name", "note", "range", "source"})
"""Keys that times do not depend on."""
_OF_A_RUN: Final = frozenset({"samples_to_converge"})
"""Keys of a run's outcome: two submissions of one configuration converge differently."""


def loaded(title: str) -> Scenario:
    """Return the scenario of a title, with `@` before a variant."""
    name, _, variant = title.partition("@")
    return load_scenario(name, variant or None).spec


@cache
def same_runs(titles: tuple[str, ...]) -> dict[str, str]:
    """Return the first title with the same run, by title."""
    firsts: dict[str, str] = {}
    return {title: firsts.setdefault(configuration(loaded(title), _OF_A_RUN), title) for title in titles}


def configuration(spec: Scenario, without: Collection[str] = ()) -> str:
    """Return all values that times depend on, as a text."""
    return repr(_without(spec.model_dump(mode="json", exclude_none=True), _WORDS | frozenset(without)))


_ADDRESS: Final = re.compile(r"https?://(?:www\.)?([^/ ]+(?:/[^/ ]+){0,2})")
_ROUND: Final = re.compile(r"_(v\d\.\d)_")


def origin_of(row: RowComparison | NotRun) -> str:
    """Return where a figure was published: an MLPerf round, or host, owner and project of an address.

    >>> row = RowComparison("g", "ALCF-001", 1.0, 1.0, "s", "hold-out", "https://github.com/owner/project/blob/page.md")
    >>> origin_of(row)
    'github.com/owner/project'
    """
    if address := _ADDRESS.search(row.source):
        return address[1]
    logged = _ROUND.search(row.name)
    return f"MLPerf {logged[1]}" if logged else row.source


def evidence(spec: Scenario) -> str:
    """Return a text that is equal for two runs that are not independent evidence.

    Runs of MLPerf's closed and open division have the same text, and so have runs with different loaders.
    """
    size = "-".join(str(number) for number in dimensions_of(spec).values())
    weights = getattr(getattr(spec, "precision", None), "weights", None) or "fp16"
    stack = f"{framework_of(spec.software.framework)} {spec.software.sdk}"
    return f"{stack} {spec.model.kind} {size} {weights} {spec.system.machine.ipu.name}"


def _without(data: Any, keys: Collection[str]) -> Any:
    if isinstance(data, dict):
        return {key: _without(each, keys) for key, each in data.items() if key not in keys}
    return [_without(each, keys) for each in data] if isinstance(data, list) else data


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """A limit, and the error that it is held against."""

    what: str  # `mean error` or `worst error`
    value: float  # mean absolute error, or the largest error with its sign
    limit: float  # largest allowed absolute value
    rows: str  # rows that it refers to

    @property
    def is_kept(self) -> bool:
        """True if the error is within the limit."""
        return abs(self.value) <= self.limit

    def __str__(self) -> str:
        """Return one line of text."""
        value = f"{self.value:+.1%}" if self.what == "worst error" else f"{self.value:.1%}"
        verdict = "within" if self.is_kept else "beyond"
        return f"{self.what} {value} ({self.rows}): {verdict} {100 * self.limit:g}%"


def verdicts_on(rows: Sequence[RowComparison], mean: float | None, worst: float | None) -> tuple[LimitVerdict, ...]:
    """Return the verdicts on the errors of all rows together."""
    found = []
    if mean is not None:
        average = math.fsum(abs(row.error) for row in rows) / len(rows)
        found.append(LimitVerdict("mean error", average, mean, f"{len(rows)} rows"))
    if worst is not None:
        largest = max(rows, key=lambda row: abs(row.error))
        found.append(LimitVerdict("worst error", largest.error, worst, f"{largest.group}, {largest.name}"))
    return tuple(found)
