"""How many rows that nothing is fitted to lie in the ranges that their predictions are given.

Each scenario is run as `podsim run --uncertainty` runs it; what rows are made of, such as the difference of two runs,
is made of each draw. Draws of one number share their inputs, so that what two runs have in common cancels. Times to
train take the samples that were logged: their spread from run to run is no doubt about the mean that is compared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from podsim.draws import Draws, percentiles
from podsim.errors import InfeasibleError
from podsim.metrics import OUTPUT_TOKEN, THROUGHPUT, TIME, TOKENS, UPDATE, metric_of
from podsim.result.influence import StandsOn
from podsim.result.uncertainty import DrawnRun, draw, drawing_of
from podsim.runs import run
from podsim.validation.compare import compared
from podsim.validation.comparison import NotRun, RowComparison
from podsim.validation.left_out import GROUPS, LeftOutPart, left_out, shipped
from podsim.validation.runs import WHOLE_RUNS
from podsim.watch import Watch
from podsim.workers import mapped

TARGET = (0.7, 0.9)
"""Share of rows that should lie in their middle 80 %: fewer, and ranges promise too much; more, and they say little."""
_PUBLISHED = "published"
"""Name of all groups of rows that are not MLPerf's."""
_TENTH = statistics.NormalDist().inv_cdf(0.9)
"""Standard deviations from the middle to the tenth and the nine tenths of a normal distribution."""
_Draws = Sequence[DrawnRun | None]


@dataclass(frozen=True, slots=True)
class PredictedRange:
    """A published figure and the middle 80 % of the predictions for it.

    Attributes:
        row: The comparison.
        low: What a tenth of the draws does not exceed.
        high: What nine tenths do not exceed.
        bare: Both without the error of the model itself, from uncertain inputs alone.
        draws: Draws in which every run of the row is possible.
    """

    row: RowComparison
    low: float
    high: float
    bare: tuple[float, float]
    draws: int

    @property
    def is_inside(self) -> bool:
        """True if the published figure lies in the range."""
        return self.low <= self.row.published <= self.high

    @property
    def is_inside_bare(self) -> bool:
        """True if it lies in the range from uncertain inputs alone."""
        low, high = self.bare
        return low <= self.row.published <= high

    @property
    def of_inputs(self) -> float:
        """Standard deviation that uncertain inputs give the prediction, as a share of it."""
        low, high = self.bare
        return math.log(high / low) / (2 * _TENTH) if 0 < low <= high else math.inf

    @property
    def is_beyond(self) -> bool | None:
        """True if the error is more than data and inputs together leave open; None if the data's share is not known."""
        return self.row.is_beyond(self.of_inputs)

    @property
    def beyond(self) -> float:
        """Published over the nearest end of the range, less one; 0 inside."""
        return self.row.published / min(max(self.row.published, self.low), self.high) - 1


