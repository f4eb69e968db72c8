"""The file that pins what scenarios gave when they were last agreed on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from podsim._version import __version__
from podsim.errors import BadValueError, PodsimError
from podsim.result.files import write_atomically
from podsim.scenario.wording import nearest
from podsim.study.check.cases import Measured
from podsim.units import parse_quantity

SCHEMA: Final = 1
DIGITS: Final = 9


@dataclass(frozen=True)
class Baseline:
    """What was agreed on, and why; or what another revision gives, which may know fewer figures."""

    scenarios: Mapping[str, Measured] = field(default_factory=dict)
    tolerance: str = "1 %"
    tolerances: Mapping[str, str] = field(default_factory=dict)
    """Others, by metric, by case, or by `case metric`."""
    reason: str = ""
    version: str = __version__
    is_revision: bool = False

    def tolerance_of(self, case: str, metric: str) -> float:
        """By which share a figure may move."""
        given = (self.tolerances[key] for key in (f"{case} {metric}", case, metric) if key in self.tolerances)
        return parse_quantity(next(given, self.tolerance), "ratio")

    def of_case(self, case: str) -> Baseline:
        """The part of one case, for who knows nothing of the others."""
        return replace(self, scenarios={name: each for name, each in self.scenarios.items() if name == case})

    def with_measured(self, scenarios: Mapping[str, Measured], reason: str) -> Baseline:
        """The same tolerances around other figures, but for those that nothing uses any more."""
        used = _uses(scenarios)
        kept = {key: each for key, each in self.tolerances.items() if key in used}
        return Baseline(scenarios, self.tolerance, kept, reason)


class _Kept(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    status: str
    metrics: dict[str, float]
    breakdown_ps: dict[str, float]
    inputs: dict[str, str]


def _share(text: str) -> str:
    if parse_quantity(text, "ratio") < 0:
        raise BadValueError(f"{text} is below 0", "write for example `1 %`")
    return text


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    scenarios: dict[str, _Kept]
    tolerance: Annotated[str, AfterValidator(_share)]
    tolerances: dict[str, Annotated[str, AfterValidator(_share)]]
    reason: str
    version: str


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        PodsimError: It is not there, is none, or has another schema.
    """
    do = 'write one with `podsim check … --accept --reason "first baseline"`'
    anew = f"restore it from git, or remove it and {do}"
    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once, parse_constant=_refused)
    except FileNotFoundError:
        raise PodsimError("there is no baseline", where=str(path), do=do) from None
    except RecursionError:
        raise PodsimError("this is no baseline: it is nested too deeply", where=str(path), do=anew) from None
    except (OSError, ValueError) as error:
        raise PodsimError(f"this is no baseline: {error}", where=str(path), do=anew) from None
    if not isinstance(data, dict) or "schema" not in data:
        raise PodsimError("this is no baseline: it names no `schema`", where=str(path), do=anew)
    schema = data["schema"]
    if schema != SCHEMA:
        what = f"schema {schema} is not the {SCHEMA} that this version of podsim reads"
        raise PodsimError(what, where=str(path), do=f"use the version that wrote it, or remove it and {do}")
    try:
        _File.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = str(first.get("ctx", {}).get("error") or first["msg"])
        what = f"`{'.'.join(map(str, first['loc']))}`: {said[0].lower()}{said[1:]}"
        raise PodsimError(f"this is no baseline: {what}", where=str(path), do=anew) from None
    known = _uses(data["scenarios"])
    for key in data["tolerances"]:
        if key not in known:
            close = nearest(key, known)
            cure = f"write `{close}`" if close else "name a scenario, a figure, or both with a space between"
            what = f"`tolerances.{key}` is for no scenario and no figure of this baseline"
            raise PodsimError(what, where=str(path), do=f"take it out, or {cure}")
    return Baseline(**{name: data[name] for name in _File.model_fields})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping, none of whose keys may hide another of the same name."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key `{key}` appears twice")
        found[key] = value
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _uses(scenarios: Mapping[str, Measured]) -> set[str]:
    """What a tolerance may be for: scenarios, figures, and both."""
    pairs = {(case, metric) for case, kept in scenarios.items() for metric in kept["metrics"]}
    return {*scenarios, *(metric for _, metric in pairs), *(f"{case} {metric}" for case, metric in pairs)}


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write it, one figure a line, so that a change is seen in review.

    Raises:
        OutputError: It cannot be written.
    """
    data = {
        "schema": SCHEMA,
        "version": __version__,
        "reason": baseline.reason,
        "tolerance": baseline.tolerance,
        "tolerances": dict(baseline.tolerances),
        "scenarios": {name: _kept(each) for name, each in sorted(baseline.scenarios.items())},
    }
    write_atomically(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())


def _kept(found: Measured) -> dict[str, Any]:
    metrics = {name: float(f"{value:.{DIGITS}g}") for name, value in found["metrics"].items()}
    return {name: found[name] for name in _Kept.model_fields} | {"metrics": metrics}
