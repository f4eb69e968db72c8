"""A whole study: what is left to do, where it is done, and the table that it ends in."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podsim._version import __version__
from podsim.disk import digest, simulator
from podsim.errors import OutputError, Problem, SpecError
from podsim.many.store import STATUS, Row, Store
from podsim.many.sweeps.names import SCENARIO
from podsim.many.sweeps.rows import DONE, RowMaker
from podsim.many.sweeps.space import StudySpace, read_study, space_of
from podsim.many.sweeps.table import CSV, about_file, check_suffix, fingerprint_of, read_rows, typed, write_table
from podsim.memo import files_held
from podsim.report.chart import Sheet
from podsim.report.table import Passage
from podsim.result.files import check_outputs, check_writable, files_read
from podsim.scenario import load_scenario
from podsim.scenario.document import Document, plain_data
from podsim.scenario.library import find
from podsim.show.answers import Answered, figure_of_sheet
from podsim.show.html_page import to_html
from podsim.watch import Tell, telling

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_FEW_POINTS = 24
"""What processes need to start is worth so many points."""
_MANY_POINTS = 100_000
"""Conditions of as many take seconds."""


@dataclass(frozen=True, repr=False)
class Swept(Answered):
    """A study that has ended.

    Attributes:
        space: Its points.
        output: Its table; None where the rows are kept in memory alone.
        count: Rows.
        by_status: Rows by what became of them.
        inputs: (path, SHA-256) of every file read.
        simulated: Whether anything had to be; not if the table held the study already.
        kept: The rows, where there is no table.
    """

    space: StudySpace
    output: Path | None
    count: int
    by_status: Mapping[str, int]
    inputs: tuple[tuple[str, str], ...]
    simulated: bool = True
    kept: Sequence[Row] = ()

    def rows(self) -> Iterator[Row]:
        """The rows of the table, one by one."""
        return iter(self.kept) if self.output is None else read_rows(self.output)

    def to_frame(self) -> DataFrame:
        """The table, one row per point, with the units of its columns in `attrs["unit"]`."""
        from podsim.result.frames import frame_of, frame_of_file

        return frame_of(self.kept) if self.output is None else frame_of_file(self.output)

    def plot(self, metric: str | None = None) -> Figure:
        """The chart of `--plot`, as a figure of matplotlib, which a notebook shows.

        Args:
            metric: The column that counts; samples or tokens per second by default.

        Raises:
            PodsimError: No point has that figure, or nothing varies.
        """
        return figure_of_sheet(self._sheet(metric))

    def _sheet(self, metric: str | None = None) -> Sheet:
        from podsim.many.sweeps.plot import study_sheet

        return study_sheet(self, metric)

    @property
    def summary(self) -> str:
        """How many points there are, and what became of them."""
        parts = ", ".join(f"{count:,} {status_words(status, count)}" for status, count in self.by_status.items())
        return f"{self.count:,} point{'s' * (self.count != 1)}: {parts}"

    def _told(self) -> Iterator[str]:
        from podsim.many.sweeps.answer import answer, best_and_worst

        yield self.summary
        yield from best_and_worst(answer(self))

    def _repr_html_(self) -> str:
        """What the terminal prints, for notebooks."""
        from podsim.many.sweeps.answer import answer, answer_tables

        return "".join(map(to_html, (Passage(self.summary), *answer_tables(answer(self)))))

    def _records(self) -> list[Row]:
        return list(self.rows())


def sweep(
    study: str | Path | Mapping[str, Any],
    output: str | Path | None = None,
    *,
    scenario: str | None = None,
    processes: int | None = None,
    scheduler: str | None = None,
    restart: bool = False,
    ranges: bool = False,
    tell: Tell | None = None,
    look: Callable[[int], None] = lambda _count: None,
) -> Swept:
    """Simulate every point of a study, and write the table of them all if a file is named for it.

    Rows are kept beside that table as they come. A study that was ended at any moment goes on where it
    stopped when the same call is made again. Without a table they are kept in memory.

    Args:
        study: A study file, the name of a shipped study, or the content of one.
        output: The table, a `.parquet` or `.csv` file; none if left out.
        scenario: Path or name of the scenario that varies, instead of that of the study.
        processes: How many points are simulated at a time; as many as there are cores by default.
        scheduler: Address of a Dask scheduler, to simulate on its workers instead.
        restart: Drop rows of an earlier attempt, and a table that is there already.
        ranges: Give figures that have a range the columns `<figure>_low` and `<figure>_high`: between them lie 80 %
            of what they may be. Takes about ten times as long.
        tell: Is told of progress; a line in a notebook shows it if left out.
        look: Is told of how many combinations conditions are looked at, where that takes long.

    Raises:
        SpecError: The study or its scenario is wrong.
        OutputError: The table or the rows beside it cannot be written, or belong to something else.
    """
    if output is not None:
        check_suffix(Path(output))
        check_writable(Path(output))
    space = _space(study, scenario)
    if space.study.where and len(space) > _MANY_POINTS:
        look(len(space))
    numbers = array("q", space.numbers())
    _check_runs(space, numbers)
    inputs = _inputs(space)
    with telling(tell, "points") as told, files_held():
        filling = _Filling(RowMaker(space, ranges), numbers, told, processes, scheduler)
        if output is None:
            with Store() as store:
                filling.fill(store)
                return Swept(space, None, len(numbers), _done_first(store.statuses()), inputs, True, typed(store.rows))
        return _written(space, study, Path(output), numbers, inputs, filling, restart=restart)


@dataclass(frozen=True, slots=True)
class _Filling:
    """How the rows of a study are made."""

    make: RowMaker
    numbers: Sequence[int]
    tell: Tell
    processes: int | None
    scheduler: str | None

    def fill(self, store: Store) -> None:
        how: dict[str, Any] = {"processes": self.processes, "scheduler": self.scheduler}
        store.fill(self.make, self.numbers, self.tell, **how, few=_FEW_POINTS, lead=1)


def _written(
    space: StudySpace,
    study: str | Path | Mapping[str, Any],
    target: Path,
    numbers: Sequence[int],
    inputs: tuple[tuple[str, str], ...],
    filling: _Filling,
    *,
    restart: bool,
) -> Swept:
    """The study with its table, which is written unless it is there already."""
    fingerprint = _fingerprint(space, inputs, ranges=filling.make.ranges)
    beside = target.with_name(f"{target.name}.journal")
    read = [] if isinstance(study, Mapping) else [("the study", find(str(study), "study", ()))]
    written = {"table": target, "rows beside the table": beside}
    if target.suffix == CSV:
        written["description of the table"] = about_file(target)
        check_writable(about_file(target))
    check_outputs(written, (*read, *files_read(inputs)))
    if target.exists() and not restart and not beside.exists():
        if fingerprint_of(target) == fingerprint:
            by_status = _done_first(Counter(str(row[STATUS]) for row in read_rows(target)))
            return Swept(space, target, len(numbers), by_status, inputs, simulated=False)
        what, do = "the table exists, and is not known to be of this study", "give another --output, or --restart"
        raise OutputError(what, where=str(target), do=do)
    with Store(beside, fingerprint, option="give another --output, or --restart", anew=restart) as store:
        filling.fill(store)
        about = {"version": __version__, "fingerprint": fingerprint, "inputs": json.dumps(inputs)}
        write_table(target, store.rows, about)
        by_status = _done_first(store.statuses())
        store.remove()
    return Swept(space, target, len(numbers), by_status, inputs)


def _space(study: str | Path | Mapping[str, Any], scenario: str | None) -> StudySpace:
    if isinstance(study, Mapping):
        return space_of(Document(plain_data(study)), scenario=scenario)
    return read_study(study, scenario)


def _check_runs(space: StudySpace, numbers: Sequence[int]) -> None:
    """Refuse a study of which no point is let through, or none of the first can be loaded."""
    if not numbers:
        what, place = f"`where` leaves out all of {len(space):,} points", space.document.where(("where",))
        raise SpecError([Problem(place, "where", what, "loosen a condition")])
    first: SpecError | None = None
    for number in numbers[:_FEW_POINTS]:
        point = space.point(number)
        assert point is not None
        try:
            if point.problem is not None:
                raise SpecError([point.problem])
            load_scenario(point.scenario, point.variant, point.overrides)
        except SpecError as error:
            first = first or _in_study(error, space.document)
        else:
            return
    assert first is not None
    raise first


def _in_study(error: SpecError, document: Document) -> SpecError:
    """An error with the places of the keys in the study, where they are known, instead of those of `--set`."""
    return SpecError([replace(each, where=_place(each.where, document)) for each in error.problems])


def _place(where: str, document: Document) -> str:
    given = where.removeprefix("--set ").partition("=")[0] if where.startswith("--set ") else None
    sections = (section for section in ("keys", "derived") if given in (document.at((section,)) or {}))
    found = next((document.where((section, str(given))) for section in sections), "")
    return found or where


def _inputs(space: StudySpace) -> tuple[tuple[str, str], ...]:
    """Every file that the scenarios of a study read."""
    names = next(axis for axis in space.axes if SCENARIO in axis.keys)
    found = (load_scenario(str(values[0])).inputs for values in names.values)
    return tuple(dict.fromkeys(each for inputs in found for each in inputs))


def _fingerprint(space: StudySpace, inputs: Iterable[tuple[str, str]], *, ranges: bool) -> str:
    """Of all that rows depend on: the study, the files it reads, and the code that simulates."""
    study = space.study.model_dump_json().encode()
    return digest(
        [simulator().encode(), study, b"with ranges" * ranges, *(f"{path} {sha}".encode() for path, sha in inputs)]
    )


_PLURALS = {"does not fit": "do not fit"}


def status_words(status: str, count: int) -> str:
    """What became of points, behind their number."""
    return status if count == 1 else _PLURALS.get(status, status)


def _done_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (item[0] != DONE, item[0])))
