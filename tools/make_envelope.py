"""Writes what published rows cover, for the notice outside of it; `--check` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from podsim.result.envelope import FILE, NAMES, hardware_of, names_of, numbers_of
from podsim.result.reference_data import rows, scenario_name
from podsim.scenario import load_scenario
from tools.generated import renewed


def compared_rows() -> dict[str, list[str]]:
    """Published rows by the scenario that is held against them; a variant stands behind `@`.

    A row of MLPerf's submissions, which have no key of their own, is called by benchmark, round, IPUs and division.
    """
    found: dict[str, list[str]] = {}
    for row in rows("mlperf_submissions"):
        name = f"mlperf {row['benchmark']} {row['round']} {row['ipus']} {row['division']}"
        found.setdefault(scenario_name(row), []).append(name)
    for row in rows("published_throughput"):
        for title in row["scenario"].split():
            found.setdefault(title, []).append(row["id"])
    return found


def compared_titles() -> tuple[str, ...]:
    """Scenarios that a published figure is held against; a variant stands behind `@`."""
    return tuple(compared_rows())


def covered() -> dict[str, dict[str, Any]]:
    """By activity what was compared.

    Its software stacks; the least and the greatest of each number of the hardware, and by kind of model of each number
    of the model; and every distinct configuration with the rows that compared it.
    """
    found: dict[str, dict[str, Any]] = {}
    configurations: dict[str, dict[str, dict[str, Any]]] = {}
    for title, names in compared_rows().items():
        name, _, variant = title.partition("@")
        spec = load_scenario(name, variant or None).spec
        empty: dict[str, Any] = {each: set() for each in NAMES} | {"hardware": {}, "models": {}}
        part = found.setdefault(spec.activity, empty)
        for each, value in names_of(spec).items():
            part.setdefault(each, set()).add(value)
        hardware, numbers = hardware_of(spec), numbers_of(spec)
        _widen(part["hardware"], hardware)
        _widen(part["models"].setdefault(spec.model.kind, {}), numbers)
        configuration = {
            **names_of(spec),
            "framework": spec.software.framework,
            "model": spec.model.kind,
            **numbers,
            "hardware": {each: _plain(number) for each, number in hardware.items()},
        }
        known = configurations.setdefault(spec.activity, {})
        same = known.setdefault(repr(configuration), {"rows": [], **configuration})
        same["rows"] += [each for each in names if each not in same["rows"]]
    return {
        activity: _sorted(part) | {"configurations": list(configurations[activity].values())}
        for activity, part in sorted(found.items())
    }


def _widen(ranges: dict[str, list[float]], numbers: dict[str, Any]) -> None:
    for each, number in numbers.items():
        low, high = ranges.get(each, (number, number))
        ranges[each] = [_plain(min(low, number)), _plain(max(high, number))]


def _plain(number: float) -> float:
    """A whole number as such."""
    return int(number) if number == int(number) else number


def _sorted(part: dict[str, Any]) -> dict[str, Any]:
    models = {kind: part["models"][kind] for kind in sorted(part["models"])}
    listed = {each: sorted(names) for each, names in part.items() if isinstance(names, set)}
    return listed | {"hardware": part["hardware"], "models": models}


WIDTH = 110
TARGET = Path(__file__).resolve().parent.parent / FILE


def written(value: object, depth: int = 0) -> str:
    """JSON in which what is short stands on one line.

    >>> written({"a": [1, 2], "b": {}})
    '{"a": [1, 2], "b": {}}'
    """
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + 2 * depth <= WIDTH or not isinstance(value, (dict, list)):
        return line
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        parts = [written(each, depth + 1) for each in value]
    else:
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {written(each, depth + 1)}" for key, each in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return opening + "\n" + ",\n".join(f"{inner}{part}" for part in parts) + f"\n{outer}{closing}"


def main() -> int:
    """Write the file, or say that it is out of date."""
    return renewed({TARGET: f"{written(covered())}\n"})


if __name__ == "__main__":
    sys.exit(main())
