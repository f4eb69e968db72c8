"""Calibration of a software stack's constants with a user's measurements.

The prior of each constant is the triangular distribution over its range. Measurements change it by least squares of
relative errors, each weighted by its standard error and by the model error. So one measurement changes constants a
little, and many determine them. A constant that affects no measurement keeps its value. Constants of the hardware are
kept, because a cluster has the same chips.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError, Problem, SpecError
from podsim.metrics import METRICS
from podsim.result.evidence import evidence_of
from podsim.result.influence import Probe, StandsOn
from podsim.runs import run
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.assumptions import Assumption, assumptions, numbers, with_number
from podsim.scenario.library import data_root
from podsim.scenario.resolve import BASE, VARIANTS, merged_layers, read_named
from podsim.scenario.scenario import Scenario
from podsim.units import UNITS, parse_quantity
from podsim.validation.fit import Fit, Solution, correlated, least_squares
from podsim.validation.measurements import Measurement
from podsim.watch import Watch

_STACK = "software."
_STEPS = 3
"""Number of Gauss-Newton steps; constants act almost linearly."""
_FAR = 3
"""Standard errors beyond which a row is reported as not explained by the constants."""
_TRIANGLE = 18
"""Divisor in the variance of a triangular distribution."""
_UNITS = {"s": "s", "bytes": "B", "bytes_per_s": "B/s"}
_STEP = 0.1
"""Step of a constant for its slope, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Modelled:
    """A measurement with the run that it is of."""

    measured: Measurement
    loaded: LoadedScenario
    spec: Scenario  # the scenario with its layout
    probe: Probe[Any]

    def value(self, constants: Mapping[str, float]) -> float:
        """Return the metric with other constants, in its SI base unit."""
        spec = self.spec
        for key, value in constants.items():
            spec = with_number(spec, key, value)
        made = self.probe(spec, resplit=True)
        assert made is not None
        return made.metrics[self.measured.figure]

    @property
    def error(self) -> float:
        """Standard error of measurement and model together, as a share."""
        return math.hypot(evidence_of(self.spec).sigma, self.measured.error or 0.0)


@dataclass(frozen=True, slots=True)
class ComparedMeasurement:
    """A measurement beside its prediction."""

    measured: Measurement
    before: float  # predicted ÷ measured - 1 with the committed constants
    after: float  # predicted ÷ measured - 1 with the fitted constants
    error: float  # relative standard error of measurement and model

    @property
    def is_far(self) -> bool:
        """True if the constants do not account for it."""
        return abs(self.after) > _FAR * self.error


@dataclass(frozen=True, slots=True)
class Cluster:
    """Outcome of a fit."""

    loaded: LoadedScenario  # first scenario; all have its stack
    inputs: tuple[Assumption, ...]  # constants before the fit
    fits: tuple[Fit, ...]  # fitted constants
    rows: tuple[ComparedMeasurement, ...]


def fit_cluster(measurements: Sequence[Measurement], progress: Watch) -> Cluster:
    """Fit the calibrated constants of the stack that measurements share."""
    models = _modelled(measurements, progress)
    known = {assumption.key: assumption for model in models for assumption in assumptions(model.spec)}
    inputs = [each for each in known.values() if each.key.startswith(_STACK) and each.basis == "calibrated"]
    inputs = [each for each in inputs if any(_matters(model, each) for model in models)]
    if not inputs:
        what = "no calibrated constant of the software stack moves what was measured"
        raise PodsimError(what, do="measure a run that makes session calls, such as training")
    committed = {each.key: each.number for each in inputs}
    values = dict(committed)
    for _ in progress([f"step {step + 1}" for step in range(_STEPS)]):
        step = _step(models, inputs, values)
        moved = zip(inputs, step.values, strict=True)
        values = {each.key: values[each.key] + move * _spread(each) for each, move in moved}
        _check_positive(values)
    return Cluster(
        models[0].loaded, tuple(inputs), _fits(models, inputs, values, step), _rows(models, committed, values)
    )


