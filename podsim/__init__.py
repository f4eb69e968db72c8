"""podsim: how long a machine-learning run takes on an IPU-POD, and where the time goes.

>>> import podsim
>>> result = podsim.simulate("bert_v1.1_pod16_open")
>>> sum(result.breakdown.values()) == result.weight_update_s
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from podsim._version import __version__

if TYPE_CHECKING:
    from podsim.errors import (
        DoesNotFitError,
        InfeasibleError,
        MissingDataError,
        NoPlanError,
        OutputError,
        PodsimError,
        SpecError,
    )
    from podsim.forward import infer
    from podsim.generation import generate
    from podsim.report.forward import ForwardResult
    from podsim.report.generation import GenerationResult
    from podsim.report.result import RunResult
    from podsim.report.serving import ServingResult
    from podsim.service import serve
    from podsim.simulation import simulate
    from podsim.specs import load_scenario

_HOMES = {
    "simulate": "podsim.simulation",
    "generate": "podsim.generation",
    "infer": "podsim.forward",
    "ForwardResult": "podsim.report.forward",
    "GenerationResult": "podsim.report.generation",
    "serve": "podsim.service",
    "ServingResult": "podsim.report.serving",
    "load_scenario": "podsim.specs",
    "RunResult": "podsim.report.result",
} | dict.fromkeys(
    (
        "PodsimError",
        "SpecError",
        "InfeasibleError",
        "DoesNotFitError",
        "NoPlanError",
        "MissingDataError",
        "OutputError",
    ),
    "podsim.errors",
)

__all__ = [
    "DoesNotFitError",
    "ForwardResult",
    "GenerationResult",
    "InfeasibleError",
    "MissingDataError",
    "NoPlanError",
    "OutputError",
    "PodsimError",
    "RunResult",
    "ServingResult",
    "SpecError",
    "__version__",
    "generate",
    "infer",
    "load_scenario",
    "serve",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts at once."""
    if name not in _HOMES:
        raise AttributeError(f"module `podsim` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
