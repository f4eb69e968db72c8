"""The names of all numbers that tables of many results may hold."""

from __future__ import annotations

from podsim.report.base import SPENT
from podsim.report.forward import ForwardResult
from podsim.report.generation import GenerationResult
from podsim.report.result import RunResult


def figure_names() -> frozenset[str]:
    """Names of figures, and of mappings of figures, that a result of any kind may have."""
    return frozenset(
        (*SPENT, *(name for kind in (RunResult, GenerationResult, ForwardResult) for name in kind.FIGURES))
    )
