"""Summary of an import: memory, layout, predicted figures with ranges, and the smallest pod."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from podsim.errors import InfeasibleError
from podsim.format import format_bytes, format_percent
from podsim.importer import import_model
from podsim.importer.request import Request
from podsim.metrics import FULLEST, METRICS
from podsim.result.influence import ranges_line
from podsim.result.rows import IN_PROCESSOR
from podsim.runs import run
from podsim.scenario import LoadedScenario, System, load_hardware
from podsim.scenario.pods import smaller_pods
from podsim.scenario.wording import flow
from podsim.watch import Watch


def summary(
    loaded: LoadedScenario, path: str | Path, request: Request, watch: Watch, fits: str | None = None
) -> Iterator[str]:
    """Yield lines about an imported model; `fits` is the smallest pod that it is known to fit."""
    result = run(loaded)
    fullest, capacity = METRICS[FULLEST].get(result), result.memory.capacity_bytes(IN_PROCESSOR)
    held = f"{format_bytes(fullest)} of {format_bytes(capacity)} ({format_percent(fullest / capacity, 0)})"
    yield f"fits: {result.simulated.machine}; the fullest IPU holds {held}"
    parts = (f"{key}: {flow(loaded.document.value_at((key,)))}" for key in ("parallelism", "memory"))
    yield f"divided: {'; '.join(part for part in parts if not part.endswith('null'))}"
    yield from (f"verdict: {each}" for each in result.verdict)
    yield f"predicted: {result.figures_line}"
    if known := ranges_line(result.ranges):
        yield known
    yield f"smallest pod: {smallest_pod(loaded, path, replace(request, system=fits or request.system), watch)}"


def smallest_pod(loaded: LoadedScenario, path: str | Path, request: Request, watch: Watch) -> str:
    """Return the smallest shipped pod of this chip that the model fits, or the requested pod if no smaller one."""
    known, _ = load_hardware(request.system, "pod")
    assert isinstance(known, System)
    smaller = [name for name, pod in smaller_pods(loaded.spec.system) if pod.ipu_count < known.ipu_count]
    for name in watch(smaller):
        try:
            import_model(path, replace(request, system=name))
        except InfeasibleError:
            continue
        return name
    return request.system