def _modelled(measurements: Sequence[Measurement], progress: Watch) -> list[Modelled]:
    models = []
    problems: list[Problem] = []
    for each, _ in zip(measurements, progress([measurement.scenario for measurement in measurements]), strict=True):
        try:
            models.append(_model(each))
        except PodsimError as error:
            problems += _at_its_row(each, error)
    if problems:
        raise SpecError(problems)
    first = models[0]
    for model in models[1:]:
        if model.spec.software != first.spec.software:
            stack, other = model.spec.software.name, first.spec.software.name
            what = f"this runs on {stack}" + (" with other keys" if stack == other else f", not {other}")
            message = f"{what} as the scenario of {first.measured.row.where}"
            do = "keep the measurements of each stack in a file of their own"
            raise model.measured.row.wrong("scenario", message, do)
    return models


def _at_its_row(measured: Measurement, error: PodsimError) -> Iterator[Problem]:
    """Yield the errors of a run at the row of its measurement."""
    given = (
        error.problems if isinstance(error, SpecError) else (Problem(error.where or "", "", error.message, error.do),)
    )
    for each in given:
        column = "overrides" if each.where.startswith("--set") else "scenario"
        do = each.do or "mend the scenario"
        if each.key == VARIANTS:
            do = "write the scenario alone, or one of its variants behind `@`"
        yield Problem(measured.row.place(column), column, str(each).partition("\n")[0], do)


def _model(measured: Measurement) -> Modelled:
    name, _, variant = measured.scenario.partition("@")
    loaded = load_scenario(name, variant or None, measured.overrides)
    result = run(loaded)
    assert isinstance(result.assumptions, StandsOn)
    made = Modelled(measured, loaded, result.assumptions.spec, result.assumptions.probe)
    known = made.probe(made.spec, resplit=True)
    if known is None or measured.figure not in known.metrics:
        what = f"{measured.scenario} has no {measured.figure} to compare with"
        raise PodsimError(what, do=f"measure one of: {', '.join(known.metrics) if known else 'nothing'}")
    if not made.error:
        what = f"{made.spec.software.name} does not say what the model itself gets wrong"
        raise PodsimError(what, do="give a standard_error, or `model_scatter` to the stack, for example `3 %`")
    return made


def _matters(model: Modelled, each: Assumption) -> bool:
    return model.value({each.key: each.number + _spread(each)}) != model.value({})


def _spread(each: Assumption) -> float:
    """Return the standard deviation of a triangular distribution over the range of a number."""
    (low, high), middle = each.bounds, each.number
    squares = low**2 + high**2 + middle**2 - low * high - low * middle - high * middle
    return math.sqrt(squares / _TRIANGLE) or abs(middle) * _STEP


def _step(models: Sequence[Modelled], inputs: Sequence[Assumption], values: Mapping[str, float]) -> Solution:
    """Return how far to move constants, in standard deviations; measurements and ranges have a row each."""
    slopes, misses, weights = [], [], []
    for model in models:
        measured_s, here_s = _as_time(model, model.measured.value), _as_time(model, model.value(values))
        moved = ({**values, each.key: values[each.key] + _STEP * _spread(each)} for each in inputs)
        slopes.append([(_as_time(model, model.value(each)) - here_s) / _STEP for each in moved])
        misses.append(measured_s - here_s)
        weights.append(1 / (measured_s * model.error))
    for place, each in enumerate(inputs):
        slopes.append([float(place == other) for other in range(len(inputs))])
        misses.append((each.number - values[each.key]) / _spread(each))
        weights.append(1.0)
    return least_squares(slopes, misses, weights, weights_are_errors=True)


def _as_time(model: Modelled, value: float) -> float:
    """Return a time unchanged and the inverse of a rate, so that constants act linearly."""
    return 1 / value if METRICS[model.measured.figure].more_is_better else value


def _check_positive(values: Mapping[str, float]) -> None:
    for key, value in values.items():
        if value <= 0:
            what = f"the measurements ask for a {key} of {value:.3g}, and it cannot be below 0"
            raise PodsimError(what, do="check the units, and that each scenario is what was run")


