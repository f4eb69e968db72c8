"""Golden files: what was agreed on, what moved since, and digests of what is too long to read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from podsim.engine import Trace

FOLDER = Path(__file__).resolve().parent
DIGITS = 9
"""Significant digits of floating-point numbers; parts of a breakdown are rounded to the nanosecond."""
_DIGEST_LENGTH = 16


def rounded(value: Any) -> Any:
    """The same with every floating-point number in it rounded."""
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def digest(value: Any) -> str:
    """A fingerprint of anything that JSON can hold."""
    return digest_of_whole_numbers(rounded(value))


def digest_of_whole_numbers(value: Any) -> str:
    """The same of data without floating-point numbers, which need no rounding."""
    text = json.dumps(value, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]


def digests_of_trace(trace: Trace) -> dict[str, Any]:
    """An execution in a few lines: time by kind of every lane, phases, and order and times of all records."""
    accounts = [
        sorted((lane, sorted(times.items())) for lane, times in account.items()) for account in _accounts(trace)
    ]
    phases = [[phase.group, phase.name, phase.count, phase.start_ps, phase.end_ps] for phase in trace.phases]
    records = [
        [
            record.lane,
            record.kind,
            record.name,
            record.start_ps,
            record.end_ps,
            record.repeat_count,
            record.repeat_period_ps,
        ]
        for record in trace.records
    ]
    return {
        "makespan_ps": trace.makespan_ps,
        "accounts": digest(accounts),
        "phases": digest(phases),
        "record_count": len(records),
        "records": digest_of_whole_numbers(records),
    }


def _accounts(trace: Trace) -> tuple[Any, Any]:
    return trace.lanes, trace.helpers


def check(name: str, now: dict[str, Any], *, update: bool) -> None:
    """Compare with the golden file `name`, below this folder and without suffix, or rewrite it."""
    path = FOLDER / f"{name}.json"
    text = json.dumps(now, indent=2) + "\n"
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{name} has no golden file; run `./dev golden`"
    lines = moved(json.loads(path.read_text(encoding="utf-8")), json.loads(text))
    assert not lines, message(name, lines)


def check_none_is_left_over(folder: str, names: set[str], *, update: bool) -> None:
    """Every golden file of a folder is one of `names`; others are deleted, or refused."""
    left_over = [path for path in (FOLDER / folder).glob("*.json") if path.stem not in names]
    if update:
        for path in left_over:
            path.unlink()
        return
    assert not left_over, "scenarios that are gone; run `./dev golden`"


def flat(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """(dotted key, value) of everything in a golden file."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield path, value
        return
    for key, each in parts:
        yield from flat(each, f"{path}.{key}" if path else str(key))


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each number that is not what it was."""
    old, new = dict(flat(before)), dict(flat(after))
    lines = []
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        if was != now:
            both = isinstance(was, (int, float)) and isinstance(now, (int, float)) and was
            change = f"  ({now / was - 1:+.3%})" if both else ""
            lines.append(f"  {key}: {was} → {now}{change}")
    return lines


def message(name: str, lines: list[str]) -> str:
    return "\n".join(
        [
            f"{name}: {len(lines)} numbers are not what tests/golden/{name}.json says:",
            *lines,
            "If the change is meant: run `./dev golden`, look at the difference, and record it in CHANGELOG.md.",
        ]
    )
