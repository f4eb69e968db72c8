"""How long a training run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import Spec
from podsim.scenario.quantity import Count, CountOrZero, SourcedTime
from podsim.scenario.scenario import Finding
from podsim.scenario.training import TrainingRunSpec, TrainingScenario
from podsim.scenario.wording import shown


class ReferenceConvergence(Spec):
    """Samples to converge are drawn from MLPerf's reference convergence points."""

    reference_convergence: Literal[True]
    """Always true."""


class LoggedConvergence(Spec):
    """Samples to converge of runs that were logged with one batch size, and hold for it alone."""

    runs: tuple[float, ...]
    """One number per run."""
    batch_size: Count
    """Their samples, or packs, per weight update."""


_MOST_SAMPLES = 1e15
_SAMPLES_CURE = (
    "write a number from 1 to 1e15, a list of them, `{runs: [...], batch_size: ...}` or `{reference_convergence: true}`"
)
_LOGGED = {"runs", "batch_size"}


def _samples(raw: Any) -> Any:
    if raw is None or isinstance(raw, ReferenceConvergence | LoggedConvergence):
        return raw
    if isinstance(raw, dict):
        return _described(raw)
    values = raw if isinstance(raw, (list, tuple)) else [raw]
    if not values:
        raise BadValueError("the list is empty", _SAMPLES_CURE)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= _MOST_SAMPLES:
            raise BadValueError(f"{shown(value)} is not a number of samples", _SAMPLES_CURE)
    return tuple(float(value) for value in values) if isinstance(raw, (list, tuple)) else float(raw)


def _described(raw: dict[str, Any]) -> ReferenceConvergence | LoggedConvergence:
    """What a mapping says; one that asks for reference runs may be laid over logged ones."""
    if raw.get("reference_convergence") is True and set(raw) <= {"reference_convergence", *_LOGGED}:
        return ReferenceConvergence(reference_convergence=True)
    if set(raw) != _LOGGED:
        raise BadValueError("this mapping is not known", _SAMPLES_CURE)
    size, runs = raw["batch_size"], raw["runs"]
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise BadValueError(f"{shown(size)} is not a batch size", "write a positive whole number as batch_size")
    if not isinstance(runs, (list, tuple)):
        raise BadValueError(f"{shown(runs)} is not a list of samples", _SAMPLES_CURE)
    return LoggedConvergence(runs=_samples(runs), batch_size=size)


_SAMPLES_SCHEMA = {"type": "number", "exclusiveMinimum": 0}
SamplesToConverge = Annotated[
    Any,
    BeforeValidator(_samples),
    WithJsonSchema(
        {
            "anyOf": [
                _SAMPLES_SCHEMA,
                {"type": "array", "items": _SAMPLES_SCHEMA, "minItems": 1},
                {
                    "type": "object",
                    "properties": {
                        "runs": {"type": "array", "items": _SAMPLES_SCHEMA, "minItems": 1},
                        "batch_size": {"type": "integer", "minimum": 1},
                    },
                },
                {"type": "object", "properties": {"reference_convergence": {"const": True}}},
            ]
        }
    ),
]


class EvaluationSpec(Spec):
    """Evaluations during the run."""

    samples: Count
    """Samples of one evaluation."""
    every_samples: Count | None = None
    """Samples between evaluations; MLPerf's rule if left out."""


class RunSpec(TrainingRunSpec):
    """How long the run goes on."""

    samples_to_converge: SamplesToConverge = None
    """Samples until the quality target: a number, one per observed run with the batch size it holds for, or drawn."""
    weight_updates: Count | None = None
    """A fixed number of weight updates instead."""
    epochs: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """Passes over the training set instead; needs `data.samples_per_epoch`."""
    seed: CountOrZero = 0
    """Seed of the draws."""
    draws: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1000
    """Imagined runs that are drawn."""
    evaluation: EvaluationSpec | None = None
    """Left out when the run is not evaluated."""
    setup: SourcedTime | None = None
    """From the start to the first weight update; the software stack's if left out."""

    @model_validator(mode="after")
    def _one_end(self) -> RunSpec:
        ends = [
            f"`{name}`"
            for name in ("samples_to_converge", "weight_updates", "epochs")
            if getattr(self, name) is not None
        ]
        if len(ends) > 1:
            raise BadValueError(f"{ends[0]} and {ends[1]} are both given", "keep one of the two")
        return self

    @model_validator(mode="after")
    def _every_key_counts(self) -> RunSpec:
        if self.samples_to_converge is None and self.weight_updates is None and self.epochs is None:
            for name in ("evaluation", "setup"):
                if getattr(self, name) is not None:
                    cure = "add `samples_to_converge`, `weight_updates` or `epochs`, or write `run: null`"
                    raise BadValueError(f"`{name}` is given, but nothing says how long the run goes on", cure)
        if not isinstance(self.samples_to_converge, ReferenceConvergence):
            for name in ("seed", "draws"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    cure = f"leave `{name}` out, or write `samples_to_converge: {{reference_convergence: true}}`"
                    raise BadValueError(f"`{name}` is given, but nothing is drawn", cure)
        return self

    @property
    def is_drawn(self) -> bool:
        """Whether samples to converge are drawn."""
        return isinstance(self.samples_to_converge, ReferenceConvergence)

    @property
    def is_converged(self) -> bool:
        """Whether samples to converge are given or drawn."""
        return self.samples_to_converge is not None

    @property
    def has_batch(self) -> bool:
        """Whether the runs were logged with a batch size."""
        return isinstance(self.samples_to_converge, LoggedConvergence)

    def without_end(self) -> RunSpec:
        """Throughput alone."""
        return RunSpec()

    def findings(self, spec: TrainingScenario) -> Iterator[Finding]:
        """Ends of the run that need data, or reference runs, which are missing."""
        if self.epochs is not None and spec.data.samples_per_epoch is None:
            yield ("run", "epochs"), "the size of the training set is not known", "add data.samples_per_epoch"
        if isinstance(self.samples_to_converge, ReferenceConvergence) and spec.model.reference_benchmark is None:
            what = "MLPerf has reference runs of BERT only"
            yield ("run", "samples_to_converge"), what, "give a number of samples, weight_updates or epochs"

    def update_count(self, spec: TrainingScenario) -> int | None:
        """Weight updates of the run, if they follow from the scenario alone."""
        if self.epochs and spec.data.samples_per_epoch:
            return -int(-self.epochs * spec.data.samples_per_epoch // spec.parallelism.batch_size)
        return self.weight_updates
