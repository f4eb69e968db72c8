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
from podsim.errors import OutputError, PodsimError, Problem, SpecError
from podsim.memo import files_held
from podsim.report.chart import Sheet
from podsim.report.report import Report
from podsim.result.files import check_outputs, check_writable, files_read
from podsim.scenario import load_scenario
from podsim.scenario.document import Document, plain_data
from podsim.scenario.library import find
from podsim.show.answers import Answered, figure_of_sheet
from podsim.study.store import STATUS, Row, Store
from podsim.study.sweep.names import SCENARIO
from podsim.study.sweep.report import counts_told, study_report
from podsim.study.sweep.rows import DONE, RowMaker
from podsim.study.sweep.space import StudySpace, read_study, space_of
from podsim.study.sweep.table import CSV, about_file, check_suffix, fingerprint_of, read_rows, typed, write_table
from podsim.watch import Tell, telling

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_FEW_POINTS = 24
"""What processes need to start is worth so many points."""
_MANY_POINTS = 100_000
"""Conditions of as many take seconds."""


@dataclass(frozen=True, repr=False)
class SweepResult(Answered):
    """A study that has ended.

    Attributes:
        space: Its points.
        output: Its table; None where the rows are kept in memory alone.
        by_status: Rows by what became of them.
        inputs: (path, SHA-256) of every file read.
        simulated: Whether anything had to be; not if the table held the study already.
        kept: The rows, where there is no table.
    """

    space: StudySpace
    output: Path | None
    by_status: Mapping[str, int]
    inputs: tuple[tuple[str, str], ...]
    simulated: bool = True
    kept: Sequence[Row] = ()

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(self.by_status.values())

    @property
    def summary(self) -> str:
        """How many points there are, and what became of them."""
        return counts_told(self.by_status)

    def rows(self) -> Iterator[Row]:
        """The rows of the table, one by one."""
        return iter(self.kept) if self.output is None else read_rows(self.output)

    def to_frame(self) -> DataFrame:
        """The table, one row per point, with the units of its columns in `attrs["unit"]`."""
        from podsim.show.frames import frame_of, frame_of_file

        return frame_of(self.kept) if self.output is None else frame_of_file(self.output)

    def report(self, metric: str | None = None) -> Report:
        """The answer as data: the best points, a chart over the keys that vary, and what could not be simulated.

        Args:
            metric: The column that counts; samples or tokens per second by default.

        Raises:
            PodsimError: No point has that figure.
        """
        return study_report(self.space, self.rows(), self.by_status, self.inputs, metric)

    def plot(self, metric: str | None = None) -> Figure:
        """The chart of `--plot`, as a figure of matplotlib, which a notebook shows.

        Args:
            metric: The column that counts; samples or tokens per second by default.

        Raises:
            PodsimError: No point has that figure, or nothing varies.
        """
        return figure_of_sheet(sheet_of(self, self.report(metric)))

    def _told(self) -> Iterator[str]:
        yield self.summary
        yield from self.report().verdict

    def _records(self) -> list[Row]:
        return list(self.rows())


