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
    from collections.abc import Sequence

    from podsim.chakra.replay import Replay, replay
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
    from podsim.many.capacity.answer import plan
    from podsim.many.checks.run import check
    from podsim.many.compare import Comparison, compare
    from podsim.many.sweeps import SweepResult, Swept, sweep
    from podsim.many.whatif import WhatIf, whatif
    from podsim.result.forward import ForwardResult
    from podsim.result.generation import GenerationResult
    from podsim.result.kernel_view import cost_multi_slice, cost_multi_update_add, cost_schnet_block
    from podsim.result.movement_view import cost_collective, cost_transfer
    from podsim.result.plan_view import cost_convolution
    from podsim.result.result import RunResult
    from podsim.result.serving import ServingResult
    from podsim.runs import generate, infer, run, simulate
    from podsim.runs.serve import serve
    from podsim.scenario import load_scenario
    from podsim.scenario import load_scenario as load
    from podsim.validation.compare import validate

_HOMES = {
    "run": "podsim.runs",
    "simulate": "podsim.runs",
    "generate": "podsim.runs",
    "infer": "podsim.runs",
    "serve": "podsim.runs.serve",
    "Replay": "podsim.chakra.replay",
    "replay": "podsim.chakra.replay",
    "ForwardResult": "podsim.result.forward",
    "GenerationResult": "podsim.result.generation",
    "ServingResult": "podsim.result.serving",
    "load": "podsim.scenario",
    "load_scenario": "podsim.scenario",
    "RunResult": "podsim.result.result",
    "Comparison": "podsim.many.compare",
    "compare": "podsim.many.compare",
    "SweepResult": "podsim.many.sweeps",
    "Swept": "podsim.many.sweeps",
    "sweep": "podsim.many.sweeps",
    "plan": "podsim.many.capacity.answer",
    "check": "podsim.many.checks.run",
    "list": "podsim.scenario.catalogue",
    "validate": "podsim.validation.compare",
    "WhatIf": "podsim.many.whatif",
    "whatif": "podsim.many.whatif",
    "cost_multi_slice": "podsim.result.kernel_view",
    "cost_multi_update_add": "podsim.result.kernel_view",
    "cost_schnet_block": "podsim.result.kernel_view",
    "cost_collective": "podsim.result.movement_view",
    "cost_convolution": "podsim.result.plan_view",
    "cost_transfer": "podsim.result.movement_view",
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
_NAMES = {"load": "load_scenario", "list": "shipped_list"}

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
    "Replay",
    "RunResult",
    "ServingResult",
    "SpecError",
    "SweepResult",
    "Swept",
    "WhatIf",
    "__version__",
    "check",
    "compare",
    "cost_collective",
    "cost_convolution",
    "cost_multi_slice",
    "cost_multi_update_add",
    "cost_schnet_block",
    "cost_transfer",
    "generate",
    "infer",
    "load",
    "load_scenario",
    "plan",
    "replay",
    "run",
    "serve",
    "simulate",
    "sweep",
    "validate",
    "whatif",
]
"""`list` is a function of podsim too; a star that imports all would hide that of Python."""


def __dir__() -> Sequence[str]:
    """The public names, those too that nobody has used yet."""
    return sorted({*globals(), *_HOMES})


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts at once."""
    if name not in _HOMES:
        raise AttributeError(f"module `podsim` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), _NAMES.get(name, name))
