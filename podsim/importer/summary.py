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
    loaded: LoadedScenario, path: str | Path, request: Request, watch: Watch, smallest: str | None = None
) -> Iterator[str]:
    """Yield lines about an imported model; `smallest` is the smallest pod known to fit it, if any."""
    result = run(loaded)
    used_bytes, capacity = METRICS[FULLEST].get(result), result.memory.capacity_bytes(IN_PROCESSOR)
    memory = f"{format_bytes(used_bytes)} of {format_bytes(capacity)} ({format_percent(used_bytes / capacity, 0)})"
    yield f"fits: {result.simulated.machine}; the fullest IPU holds {memory}"
    parts = (f"{key}: {flow(loaded.document.value_at((key,)))}" for key in ("parallelism", "memory"))
    yield f"divided: {'; '.join(part for part in parts if not part.endswith('null'))}"
    yield from (f"verdict: {line}" for line in result.verdict)
    yield f"predicted: {result.figures_line}"
    if line := ranges_line(result.ranges):
        yield line
    yield f"smallest pod: {smallest_pod(loaded, path, replace(request, system=smallest or request.system), watch)}"


def smallest_pod(loaded: LoadedScenario, path: str | Path, request: Request, watch: Watch) -> str:
    """Return the smallest shipped pod of this chip that the model fits, or the requested pod if no smaller one."""
    requested, _ = load_hardware(request.system, "pod")
    assert isinstance(requested, System)
    smaller = [name for name, pod in smaller_pods(loaded.spec.system) if pod.ipu_count < requested.ipu_count]
    for name in watch(smaller):
        try:
            import_model(path, replace(request, system=name))
        except InfeasibleError:
            continue
        return name
    return request.system