def sheet_of(swept: SweepResult, report: Report) -> Sheet:
    """The chart of `--plot`.

    Raises:
        PodsimError: There is nothing to draw.
    """
    if DONE not in swept.by_status:
        raise PodsimError("no point of this study has figures to draw", do="read the column `reason` of the table")
    if not (sheet := report.sheet()).rows:
        raise PodsimError("no key of this study varies", do="give one of its keys two values or more")
    return sheet


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
) -> SweepResult:
    """Simulate every point of a study, and write the table of them all if a file is named for it.

    Rows are kept beside that table as they come. A study that was ended at any moment goes on where it
    stopped when the same call is made again. Without a table they are kept in memory.

    Args:
        study: A study file, a scenario and the keys that vary; or the name of a shipped study; in Python the content of
            one, too.
        output: Table to write, .parquet or .csv; the command writes STUDY.parquet if left out.
        scenario: Vary this scenario, instead of that of the study.
        processes: Points that are simulated at a time; as many as there are cores if left out.
        scheduler: Simulate on the workers of this Dask scheduler.
        restart: Drop what was found before, and its table.
        ranges: Add the ends of ranges, FIGURE_low and _high, between which lie 80 % of what a figure may be; ten times
            slower.
        tell: Is told of progress; a line in a notebook shows it if left out.
        look: Is told of how many combinations conditions are looked at, where that takes long.

    Raises:
        SpecError: The study or its scenario is wrong.
        OutputError: The table or the rows beside it cannot be written, or belong to something else.
    """
    if output is not None:
        check_suffix(Path(output))
        check_writable(Path(output))
    if isinstance(study, Mapping):
        space = space_of(Document(plain_data(study)), scenario=scenario)
    else:
        space = read_study(study, scenario)
    if space.study.where and len(space) > _MANY_POINTS:
        look(len(space))
    numbers = array("q", space.numbers())
    _check_runs(space, numbers)
    inputs = _inputs(space)
    make = RowMaker(space, ranges)
    with telling(tell, "points") as told, files_held():

        def fill(store: Store) -> None:
            how: dict[str, Any] = {"processes": processes, "scheduler": scheduler}
            store.fill(make, numbers, told, **how, few=_FEW_POINTS, lead=1)

        if output is None:
            with Store() as store:
                fill(store)
                return SweepResult(space, None, _done_first(store.statuses()), inputs, kept=typed(store.rows))
        # Of all that rows depend on: the study, the files it reads, and the code that simulates.
        parts = simulator(), space.study.model_dump_json(), "with ranges" * ranges, *map(" ".join, inputs)
        fingerprint = digest([each.encode() for each in parts])
        read = [] if isinstance(study, Mapping) else [("the study", find(str(study), "study", ()))]
        beside = _check_written(Path(output), fingerprint, (*read, *files_read(inputs)), restart=restart)
        if beside is None:
            by_status = _done_first(Counter(str(row[STATUS]) for row in read_rows(Path(output))))
            return SweepResult(space, Path(output), by_status, inputs, simulated=False)
        with Store(beside, fingerprint, option="give another --output, or --restart", anew=restart) as store:
            fill(store)
            about = {"version": __version__, "fingerprint": fingerprint, "inputs": json.dumps(inputs)}
            write_table(Path(output), store.rows, about)
            by_status = _done_first(store.statuses())
            store.remove()
        return SweepResult(space, Path(output), by_status, inputs)


def _check_written(target: Path, fingerprint: str, read: Iterable[tuple[str, Path]], *, restart: bool) -> Path | None:
    """The file of rows beside a table that can be written; None where the table holds the study already."""
    beside = target.with_name(f"{target.name}.journal")
    written = {"table": target, "rows beside the table": beside}
    if target.suffix == CSV:
        written["description of the table"] = about_file(target)
        check_writable(about_file(target))
    check_outputs(written, read)
    if not target.exists() or restart or beside.exists():
        return beside
    if fingerprint_of(target) == fingerprint:
        return None
    what, do = "the table exists, and is not known to be of this study", "give another --output, or --restart"
    raise OutputError(what, where=str(target), do=do)


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

    def place(where: str) -> str:
        given = where.removeprefix("--set ").partition("=")[0] if where.startswith("--set ") else None
        sections = (section for section in ("keys", "derived") if given in (document.at((section,)) or {}))
        return next((document.where((section, str(given))) for section in sections), "") or where

    return SpecError([replace(each, where=place(each.where)) for each in error.problems])


def _inputs(space: StudySpace) -> tuple[tuple[str, str], ...]:
    """Every file that the scenarios of a study read."""
    names = next(axis for axis in space.axes if SCENARIO in axis.keys)
    found = (load_scenario(str(values[0])).inputs for values in names.values)
    return tuple(dict.fromkeys(each for inputs in found for each in inputs))


def _done_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (item[0] != DONE, item[0])))