@dataclass(frozen=True, slots=True)
class GroupShare:
    """How many rows lie in their ranges.

    Attributes:
        group: What is compared.
        rows: How many there are.
        inside: Of them, those inside.
        inside_bare: Those inside of what uncertain inputs alone give.
        beyond: Those whose errors are more than data and inputs together leave open.
    """

    group: str
    rows: int
    inside: int
    inside_bare: int
    beyond: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Ranges of all rows.

    Attributes:
        draws: How often inputs were drawn, and the seed.
        ranges: Every row with its range.
        left_out: Groups that were left out whole, with how many of each lie in ranges that were made without them.
        undrawn: Names of rows without a draw in which all their runs are possible.
    """

    draws: Draws
    ranges: tuple[PredictedRange, ...]
    left_out: tuple[LeftOutPart, ...] = ()
    undrawn: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[GroupShare, ...]:
        """The rows of each group."""
        names = dict.fromkeys(each.row.group for each in self.ranges)
        return tuple(_share(name, [each for each in self.ranges if each.row.group == name]) for name in names)

    @property
    def total(self) -> GroupShare:
        """All rows but averages of whole runs, which hold what no prediction does."""
        return _share("all but whole runs", [each for each in self.ranges if not each.row.group.startswith(WHOLE_RUNS)])

    @property
    def outside_mlperf(self) -> GroupShare:
        """The same without MLPerf, whose rows are many and whose runs constants were fitted to."""
        found = [
            r for r in self.ranges if not r.row.group.startswith(WHOLE_RUNS) and r.row.group.startswith(_PUBLISHED)
        ]
        return _share("of these, outside of MLPerf", found)


def _share(group: str, ranges: Sequence[PredictedRange]) -> GroupShare:
    inside, bare = (sum(flags) for flags in ([r.is_inside for r in ranges], [r.is_inside_bare for r in ranges]))
    return GroupShare(group, len(ranges), inside, bare, sum(each.is_beyond is True for each in ranges))


def coverage(comparisons: Sequence[RowComparison], draws: Draws, watch: Watch) -> Coverage:
    """Draw the scenarios of comparisons, on all cores.

    Args:
        comparisons: The rows; those without a scenario, such as products, are left out.
        draws: How often, and the seed.
        watch: Passes on the names of the scenarios.
    """
    rows = [row for row in comparisons if row.scenarios]
    found = draw_all(list(dict.fromkeys(title for row in rows for title in row.scenarios)), draws, watch)
    wanted = {(row.group, row.name) for row in rows}
    full, bare = (
        [_predicted(found, number, wanted, with_form=with_form) for number in range(draws.count)]
        for with_form in (True, False)
    )
    drawn = {key for made in full for key in made}
    ranges = tuple(_range(row, full, bare) for row in rows if (row.group, row.name) in drawn)
    undrawn = tuple(row.name for row in rows if (row.group, row.name) not in drawn)
    return Coverage(draws, ranges, left_out(shipped(), GROUPS), undrawn)


def draw_all(titles: Sequence[str], draws: Draws, watch: Watch) -> dict[str, _Draws]:
    """The draws of scenarios by title; a process draws all of one, so that its plans are made once.

    Args:
        titles: The scenarios, with `@` before a variant.
        draws: How often, and the seed.
        watch: Passes on the names of the scenarios.
    """
    drawn = chain.from_iterable(mapped(partial(_draws_of, draws=draws), titles))
    found = dict(each for _, each in zip(watch(titles), drawn, strict=True))
    return {title: found[title] for title in titles}


def _draws_of(title: str, draws: Draws) -> _Draws:
    name, _, variant = title.partition("@")
    stands_on = run(name, variant=variant or None).assumptions
    assert isinstance(stands_on, StandsOn)
    task = drawing_of(stands_on)
    return [draw(task, draws.seed, number) for number in range(draws.count)]


def _predicted(
    found: Mapping[str, _Draws], number: int, wanted: Iterable[tuple[str, str]], *, with_form: bool
) -> dict[tuple[str, str], float]:
    """Predictions of a draw for each row whose runs are possible in it."""
    rows: Iterator[RowComparison | NotRun] = compared(_OfDraw(found, number, with_form=with_form))
    made = {(row.group, row.name): row.predicted for row in rows if isinstance(row, RowComparison)}
    return {key: made[key] for key in wanted if key in made}


def _range(
    row: RowComparison, full: Sequence[Mapping[tuple[str, str], float]], bare: Sequence[Mapping[tuple[str, str], float]]
) -> PredictedRange:
    key = row.group, row.name
    ends = []
    for draws in (full, bare):
        ranked = percentiles([draw[key] for draw in draws if key in draw])
        ends.append((ranked["p10"], ranked["p90"]))
    (low, high), inner = ends
    return PredictedRange(row, low, high, inner, sum(key in draw for draw in full))


@dataclass(frozen=True, slots=True)
class _Figures:
    """Figures of one run in one draw, of whichever kind it is."""

    drawn: DrawnRun
    factor: float

    def _of(self, name: str) -> float:
        return metric_of(name).slowed(self.drawn.metrics[name], self.factor)

    @property
    def weight_update_s(self) -> float:
        """[s]."""
        return self._of(UPDATE)

    @property
    def throughput_samples_per_s(self) -> float:
        """[1/s]."""
        return self._of(THROUGHPUT)

    @property
    def time_to_train_s(self) -> float | None:
        """[s]."""
        return self._of(TIME) if TIME in self.drawn.metrics else None

    @property
    def run_breakdown(self) -> Mapping[str, float]:
        """[s]."""
        return {part: seconds * self.factor for part, seconds in self.drawn.parts.items()}

    @property
    def steps_per_s(self) -> float:
        """[1/s]."""
        return 1 / self._of(OUTPUT_TOKEN)

    @property
    def tokens_per_s(self) -> float:
        """[1/s]."""
        return self._of(TOKENS)


class _OfDraw:
    """All runs of one draw."""

    def __init__(self, found: Mapping[str, _Draws], number: int, *, with_form: bool) -> None:
        self._found, self._number, self._with_form = found, number, with_form

    def training(self, title: str) -> _Figures:
        """The figures of a run; an `InfeasibleError` if it is impossible with these inputs, or was not drawn."""
        drawn = self._found[title][self._number] if title in self._found else None
        if drawn is None:
            raise InfeasibleError(f"{title} has no run in draw {self._number}", do="draw more often")
        return _Figures(drawn, drawn.factor if self._with_form else 1.0)

    generation = forward = training


def far_outside(found: Coverage) -> tuple[PredictedRange, ...]:
    """Rows outside of their ranges, the furthest first."""
    outside = [each for each in found.ranges if not each.is_inside]
    return tuple(sorted(outside, key=lambda each: -abs(math.log1p(each.beyond) if each.beyond > -1 else math.inf)))
