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
    from podsim.result.cost import (
        cost_convolution,
        cost_matmul,
        cost_multi_slice,
        cost_multi_update_add,
        cost_schnet_block,
    )
    from podsim.result.cost_movement import cost_collective, cost_transfer
    from podsim.result.inference import ForwardResult, GenerationResult
    from podsim.result.result import RunResult
    from podsim.result.serving import ServingResult
    from podsim.runs import generate, infer, run, simulate
    from podsim.runs.serve import serve
    from podsim.scenario import catalogue, load_scenario
    from podsim.scenario import load_scenario as load
    from podsim.study.check.measure import check
    from podsim.study.compare import Comparison, compare
    from podsim.study.plan import plan
    from podsim.study.sweep import SweepResult, sweep
    from podsim.study.whatif import WhatIf, whatif
    from podsim.validation.compare import validate

    list = catalogue.shipped_list  # noqa: A001

_NAMES_BY_HOME = {
    "podsim.runs": "run simulate generate infer",
    "podsim.runs.serve": "serve",
    "podsim.chakra.replay": "Replay replay",
    "podsim.result.inference": "ForwardResult GenerationResult",
    "podsim.result.serving": "ServingResult",
    "podsim.scenario": "load load_scenario",
    "podsim.result.result": "RunResult",
    "podsim.study.compare": "Comparison compare",
    "podsim.study.sweep": "SweepResult sweep",
    "podsim.study.plan": "plan",
    "podsim.study.check.measure": "check",
    "podsim.scenario.catalogue": "list",
    "podsim.validation.compare": "validate",
    "podsim.study.whatif": "WhatIf whatif",
    "podsim.result.cost": "cost_convolution cost_matmul cost_multi_slice cost_multi_update_add cost_schnet_block",
    "podsim.result.cost_movement": "cost_collective cost_transfer",
    "podsim.errors": "PodsimError SpecError InfeasibleError DoesNotFitError MissingMethodError NoPlanError"
    " MissingDataError OutputError",
}
_HOMES = {name: home for home, names in _NAMES_BY_HOME.items() for name in names.split()}
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
    "WhatIf",
    "__version__",
    "check",
    "compare",
    "cost_collective",
    "cost_convolution",
    "cost_matmul",
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
    """Return the public names, used or not, and what Python gives every module."""
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # a type checker would take any name for a public one

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used, so that the command line starts at once."""
        if name not in _HOMES:
            raise AttributeError(f"module `podsim` has no attribute `{name}`")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), _NAMES.get(name, name))
