"""Predictions that are written before measurements are known, and scored afterwards.

The file names every shipped scenario with what is predicted of it, a fingerprint of code, specifications and
scenarios, and one of the predictions themselves. Measurements are filled in at `measured`, and nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim import disk
from podsim._version import __version__
from podsim.errors import OutputError, PodsimError
from podsim.result.files import check_writable, write_atomically
from podsim.result.inference import ForwardResult, GenerationResult
from podsim.result.result import RunResult
from podsim.scenario import data_file, shipped_names, variant_names
from podsim.validation.comparison import RowComparison, Validation
from podsim.validation.runs import Result, Runs
from podsim.watch import Watch

_MS_PER_S, _S_PER_MIN = 1000, 60
_HELD_APART = "hold-out"
_CURE = "score a file that `./dev truth preregister` wrote, with numbers at `measured` and nothing else changed"


@dataclass(frozen=True, slots=True)
class Score:
    """Predictions of a file beside the measurements that were filled in."""

    version: str  # the version that predicted
    found: Validation
    changed: tuple[str, ...]  # what is not as it was then: `code`, `specifications`, `scenarios`


def preregister(path: Path, progress: Watch, titles: Sequence[str] | None = None) -> None:
    """Write what is predicted of scenarios, all shipped ones with their variants if left out."""
    check_writable(path)
    if path.exists():
        what = "the file exists, and predictions that were written are not replaced"
        raise OutputError(what, where=str(path), do="give another name")
    runs = Runs(_shipped() if titles is None else titles, progress)
    made = [row for title, result in runs.feasible() for row in _rows(title, result)]
    fingerprint = _fingerprint() | {"predictions": _seal(made)}
    report = {"podsim": __version__, "fingerprint": fingerprint, "rows": made}
    write_atomically(path, (json.dumps(report, indent=1) + "\n").encode())


def score(path: Path) -> Score:
    """Compare predictions with the measurements that were filled in."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        rows, version, fingerprint = report["rows"], report["podsim"], dict(report["fingerprint"])
        is_as_written = fingerprint["predictions"] == _seal(rows)
        comparisons = tuple(_comparison(path, row) for row in rows if row["measured"] is not None)
    except OSError as error:
        raise PodsimError(error.strerror or "cannot be read", where=str(path), do=_CURE) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PodsimError("this file holds no predictions", where=str(path), do=_CURE) from error
    if not is_as_written:
        raise PodsimError("the predictions were changed after they had been written", where=str(path), do=_CURE)
    if not comparisons:
        what = "no measurement is filled in"
        raise PodsimError(what, where=str(path), do="write numbers in place of `null` at `measured`")
    changed = (part for part, digest in _fingerprint().items() if fingerprint.get(part) != digest)
    return Score(str(version), Validation(comparisons, ()), tuple(changed))


def _comparison(path: Path, row: Mapping[str, Any]) -> RowComparison:
    measured = row["measured"]
    if isinstance(measured, bool) or not isinstance(measured, int | float) or not 0 < measured < math.inf:
        where, do = f"{path} [{row['row']}, {row['quantity']}]", f"write a number above 0, in {row['unit']}, or null"
        raise PodsimError(f"`{json.dumps(measured)}` is no measurement", where=where, do=do)
    return RowComparison(row["quantity"], row["row"], row["predicted"], measured, row["unit"], _HELD_APART, str(path))


def _shipped() -> list[str]:
    names = shipped_names()["scenarios"]
    return [each for name in names for each in (name, *(f"{name}@{variant}" for variant in variant_names(name)))]


def _rows(title: str, result: Result) -> Iterator[dict[str, Any]]:
    """Yield a row without measurement for each quantity."""
    for quantity, value, unit in _quantities(result):
        yield {"row": title, "quantity": quantity, "unit": unit, "predicted": value, "measured": None}


def _quantities(result: Result) -> Iterator[tuple[str, float, str]]:
    match result:
        case RunResult():
            yield "weight update", result.weight_update_s * _MS_PER_S, "ms"
            yield "throughput", result.throughput_samples_per_s, "samples/s"
            if result.time_to_train_s is not None:
                yield "time to train", result.time_to_train_s / _S_PER_MIN, "min"
        case GenerationResult():
            yield "time to first token", result.time_to_first_token_s * _MS_PER_S, "ms"
            yield "time per output token", result.time_per_output_token_s * _MS_PER_S, "ms"
        case ForwardResult():
            yield "throughput of forward passes", result.throughput_samples_per_s, "samples/s"


def _seal(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a hash of the predictions, independent of measurements."""
    parts = ("row", "quantity", "unit", "predicted")
    return disk.digest(json.dumps([row[part] for part in parts]).encode() for row in rows)


def _fingerprint() -> dict[str, str]:
    """Return hashes of all inputs of predictions."""
    folders = {
        "code": (Path(__file__).parent.parent, "*.py"),
        "specifications": (data_file("hardware_specs"), "*.yaml"),
        "scenarios": (data_file("scenarios"), "*.yaml"),
    }
    return {what: _digest_of(folder, pattern) for what, (folder, pattern) in folders.items()}


def _digest_of(folder: Path, pattern: str) -> str:
    files = sorted((path.relative_to(folder).as_posix(), path) for path in folder.rglob(pattern))
    return disk.digest(part for name, path in files for part in (name.encode(), path.read_bytes()))
