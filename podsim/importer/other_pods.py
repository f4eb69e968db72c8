"""Where a model fits that does not fit the pod it was asked for."""

from __future__ import annotations

from collections.abc import Callable

from podsim.errors import DoesNotFitError, InfeasibleError, MissingMethodError
from podsim.plan.fit import HELPS
from podsim.specs import System
from podsim.specs.pods import larger_pods

_SMALLER = "import a smaller model, or ask for fewer tokens or a smaller batch"


def fits_elsewhere(
    system: System,
    divided: str,
    fits: Callable[[System], bool],
    failure: Callable[[System], InfeasibleError],
    smaller: str = _SMALLER,
) -> DoesNotFitError:
    """The smallest shipped pod on which the model fits, or what is too large.

    Args:
        system: The pod on which it does not fit.
        divided: How it was divided, in words.
        fits: Whether it fits another pod.
        failure: Why it does not fit a pod.
        smaller: What to do if it fits none.
    """
    pods = dict(larger_pods(system))
    for name, pod in pods.items():
        if fits(pod):
            what = f"the model does not fit {system.name}, {divided}"
            return DoesNotFitError(what, do=f"use `--system {name}`, the smallest shipped pod on which it fits")
    largest = max([system, *pods.values()], key=lambda pod: pod.domain_ipu_count)
    error = failure(largest)
    what = f"the model fits no shipped pod, {divided}; on {largest.name}, {error.message}"
    if isinstance(error, MissingMethodError):
        return MissingMethodError(what, do=error.do)
    return DoesNotFitError(what, do=_cure(error, smaller))


def _cure(error: InfeasibleError, smaller: str) -> str:
    if error.do and error.do.startswith(HELPS):
        return f"{smaller}; in a scenario of your own, {error.do}"
    return smaller
