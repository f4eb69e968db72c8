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
from podsim.many.store import STATUS, Row, Store, Tell
from podsim.many.sweeps.names import SCENARIO
from podsim.many.sweeps.rows import DONE, RowMaker
from podsim.many.sweeps.space import Space, read_study, space_of
from podsim.many.sweeps.table import CSV, about_file, check_suffix, fingerprint_of, read_rows, write_table
from podsim.memo import files_held
from podsim.result.files import check_outputs, check_writable, files_read
from podsim.scenario import load_scenario
from podsim.scenario.document import Document, plain_data
from podsim.scenario.library import find

if TYPE_CHECKING:
    from pandas import DataFrame

_FEW_POINTS = 24
"""What processes need to start is worth so many points."""
_MANY_POINTS = 100_000
"""Conditions of as many take seconds."""


@dataclass(frozen=True)
class Swept:
    """A study that has ended.

    Attributes:
        space: Its points.
        output: Its table.
        count: Rows.
        by_status: Rows by what became of them.
        inputs: (path, SHA-256) of every file read.
        simulated: Whether anything had to be; not if the table held the study already.
    """

    space: Space
    output: Path
    count: int
    by_status: Mapping[str, int]
    inputs: tuple[tuple[str, str], ...]
    simulated: bool = True

    def rows(self) -> Iterator[Row]:
        """The rows of the table, one by one."""
        return read_rows(self.output)

    def frame(self) -> DataFrame:
        """The table, one row per point."""
        from podsim.result.frames import frame_of_file

        return frame_of_file(self.output)


def sweep(
    study: str | Path | Mapping[str, Any],
    output: str | Path,
    *,
    scenario: str | None = None,
    processes: int | None = None,
    scheduler: str | None = None,
    restart: bool = False,
    tell: Tell = lambda _done, _total: None,
    look: Callable[[int], None] = lambda _count: None,
) -> Swept:
    """Simulate every point of a study and write the table of them all.

    Rows are kept beside the table as they come. A study that was ended at any moment goes on where it
    stopped when the same call is made again.

    Args:
        study: A study file, the name of a shipped study, or the content of one.
        output: The table, a `.parquet` or `.csv` file.
        scenario: Path or name of the scenario that varies, instead of that of the study.
        processes: How many points are simulated at a time; as many as there are cores by default.
        scheduler: Address of a Dask scheduler, to simulate on its workers instead.
        restart: Drop rows of an earlier attempt, and a table that is there already.
        tell: Is told of progress.
        look: Is told of how many combinations conditions are looked at, where that takes long.

    Raises:
        SpecError: The study or its scenario is wrong.
        OutputError: The table or the rows beside it cannot be written, or belong to something else.
    """
    target = Path(output)
    check_suffix(target)
    check_writable(target)
    space = _space(study, scenario)
    if space.study.where and len(space) > _MANY_POINTS:
        look(len(space))
    numbers = array("q", space.numbers())
    _check_runs(space, numbers)
    inputs = _inputs(space)
    fingerprint = _fingerprint(space, inputs)
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
    with Store(beside, fingerprint, option="give another --output, or --restart", anew=restart) as store, files_held():
        store.fill(RowMaker(space), numbers, tell, processes=processes, scheduler=scheduler, few=_FEW_POINTS, lead=1)
        about = {"version": __version__, "fingerprint": fingerprint, "inputs": json.dumps(inputs)}
        write_table(target, store.rows, about)
        by_status = _done_first(store.statuses())
        store.remove()
    return Swept(space, target, len(numbers), by_status, inputs)


def _space(study: str | Path | Mapping[str, Any], scenario: str | None) -> Space:
    if isinstance(study, Mapping):
        return space_of(Document(plain_data(study)), scenario=scenario)
    return read_study(study, scenario)


def _check_runs(space: Space, numbers: Sequence[int]) -> None:
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


def _inputs(space: Space) -> tuple[tuple[str, str], ...]:
    """Every file that the scenarios of a study read."""
    names = next(axis for axis in space.axes if SCENARIO in axis.keys)
    found = (load_scenario(str(values[0])).inputs for values in names.values)
    return tuple(dict.fromkeys(each for inputs in found for each in inputs))


def _fingerprint(space: Space, inputs: Iterable[tuple[str, str]]) -> str:
    """Of all that rows depend on: the study, the files it reads, and the code that simulates."""
    study = space.study.model_dump_json().encode()
    return digest([simulator().encode(), study, *(f"{path} {sha}".encode() for path, sha in inputs)])


_PLURALS = {"does not fit": "do not fit"}


def status_words(status: str, count: int) -> str:
    """What became of points, behind their number."""
    return status if count == 1 else _PLURALS.get(status, status)


def _done_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (item[0] != DONE, item[0])))