def _fits(
    models: Sequence[Modelled], inputs: Sequence[Assumption], values: Mapping[str, float], step: Solution
) -> tuple[Fit, ...]:
    units = {key: _UNITS.get(dimension, "") for key, _, dimension in numbers(models[0].spec)}
    rows = " ".join(dict.fromkeys(model.measured.scenario for model in models))
    made = [
        Fit(each.key, each.number, values[each.key], units[each.key], rows, (error or 0.0) * _spread(each))
        for each, error in zip(inputs, step.standard_errors, strict=True)
    ]
    return correlated(made, step)


def _rows(
    models: Sequence[Modelled], committed: Mapping[str, float], values: Mapping[str, float]
) -> tuple[ComparedMeasurement, ...]:
    def misses(model: Modelled, constants: Mapping[str, float]) -> float:
        return model.value(constants) / model.measured.value - 1

    return tuple(
        ComparedMeasurement(model.measured, misses(model, committed), misses(model, values), model.error)
        for model in models
    )


_DIGITS = 4
_WIDE = 2
"""Half width of a range, in standard errors."""
_LEAST = 0.1
"""Lower end of a range as a share of the value, because constants are positive."""


def stack_of(found: Cluster, measured: Path, target: Path) -> str:
    """Return the file of a software stack that scenarios can name, `software: FILE.yaml`."""
    moved = [pair for pair in zip(found.inputs, found.fits, strict=True) if has_moved(pair[1])]
    name = f"{found.loaded.spec.software.name}, fitted to {measured.name}"
    head = [
        f"# Written by podsim calibrate --with {measured.name}: {len(found.rows)} measurements",
        "kind: software",
        f"base: {json.dumps(base_of(found.loaded, target.parent))}",
        f"name: {json.dumps(name, ensure_ascii=False)}",
    ]
    dimensions = {key: dimension for key, _, dimension in numbers(found.loaded.spec)}
    sources = "; ".join(dict.fromkeys(row.measured.source for row in found.rows))
    body = [line for each, fit in moved for line in _constant(each, fit, dimensions[each.key], sources)]
    return "\n".join([*head, *(body or ["# no constant moved"]), ""])


def has_moved(fit: Fit) -> bool:
    """Return True if four digits of a constant show a change."""
    return f"{fit.fitted:.{_DIGITS}g}" != f"{fit.committed:.{_DIGITS}g}"


def _constant(each: Assumption, fit: Fit, dimension: str, sources: str) -> Iterator[str]:
    error = fit.standard_error or 0.0
    low, high = max(fit.fitted - _WIDE * error, _LEAST * fit.fitted), fit.fitted + _WIDE * error
    yield f"{each.key.partition('.')[2]}:"
    yield f"  value: {in_unit_of(each, fit.fitted, dimension)}"
    yield f"  source: {json.dumps(sources, ensure_ascii=False)}"
    yield "  basis: calibrated"
    yield f"  range: [{in_unit_of(each, low, dimension)}, {in_unit_of(each, high, dimension)}]"
    note = f"standard error {in_unit_of(each, error, dimension)}; {each.value} before, of {each.source}"
    yield f"  note: {json.dumps(note, ensure_ascii=False)}"


def in_unit_of(each: Assumption, value: float, dimension: str) -> str:
    """Format a value in the unit in which a constant was written."""
    _, _, unit = each.value.partition(" ")
    if not unit or unit not in UNITS[dimension]:
        return f"{value:.{_DIGITS}g}"
    return f"{value / parse_quantity(f'1 {unit}', dimension):.{_DIGITS}g} {unit}"


def base_of(loaded: LoadedScenario, folder: Path) -> str:
    """Return the name of a scenario's software stack, as a file in a folder would write it."""
    stack: Any = merged_layers(loaded.written, loaded.variant, loaded.overrides).data.get("software")
    if isinstance(stack, Mapping) and set(stack) == {BASE}:
        stack = stack[BASE]
    if not isinstance(stack, str):
        what = "the scenario has keys of a software stack of its own, which no stack can be derived from"
        do = "write them to a file, name it at `software`, and measure that"
        raise PodsimError(what, where=loaded.where("software"), do=do)
    _, path = read_named(stack, "software", (loaded.folder,))
    if path.resolve().is_relative_to(data_root().resolve()):
        return path.stem
    return os.path.relpath(path.resolve(), folder.resolve())
