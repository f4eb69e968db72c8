"""Reading a result file: its lines with their places, or what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podsim.errors import PodsimError
from podsim.importer.config_file import printable
from podsim.mlperf.events import TOKEN, Event
from podsim.units import format_bytes

_MOST_BYTES: Final = 1 << 28
MOST: Final = 10**15
"""No time in milliseconds and no number of samples is as large."""
_OTHER_FILE: Final = "name a result file of MLPerf Training, such as `result_0.txt`"


@dataclass(frozen=True, slots=True)
class LogFile:
    """The lines of a result file that the logger of MLPerf wrote.

    Attributes:
        name: How messages name the file.
        events: In their order.
        line_count: Lines of the file.
    """

    name: str
    events: tuple[Event, ...]
    line_count: int

    def all(self, key: str) -> list[Event]:
        """Every line about one key."""
        return [event for event in self.events if event.key == key]

    def first(self, key: str) -> Event | None:
        """The first line about a key."""
        return next((event for event in self.events if event.key == key), None)

    def place(self, event: Event) -> str:
        """Where a line stands."""
        return f"{self.name}:{event.line}"


def read_log(path: str | Path) -> LogFile:
    """Read a result file of one run.

    Raises:
        PodsimError: It cannot be read, has none of the logger's lines, a line that is no JSON, or not one whole run.
    """
    name = str(path)
    text = _text(Path(path), name)
    events = tuple(_events(text, name))
    if not events:
        raise PodsimError(f"no line of the file begins with `{TOKEN}`", where=name, do=_OTHER_FILE)
    log = LogFile(name, events, text.count("\n") + (not text.endswith("\n")))
    _check_one_run(log)
    return log


def _text(path: Path, name: str) -> str:
    try:
        if path.is_dir():
            raise PodsimError("this is a folder, not a file", where=name, do=f"name the files in it: `{name}/*.txt`")
        if path.exists() and not path.is_file():
            raise PodsimError("this is not a file but a device or a pipe", where=name, do=_OTHER_FILE)
        if path.stat().st_size > _MOST_BYTES:
            size = format_bytes(path.stat().st_size)
            raise PodsimError(
                f"the file has {size}; the limit is {format_bytes(_MOST_BYTES)}", where=name, do=_OTHER_FILE
            )
        # As MLPerf's checker reads them: what other programs print between the lines is in any encoding.
        return path.read_text(encoding="latin-1")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "the path is not valid"
        cure = "check the path and its permissions"
        raise PodsimError(f"the file cannot be read: {reason}", where=name, do=cure) from error


def _events(text: str, name: str) -> Iterator[Event]:
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        start = line.find(TOKEN)
        if start >= 0:
            yield _event(line, start + len(TOKEN), f"{name}:{number}", number, is_last=number == len(lines))


def _event(line: str, start: int, place: str, number: int, *, is_last: bool) -> Event:
    """One line, from the column where its JSON starts.

    Raises:
        PodsimError: It is no event.
    """
    cure = "mend the line or remove it"
    try:
        data = json.loads(line[start:])
    except (ValueError, RecursionError) as error:
        column = start + 1 + (error.pos if isinstance(error, json.JSONDecodeError) else 0)
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "too many levels or digits"
        if is_last:
            cure = "name the whole file; this one is cut in the middle of a line"
        raise PodsimError(f"behind `{TOKEN}` there is no JSON: {reason}", where=f"{place}:{column}", do=cure) from error
    where = f"{place}:{start + 2}"
    if not isinstance(data, dict) or not isinstance(data.get("key"), str):
        raise PodsimError("the line has no `key` with a text", where=where, do=cure)
    time_ms, metadata = data.get("time_ms"), data.get("metadata")
    if not isinstance(time_ms, int | float) or isinstance(time_ms, bool) or not 0 <= time_ms < MOST:
        raise PodsimError(f"`time_ms` of `{printable(data['key'])}` is no time in milliseconds", where=where, do=cure)
    return Event(
        printable(data["key"]), time_ms, data.get("value"), metadata if isinstance(metadata, dict) else {}, number
    )


def _check_one_run(log: LogFile) -> None:
    starts, stops = _apart(log.all("run_start")), _apart(log.all("run_stop"))
    if not starts:
        cure = "name the whole file"
        raise PodsimError("the log has no `run_start`, so that its run is not in it", where=log.name, do=cure)
    if len(starts) > 1:
        what = f"a second run starts here, the first one on line {starts[0].line}"
        cure = "give each run a file of its own: cut the file before the lines of the second run"
        raise PodsimError(what, where=log.place(starts[1]), do=cure)
    if not stops:
        what = f"the log ends without `run_stop`: the run that starts on line {starts[0].line} is cut off"
        cure = "name the whole file; what a run takes is not known before it ends"
        raise PodsimError(what, where=f"{log.name}:{log.line_count}", do=cure)
    if len(stops) > 1:
        what = f"the run stops a second time, after line {stops[0].line}"
        raise PodsimError(what, where=log.place(stops[1]), do="give each run a file of its own")
    if stops[0].time_ms <= starts[0].time_ms:
        what = f"the run stops before it starts on line {starts[0].line}"
        raise PodsimError(what, where=log.place(stops[0]), do="mend `time_ms` of one of the two")


def _apart(events: Sequence[Event]) -> list[Event]:
    """Without repetitions: every process of a run may log the same line."""
    times: dict[float, Event] = {}
    for event in events:
        times.setdefault(event.time_ms, event)
    return list(times.values())
