"""podsim: how long a machine-learning run takes on an IPU-POD, and where the time goes.

>>> import podsim
>>> result = podsim.run("bert_v1.1_pod16_open")
>>> sum(result.breakdown.values()) == result.weight_update_s
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from podsim._version import __version__

if TYPE_CHECKING:
    from podsim.activity import generate, infer, run, simulate
    from podsim.activity.serve import serve
    from podsim.comparisons import Comparison, compare
    from podsim.errors import (
        DoesNotFitError,
        InfeasibleError,
        MissingDataError,
        MissingMethodError,
        NoPlanError,
        OutputError,
        PodsimError,
        SpecError,
    )
    from podsim.report.forward import ForwardResult
    from podsim.report.generation import GenerationResult
    from podsim.report.result import RunResult
    from podsim.report.serving import ServingResult
    from podsim.specs import load_scenario
    from podsim.specs import load_scenario as load
    from podsim.sweeps import Swept, sweep

_HOMES = {
    "run": "podsim.activity",
    "simulate": "podsim.activity",
    "generate": "podsim.activity",
    "infer": "podsim.activity",
    "serve": "podsim.activity.serve",
    "ForwardResult": "podsim.report.forward",
    "GenerationResult": "podsim.report.generation",
    "ServingResult": "podsim.report.serving",
    "load": "podsim.specs",
    "load_scenario": "podsim.specs",
    "RunResult": "podsim.report.result",
    "Comparison": "podsim.comparisons",
    "compare": "podsim.comparisons",
    "Swept": "podsim.sweeps",
    "sweep": "podsim.sweeps",
} | dict.fromkeys(
    (
        "PodsimError",
        "SpecError",
        "InfeasibleError",
        "DoesNotFitError",
        "MissingMethodError",
        "NoPlanError",
        "MissingDataError",
        "OutputError",
    ),
    "podsim.errors",
)
_NAMES = {"load": "load_scenario"}

__all__ = [
    "Comparison",
    "DoesNotFitError",
    "ForwardResult",
    "GenerationResult",
    "InfeasibleError",
    "MissingDataError",
    "MissingMethodError",
    "NoPlanError",
    "OutputError",
    "PodsimError",
    "RunResult",
    "ServingResult",
    "SpecError",
    "Swept",
    "__version__",
    "compare",
    "generate",
    "infer",
    "load",
    "load_scenario",
    "run",
    "serve",
    "simulate",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts at once."""
    if name not in _HOMES:
        raise AttributeError(f"module `podsim` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), _NAMES.get(name, name))
