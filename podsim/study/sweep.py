"""`podsim.sweep`: every combination of a study's keys and values is simulated, and becomes a row of one table."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from podsim import memo
from podsim._version import __version__
from podsim.disk import digest, simulator
from podsim.errors import OutputError, PodsimError, Problem, SpecError
from podsim.metrics import HIGH, LOW
from podsim.options import POSITIVE, SCENARIO_NAME, Shell
from podsim.report.chart import Sheet
from podsim.report.report import Report
from podsim.result.files import check_outputs, check_writable, files_read
from podsim.runs import run
from podsim.scenario import load_scenario
from podsim.scenario.document import Document, plain_data
from podsim.scenario.library import find
from podsim.show.answers import Answered, figure_of_sheet
from podsim.study import store as tables
from podsim.study.points import StudySpace, read_study, space_of
from podsim.study.store import DONE, POINT, REASON, SCENARIO, STATUS, VARIANT, Row, Store
from podsim.study.sweep_report import counts_text, study_report
from podsim.watch import Tell, telling

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_FEW_POINTS = 24  # number of points up to which further processes are not worth their start-up
_MANY_POINTS = 100_000  # number of points from which on checking conditions takes seconds
_CURE = "give another --output, or --restart"


@dataclass(frozen=True, repr=False)
class SweepResult(Answered):
    """Result of a study.

    Attributes:
        space: Points of the study.
        output: Path of the table; None if the rows are only in memory.
        by_status: Number of rows by status.
        inputs: (path, SHA-256) of every file read.
        simulated: True if points were simulated; False if the table already had all of them.
        kept: Rows in memory; empty if there is a table.
    """

    space: StudySpace
    output: Path | None
    by_status: Mapping[str, int]
    inputs: tuple[tuple[str, str], ...]
    simulated: bool = True
    kept: Sequence[Row] = ()

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(self.by_status.values())

    @property
    def summary(self) -> str:
        """Summary line of completed, failed and skipped points."""
        return counts_text(self.by_status)

    def rows(self) -> Iterator[Row]:
        """Return an iterator over the rows of the table."""
        return iter(self.kept) if self.output is None else tables.read_rows(self.output)

    def to_frame(self) -> DataFrame:
        """Return the table, one row per point, with the units of its columns in `attrs["unit"]`.

        Returns:
            A frame with the columns of the table: the point, its values, its status, and its metrics.
        """
        from podsim.show.frames import frame_of, frame_of_file

        return frame_of(self.kept) if self.output is None else frame_of_file(self.output)

    def report(self, metric: str | None = None) -> Report:
        """Return a report: the best points, a chart over the keys that vary, and the points that failed.

        Args:
            metric: Column to compare points by; samples or tokens per second by default.

        Returns:
            The report, with a verdict, headline figures, tables and a chart.

        Raises:
            PodsimError: No point has this metric.
        """
        return study_report(self.space, self.rows(), self.by_status, self.inputs, metric)

    def plot(self, metric: str | None = None) -> Figure:
        """Return the chart of `--plot` as a figure of matplotlib, which a notebook shows.

        Args:
            metric: Column to compare points by; samples or tokens per second by default.

        Returns:
            A figure with one chart, or a chart for each value of a third key.

        Raises:
            PodsimError: No point has this metric, or no key varies.
        """
        return figure_of_sheet(sheet_of(self, self.report(metric)))

    def _summary_lines(self) -> Iterator[str]:
        yield self.summary
        yield from self.report().verdict

    def _records(self) -> list[Row]:
        return list(self.rows())


Swept = SweepResult  # its name until 0.12


def sheet_of(swept: SweepResult, report: Report) -> Sheet:
    """Return the chart of `--plot`.

    Raises:
        PodsimError: No point was simulated, or no key varies.
    """
    if DONE not in swept.by_status:
        raise PodsimError("no point of this study has figures to draw", do="read the column `reason` of the table")
    if not (sheet := report.sheet()).rows:
        raise PodsimError("no key of this study varies", do="give one of its keys two values or more")
    return sheet


def sweep(
    study: Annotated[str | Path | Mapping[str, Any], Shell((), completes="studies")],
    output: Annotated[str | Path | None, Shell(("--output", "-o"))] = None,
    *,
    scenario: Annotated[str | None, SCENARIO_NAME] = None,
    processes: Annotated[int | None, POSITIVE] = None,
    scheduler: Annotated[str | None, Shell(metavar="ADDRESS")] = None,
    restart: bool = False,
    ranges: bool = False,
    tell: Tell | None = None,
    look: Callable[[int], None] = lambda _count: None,
) -> SweepResult:
    """Simulate every point of a study, and write a table of all points if a file is named.

    Finished rows are stored next to the table, so that the same call resumes an interrupted study. Without a table,
    rows are in memory.

    Args:
        study: A study file, a scenario and the keys that vary; or the name of a shipped study.
        output: Table to write, .parquet or .csv; the command writes STUDY.parquet by default.
        scenario: Vary this scenario, instead of that of the study.
        processes: Number of processes; by default the number of cores.
        scheduler: Simulate on the workers of this Dask scheduler.
        restart: Delete earlier rows and their table.
        ranges: Add the ends of 80 % prediction intervals, METRIC_low and _high; ten times slower.
        tell: Progress callback, called as `tell(done, total)`; by default a progress line in a notebook.
        look: Callback that gets the number of points before their conditions are checked, if that takes long.

    Note:
        In Python, `study` may also be the content of a study file.

    Returns:
        The result, with `.rows()`, `.to_frame()` and `.report()`.

    Raises:
        SpecError: The study or its scenario is wrong.
        OutputError: The table or its journal cannot be written, or holds rows of another study.
    """
    table = None if output is None else Path(output)
    if table is not None:
        tables.check_suffix(table)
        check_writable(table)
    space = (
        space_of(Document(plain_data(study)), scenario=scenario)
        if isinstance(study, Mapping)
        else read_study(study, scenario)
    )
    if space.study.where and len(space) > _MANY_POINTS:
        look(len(space))
    numbers = array("q", space.numbers())
    _check_runs(space, numbers)
    inputs = _inputs(space)
    fingerprint, journal = "", None
    if table is not None:
        # The fingerprint covers all inputs of rows: the study, the files it reads, and podsim's code.
        parts = simulator(), space.study.model_dump_json(), "with ranges" * ranges, *map(" ".join, inputs)
        fingerprint = digest([part.encode() for part in parts])
        read = [] if isinstance(study, Mapping) else [("the study", find(str(study), "study", ()))]
        journal = table.with_name(f"{table.name}.journal")
        written = {"table": table, "rows beside the table": journal}
        if table.suffix == tables.CSV:
            written["description of the table"] = tables.about_file(table)
            check_writable(tables.about_file(table))
        check_outputs(written, (*read, *files_read(inputs)))
        if table.exists() and not restart and not journal.exists():
            if tables.fingerprint_of(table) != fingerprint:
                raise OutputError("the table exists, and is not known to be of this study", where=str(table), do=_CURE)
            counts = Counter(str(row[STATUS]) for row in tables.read_rows(table))
            by_status = dict(sorted(counts.items(), key=lambda item: (item[0] != DONE, item[0])))
            return SweepResult(space, table, by_status, inputs, simulated=False)
    with (
        telling(tell, "points") as report_progress,
        memo.files_held(),
        Store(journal, fingerprint, option=_CURE, restart=restart) as store,
    ):
        how = {"processes": processes, "scheduler": scheduler, "few": _FEW_POINTS, "lead": 1}
        store.fill(partial(_row, space, ranges), numbers, report_progress, **how)
        by_status = store.statuses()
        if table is None:
            return SweepResult(space, None, by_status, inputs, kept=tables.typed(store.rows))
        about = {"version": __version__, "fingerprint": fingerprint, "inputs": json.dumps(inputs)}
        tables.write_table(table, store.rows, about)
        store.remove()
        return SweepResult(space, table, by_status, inputs)


def _row(space: StudySpace, ranges: bool, number: int) -> Row:
    """Simulate a point and return its row: metrics, and the ends of their `ranges` if requested, or else a reason."""
    point = space.point(number)
    assert point is not None
    source = point.scenario, point.variant
    values = {POINT: number, SCENARIO: point.scenario, VARIANT: point.variant, **point.values}
    try:
        if point.problem is not None:
            raise SpecError([point.problem])
        # The scenario is loaded once for all points; each point overrides keys of it.
        loaded = memo.file_content(("swept", *source), partial(load_scenario, *source))
        result = run(load_scenario(loaded, overrides=point.overrides))
        intervals = result.ranges if ranges else {}
        ends = {
            f"{name}{column}": end
            for name, interval in intervals.items()
            for column, end in ((LOW, interval.low), (HIGH, interval.high))
        }
    except PodsimError as error:
        return values | {STATUS: tables.status_of(error), REASON: str(error)}
    except Exception as error:  # a bug at one point must not lose the other points
        return values | {STATUS: tables.FAILED, REASON: f"{type(error).__name__}: {error}"}
    return values | {STATUS: DONE, REASON: None} | dict(tables.figures_of(result)) | ends


def _check_runs(space: StudySpace, numbers: Sequence[int]) -> None:
    """Raise `SpecError` if `where` excludes all points, or if none of the first points can be loaded."""
    if not numbers:
        what, place = f"`where` leaves out all of {len(space):,} points", space.document.where(("where",))
        raise SpecError([Problem(place, "where", what, "loosen a condition")])
    first: SpecError | None = None
    for point in map(space.point, numbers[:_FEW_POINTS]):
        assert point is not None
        try:
            if point.problem is not None:
                raise SpecError([point.problem])
            load_scenario(point.scenario, point.variant, point.overrides)
        except SpecError as error:
            first = first or error
        else:
            return
    assert first is not None
    raise SpecError([replace(problem, where=_place_in(space.document, problem.where)) for problem in first.problems])


def _place_in(study: Document, where: str) -> str:
    """Return where the study gives a key, instead of the location `--set KEY=VALUE`; other locations are unchanged."""
    key = where.removeprefix("--set ").partition("=")[0] if where.startswith("--set ") else None
    sections = (section for section in ("keys", "derived") if key in (study.value_at((section,)) or {}))
    return next((study.where((section, str(key))) for section in sections), "") or where


def _inputs(space: StudySpace) -> tuple[tuple[str, str], ...]:
    """Return (path, SHA-256) of every file that the scenarios of a study read."""
    names = next(axis for axis in space.axes if SCENARIO in axis.keys).values
    return tuple(dict.fromkeys(file for name, *_ in names for file in load_scenario(str(name)).inputs))
