"""The file that pins what scenarios gave when they were last agreed on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from podsim._version import __version__
from podsim.checks.cases import Measured
from podsim.errors import BadValueError, PodsimError
from podsim.report.files import write_atomically
from podsim.units import parse_quantity

SCHEMA: Final = 1
DIGITS: Final = 9
_DEFAULT: Final = "1 %"


@dataclass(frozen=True)
class Baseline:
    """What was agreed on.

    Attributes:
        scenarios: What each case gave.
        tolerance: By how much a figure may move, as a text such as `1 %`.
        tolerances: Others, by metric, by case, or by `case metric`.
        reason: Why it was last rewritten.
        version: Version of podsim that gave the figures.
    """

    scenarios: Mapping[str, Measured] = field(default_factory=dict)
    tolerance: str = _DEFAULT
    tolerances: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    version: str = __version__

    def tolerance_of(self, case: str, metric: str) -> float:
        """By which share a figure may move."""
        keys = (f"{case} {metric}", case, metric)
        return parse_quantity(
            next((self.tolerances[key] for key in keys if key in self.tolerances), self.tolerance), "ratio"
        )

    def with_measured(self, scenarios: Mapping[str, Measured], reason: str) -> Baseline:
        """The same tolerances around other figures."""
        return Baseline(scenarios, self.tolerance, self.tolerances, reason)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        PodsimError: It is not there, is none, or has another schema.
    """
    do = 'write one with `podsim check … --accept --reason "first baseline"`'
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PodsimError("there is no baseline", where=str(path), do=do) from None
    except (OSError, ValueError) as error:
        raise PodsimError(f"this is no baseline: {error}", where=str(path), do=do) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        what = f"schema {schema} is not the {SCHEMA} that this version of podsim reads"
        raise PodsimError(what, where=str(path), do="use the version that wrote it, or accept a new baseline")
    try:
        found = Baseline(**{key: data[key] for key in ("scenarios", "tolerance", "tolerances", "reason", "version")})
        for text in (found.tolerance, *found.tolerances.values()):
            parse_quantity(text, "ratio")
    except (KeyError, BadValueError) as error:
        raise PodsimError(f"this is no baseline: {error}", where=str(path), do=do) from None
    return found


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write it, one figure a line, so that a change is seen in review.

    Raises:
        OutputError: It cannot be written.
    """
    scenarios = {name: _kept(each) for name, each in sorted(baseline.scenarios.items())}
    data = {
        "schema": SCHEMA,
        "version": __version__,
        "reason": baseline.reason,
        "tolerance": baseline.tolerance,
        "tolerances": dict(baseline.tolerances),
        "scenarios": scenarios,
    }
    write_atomically(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())


def _kept(found: Measured) -> dict[str, Any]:
    metrics = {name: float(f"{value:.{DIGITS}g}") for name, value in found["metrics"].items()}
    return {
        "status": found["status"],
        "metrics": metrics,
        "breakdown_ps": found["breakdown_ps"],
        "inputs": found["inputs"],
    }
