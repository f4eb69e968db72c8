"""How far a prediction is off though its inputs are right, and how that grows with distance from what was measured.

The numbers come from the errors of runs that were left out: their configuration alone, or with it all of their
framework, model family, chip, or size, while constants were fitted to the rest (`podsim calibrate --leave-out`). They
are kept in `reference_data/scatter.json`. A distance that a scenario has adds its own variance:

    sigma² = base² + framework² + family² + size² · log2(IPUs / most) + hardware² · Σ ln²(number / nearest covered)

The sum goes over the numbers of the machine that no compared run reaches. All errors are logarithms of predicted over
measured time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from podsim.result.envelope import HARDWARE, hardware_of
from podsim.scenario import data_file
from podsim.scenario.activity import Activity
from podsim.scenario.scenario import Scenario

FILE: Final = "reference_data/scatter.json"
ALL: Final = "all"
KERNELS: Final = ("convolution", "transfer")
"""Beside matrix products what is measured alone."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """What the model itself gets wrong.

    Attributes:
        sigma: Standard deviation of the logarithm of predicted over measured time.
        reasons: What makes it wider than that of runs that were compared, in words.
    """

    sigma: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Traits:
    """What a distance is measured by.

    Attributes:
        activity: Training, text generation or forward passes.
        framework: Framework of the software stack; versions of one framework are alike.
        family: Kind of the model.
        ipu_count: IPUs in use.
        hardware: Numbers of the machine by key, in SI units.
    """

    activity: str
    framework: str
    family: str
    ipu_count: int
    hardware: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Covered:
    """What runs of one activity have been compared.

    Attributes:
        base: Standard deviations by framework; those of the activity under `all`.
        families: Kinds of models.
        ipu_count: Most IPUs.
        hardware: Least and greatest of each number.
    """

    base: Mapping[str, float]
    families: tuple[str, ...]
    ipu_count: int
    hardware: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ScatterTable:
    """What left-out errors say.

    Attributes:
        covered: By activity.
        base: Standard deviation over all activities.
        steps: By kind of distance, `activity`, `framework`, `family`, `size` and `hardware`, then by activity or `all`.
        products: Standard deviations of matrix products on one chip, by format of their operands, and beside them of
            each kind of `KERNELS`.
    """

    covered: Mapping[str, Covered]
    base: float
    steps: Mapping[str, Mapping[str, float]]
    products: Mapping[str, float] = field(default_factory=dict)

    def of_product(self, dtype: str) -> Scatter:
        """The scatter of a matrix product; one in a format that nobody measured is as far off as another family.

        Args:
            dtype: Format of its operands.
        """
        if dtype in self.products:
            return Scatter(self.products[dtype])
        measured = [sigma for name, sigma in self.products.items() if name not in KERNELS]
        sigma = math.hypot(max(measured), self.steps["family"][ALL])
        return Scatter(sigma, (f"no product in {dtype} has been compared",))

    def of_kernel(self, kind: str) -> Scatter:
        """The scatter of a convolution or a transfer; of what nobody measured, that of an activity nobody measured.

        Args:
            kind: One of `KERNELS`, or what else it is.
        """
        if kind in self.products:
            return Scatter(self.products[kind])
        sigma = math.hypot(self.products["transfer"], self.steps["activity"][ALL])
        return Scatter(sigma, (f"no {kind} has been compared",))

    def of(self, traits: Traits) -> Scatter:
        """The scatter of a run.

        Args:
            traits: What it is.
        """
        found = self.covered.get(traits.activity)
        if found is None:
            variance = self.base**2 + self._step("activity", traits) ** 2
            return Scatter(math.sqrt(variance), (f"{traits.activity} has never been compared with a measurement",))
        variance, reasons = found.base.get(traits.framework, found.base[ALL]) ** 2, []
        words = Activity(traits.activity).words
        if traits.framework not in found.base:
            variance += self._step("framework", traits) ** 2
            reasons.append(f"no {words} with {traits.framework} is among the runs that ranges come from")
        if traits.family not in found.families:
            variance += self._step("family", traits) ** 2
            reasons.append(f"no {words} of a model of kind `{traits.family}` is among the runs that ranges come from")
        if traits.ipu_count > found.ipu_count:
            variance += self._step("size", traits) ** 2 * math.log2(traits.ipu_count / found.ipu_count)
            reasons.append(f"{traits.ipu_count:,} IPUs, where at most {found.ipu_count:,} have been compared")
        beyond = {key: far for key, value in traits.hardware.items() if (far := _far(value, found.hardware.get(key)))}
        if beyond:
            variance += self._step("hardware", traits) ** 2 * sum(far * far for far in beyond.values())
            farthest = sorted(beyond, key=lambda key: -abs(beyond[key]))
            named = ", ".join(f"{_named(key)} ({_times(beyond[key])})" for key in farthest[:3])
            more = f" and {len(beyond) - 3} more numbers" if len(beyond) > 3 else ""
            reasons.append(f"the machine lies beyond all compared ones in {named}{more}")
        return Scatter(math.sqrt(variance), tuple(reasons))

    def _step(self, kind: str, traits: Traits) -> float:
        steps = self.steps[kind]
        return steps.get(traits.activity, steps[ALL])


def _far(value: float, bounds: tuple[float, float] | None) -> float:
    """Logarithm of a number over the nearest that is covered; 0 inside, and where nothing is known of either."""
    if bounds is None or value <= 0 or bounds[0] <= 0:
        return 0.0
    return max(0.0, math.log(value / bounds[1])) or min(0.0, math.log(value / bounds[0]))


def _named(key: str) -> str:
    """A number of the machine in words.

    >>> _named("clock_hz")
    'clock'
    """
    return HARDWARE[key][0].rstrip(",") if key in HARDWARE else f"`{key}`"


def _times(far: float) -> str:
    """A distance as a factor.

    >>> _times(math.log(2)), _times(-math.log(4))
    ('2 × the greatest', '0.25 × the least')
    """
    return f"{math.exp(far):.3g} × the {'greatest' if far > 0 else 'least'}"


def framework_of(name: str) -> str:
    """A framework without its version.

    >>> framework_of("TensorFlow 2"), framework_of("PopART")
    ('TensorFlow', 'PopART')
    """
    return name.rstrip("0123456789. ")


def traits_of(spec: Scenario, ipu_count: int) -> Traits:
    """What a distance is measured by.

    Args:
        spec: The scenario, its division chosen.
        ipu_count: IPUs in use.
    """
    hardware = {key: float(number) for key, number in hardware_of(spec).items()}
    return Traits(spec.activity.value, framework_of(spec.software.framework), spec.model.kind, ipu_count, hardware)


def scatter_of(spec: Scenario) -> Scatter:
    """What predictions for a scenario are off by though their inputs are right.

    A stack that gives `model_scatter` is believed.

    Args:
        spec: The scenario, its division chosen.
    """
    given = spec.software.model_scatter
    if given is not None:
        return Scatter(float(given))
    from podsim.result.usage import one_copy, replicas_in_use

    usage = one_copy(spec) if spec.activity is Activity.GENERATION else replicas_in_use(spec)
    return table().of(traits_of(spec, usage.ipus_used))


@lru_cache
def table() -> ScatterTable:
    """What ships."""
    return table_of(json.loads(data_file(FILE).read_text(encoding="utf-8"))["table"])


def table_of(plain: Mapping[str, Any]) -> ScatterTable:
    """A table from plain data.

    Args:
        plain: As `plain_table` writes it.
    """
    covered = {
        activity: Covered(
            each["base"],
            tuple(each["families"]),
            each["ipu_count"],
            {key: (low, high) for key, (low, high) in each["hardware"].items()},
        )
        for activity, each in plain["covered"].items()
    }
    return ScatterTable(covered, plain["base"], plain["steps"], plain["products"])


def plain_table(found: ScatterTable) -> dict[str, Any]:
    """A table as plain data.

    Args:
        found: The table.
    """
    return {
        "base": found.base,
        "products": dict(found.products),
        "steps": {kind: dict(steps) for kind, steps in found.steps.items()},
        "covered": {
            activity: {
                "base": dict(each.base),
                "families": list(each.families),
                "ipu_count": each.ipu_count,
                "hardware": {key: list(bounds) for key, bounds in each.hardware.items()},
            }
            for activity, each in found.covered.items()
        },
    }
