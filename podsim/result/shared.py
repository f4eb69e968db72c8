"""Common fields of a result, from a loaded scenario: the simulated configuration and published figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from podsim._version import __version__
from podsim.extend import loaded_files
from podsim.format import format_count, format_significant
from podsim.lazy import LazySequence
from podsim.metrics import STEPS, THROUGHPUT, TIME, UPDATE
from podsim.result.evidence import Envelope
from podsim.result.influence import StandsOn
from podsim.result.power import Meter, price_warnings, today
from podsim.result.reference_data import rows, scenario_name
from podsim.result.rows import Reference
from podsim.result.usage import Usage, unused_ipus, unusual_size
from podsim.scenario import LoadedScenario
from podsim.scenario.assumptions import hardware_keys
from podsim.scenario.resolve import Change
from podsim.scenario.without_effect import without_effect

if TYPE_CHECKING:
    from podsim.search.choice import Choice


_GIGA: Final = 1e9
_DESCRIPTION: Final = "description"
_LONGEST_VALUE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Simulated configuration: pod, chip, stack, IPUs in use, and keys that differ from the file.

    `borrowed` is True if the description comes from a base scenario.
    """

    system: str
    ipu: str
    clock_hz: float
    software: str
    ipus_used: int
    ipu_count: int
    variant: str | None = None
    overrides: tuple[str, ...] = ()
    changes: Sequence[Change] = ()
    model: str = ""
    borrowed: bool = False

    @property
    def machine(self) -> str:
        """Pod, IPUs in use, chip, clock and software stack."""
        used = f"{format_count(self.ipus_used)} of {format_count(self.ipu_count)} IPUs"
        clock = f"{format_significant(self.clock_hz / _GIGA, 4)} GHz"
        return f"{self.system}, {used} in use, {self.ipu} at {clock}; {self.software}"

    @property
    def difference(self) -> str:
        """Differences from the file."""
        if not self.changes:
            return "as the file says" if self.variant is None else f"variant {self.variant}"
        differing = "; ".join(f"{change.key} {_text(change.before)} → {_text(change.after)}" for change in self.changes)
        return f"changed: {differing}" if self.variant is None else f"variant {self.variant}: {differing}"

    def titled(self, description: str) -> str:
        """Return the description, marked if the simulated scenario differs from its file; by default model and pod."""
        if not description:
            return f"{self.model} on {self.system}" if self.model else ""
        named = any(text.partition("=")[0].strip() == _DESCRIPTION for text in self.overrides)
        if named or not (self.changes or self.variant or self.borrowed):
            return description
        if self.variant is None or self.overrides:
            return f"Changed from: {description}"
        described = any(change.key == _DESCRIPTION for change in self.changes)
        return description if described else f"Variant {self.variant} of: {description}"


def _text(value: object) -> str:
    """Format a value for one line of text."""
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{…}"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


_MS_PER_S = 1000
_QUANTITIES: Final = {
    "generation steps": STEPS,
    "batched token time": STEPS,
    "throughput": THROUGHPUT,
    "step time": UPDATE,
    "time-to-train": TIME,
}
_SECONDS: Final = {"h": 3600, "min": 60}
_SCOPES: Final = {"whole run": ", average of a whole run with compilation, loading and evaluation"}


def references_for(name: str) -> Iterator[Reference]:
    """Yield the published figures of the scenario `name` or `name@variant`; totals of several scenarios are skipped."""
    for row in rows("mlperf_submissions"):
        if scenario_name(row) == name:
            label, told = f"MLPerf Training {row['round']} {row['division']}, logs", (row["role"], row["source"])
            updates_s = float(row["step_ms_pure"] or row["step_ms_median"]) / _MS_PER_S
            yield Reference(UPDATE, updates_s, f"{label}, median", *told)
            time_s, score_s = (float(row[key]) * _SECONDS["min"] for key in ("score_physical_min", "score_min"))
            yield Reference(TIME, time_s, f"{label}, mean time of the runs", *told, score_s)
    for row in rows("published_throughput"):
        if row["scenario"].split() == [name]:
            value = float(row["value"]) * _SECONDS.get(row["unit"], 1)
            if row["metric"] == "batched token time":  # converted to steps per second
                value = _MS_PER_S / (value * float(row["global_batch"]))
            label = f"{row['id']}: {row['model']}, {row['platform']}{_SCOPES.get(row['scope'], '')}"
            yield Reference(_QUANTITIES[row["metric"]], value, label, row["role"], row["source_url"])


def shared(
    loaded: LoadedScenario,
    usage: Usage,
    stands_on: Sequence[Mapping[str, object]],
    *,
    warnings: Sequence[str] = (),
    files: tuple[tuple[str, str], ...] = (),
    choice: Choice | None = None,
    changes: tuple[Change, ...] = (),
) -> dict[str, Any]:
    """Return the fields that every kind of result has, from a scenario with a chosen layout.

    `stands_on` has the inputs by influence. `files` has other files that were read, with their SHA-256. `changes` has
    changes in addition to those of file, variant and overrides.
    """
    spec, ipu = loaded.spec, loaded.spec.system.machine.ipu
    meter = Meter(spec.system, usage.ipus_used, usage.ipus_per_copy)
    published = None if changes else loaded.shipped_name  # changed files have no published figures
    usual = (*unused_ipus(spec, usage, chosen=choice is not None), *unusual_size(usage))
    return {
        "name": loaded.name,
        "description": spec.description,
        "version": __version__,
        "simulated": Simulated(
            system=spec.system.name,
            ipu=ipu.name,
            clock_hz=ipu.clock_hz,
            software=spec.software.name,
            ipus_used=usage.ipus_used,
            ipu_count=spec.system.ipu_count,
            variant=loaded.variant,
            overrides=loaded.overrides,
            changes=LazySequence(lambda: (*loaded.changes, *changes)),
            model=spec.model.title,
            borrowed=loaded.borrowed,
        ),
        "references": () if published is None else tuple(references_for(published)),
        "warnings": (*loaded.notices, *_extensions(), *usual, *warnings, *price_warnings(spec.cost, meter, today())),
        "without_effect": without_effect(loaded),
        "envelope": Envelope(
            LazySequence(lambda: stands_on.envelope().outside if isinstance(stands_on, StandsOn) else ())
        ),
        "assumptions": stands_on,
        "inputs": (*loaded.inputs, *files),
        "scenario": loaded.resolved,
        "hardware": LazySequence(lambda: hardware_keys(spec)),
        "choice": choice,
        "meter": meter,
        "prices": spec.cost,
    }


def _extensions() -> Iterator[str]:
    """Yield a warning for each loaded file of extensions."""
    for path, _ in loaded_files():
        yield f"functions of {path} take part; no published run was compared with them"
