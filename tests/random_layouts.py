"""Random legal layouts of a training scenario, to hold against the layout that `parallelism: auto` chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import ValidationError

from podsim.engine import execute
from podsim.errors import BadValueError, InfeasibleError, MissingDataError, ModelError
from podsim.placement.job import training_job
from podsim.placement.plan import make_plan, shared_cost_model
from podsim.program.compile import compile_program
from podsim.scenario import TrainingScenario
from podsim.scenario.convnet_training import ImageParallelismSpec
from podsim.scenario.transformer_training import NEAREST, MemorySpec, ParallelismSpec
from podsim.units import ps_to_seconds

SCHEDULES = (None, None, "lock_step", "grouped", "interleaved", "sequential")
_MOST_TRIES = 400
_SHARES = (0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0)
_IO_TILES = (0, 16, 32, 64, 96, 128, 160, 192, 256)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A random layout that fits, with its time."""

    spec: TrainingScenario
    update_s: float  # time of a weight update [s]


def update_s(spec: TrainingScenario, reserve: float | None = None) -> float | None:
    """Return the simulated time of a weight update that keeps the reserve, or None if it does not fit. [s]"""
    job = training_job(spec)
    margin = (job.software.memory_reserve or 0.0) if reserve is None else reserve
    job = job.laid_out(reserve=float(margin))
    try:
        plan = make_plan(job, shared_cost_model(job), advise=False)
    except (InfeasibleError, MissingDataError, ModelError):
        return None
    return ps_to_seconds(execute(compile_program(plan), explicit=False).makespan_ps)


def random_layouts(spec: TrainingScenario, batch_size: int, random: Random, wanted: int) -> Iterator[Drawn]:
    """Yield random layouts of a batch that are legal, fit and keep the reserve."""
    found = 0
    for _ in range(_MOST_TRIES * wanted):
        drawn = random_layout(spec, batch_size, random)
        time_s = None if drawn is None else update_s(drawn)
        if drawn is not None and time_s is not None:
            yield Drawn(drawn, time_s)
            found += 1
        if found == wanted:
            return


def random_layout(spec: TrainingScenario, batch_size: int, random: Random) -> TrainingScenario | None:
    """Return the scenario with random keys of its layout, or None if these do not go together."""
    draw = _images if isinstance(spec.parallelism, ImageParallelismSpec) else _transformer
    try:
        parallelism, memory = draw(spec, batch_size, random)
    except (ValidationError, BadValueError):
        return None
    drawn = spec.model_copy(update={"parallelism": parallelism, "memory": memory, "batch_size": batch_size})
    return None if any(drawn.division_findings()) or any(drawn.memory.findings(_tiles(spec))) else drawn


def _tiles(spec: TrainingScenario) -> int:
    return int(spec.system.machine.ipu.tile.count)


def _divisors(number: int, most: int) -> list[int]:
    return [each for each in range(1, min(number, most) + 1) if number % each == 0]


def _powers(most: int) -> list[int]:
    return [1 << exponent for exponent in range(most.bit_length())]


def _factors(spec: TrainingScenario, ipus: int, batch_size: int, random: Random) -> dict[str, int]:
    """Return replicas, micro-batch and micro-batches whose product is the batch."""
    room = spec.system.room_for(ipus)
    counts = _divisors(batch_size, room) or [1]
    replicas = counts[-1] if random.random() < 0.7 else random.choice(counts)
    size = random.choice(_divisors(batch_size // replicas, 64))
    return {
        "replication_factor": replicas,
        "micro_batch_size": size,
        "accumulation_factor": batch_size // replicas // size,
    }


def _transformer(spec: TrainingScenario, batch_size: int, random: Random) -> tuple[ParallelismSpec, MemorySpec]:
    domain, layers = spec.system.domain_ipu_count, spec.model.placed_layers
    phased = spec.system.machine.streaming_memory.capacity_per_ipu_bytes > 0 and random.random() < 0.6
    shards = random.choice(_powers(domain)) if phased or random.random() < 0.4 else 1
    keys: dict[str, Any] = {"tensor_parallel": shards, "recomputation": random.choice(["none", "layer"])}
    if shards > 1:
        keys["hidden_parallel"] = random.choice([1, random.choice(_divisors(shards, shards))])
        keys["sequence_parallel"] = keys["hidden_parallel"] == 1 and random.random() < 0.5
        if getattr(spec.model, "experts", None) is not None:
            keys["expert_parallel"] = random.choice(_divisors(shards, shards))
    keys["attention_serialisation"] = random.choice([1, 1, 1, 2, 4, 8])
    if random.random() < 0.1:
        keys["nearest"] = random.sample(NEAREST, len(NEAREST))
    memory: dict[str, Any] = {"available_memory_proportion": _share(random), "io_tiles": random.choice(_IO_TILES)}
    state: dict[str, Any] = {"replicated_tensor_sharding": random.random() < 0.6}
    stages = 1
    if phased:
        keys |= {"execution": "phased", "batch_serialisation": random.random() < 0.8}
        memory["overlapped_io"] = not memory["io_tiles"] or random.random() < 0.8
        memory["sharded_activations"] = keys.get("sequence_parallel", False) or random.random() < 0.6
    else:
        stages = random.choice([each for each in _powers(domain // shards) if each <= layers])
        keys |= {"pipeline_stages": stages, "schedule": random.choice(SCHEDULES)}
        if stages > 1 and random.random() < 0.15:
            keys["chunks_per_ipu"] = random.choice([2, 3, 4])
        if random.random() < 0.3:
            keys["head_on"] = random.choice(["first_ipu", "last_ipu"])
        state["storage"] = random.choice(["in_processor_memory", "streaming_memory"])
    keys |= _factors(spec, shards * stages, batch_size, random)
    kept = {name: getattr(spec.parallelism, name) for name in ("updates_per_session_call", "replicas_per_process")}
    kept_memory = {"reserve": spec.memory.reserve}
    return (
        ParallelismSpec.model_validate({**kept, **keys}),
        MemorySpec.model_validate({**kept_memory, **memory, "optimizer_state": state}),
    )


def _share(random: Random) -> float:
    return random.choice(_SHARES) if random.random() < 0.8 else round(random.uniform(0.05, 1.0), 3)


def _images(spec: TrainingScenario, batch_size: int, random: Random) -> tuple[ImageParallelismSpec, Any]:
    given = spec.parallelism
    assert isinstance(given, ImageParallelismSpec)
    order = training_job(spec).workload.order
    stages = random.choice([each for each in _powers(min(16, spec.system.domain_ipu_count)) if each <= len(order)])
    splits = _some(order, stages - 1, random)
    redone = random.choice(["none", "segment"])
    checkpoints = _some(order, random.randrange(0, 8), random) if redone == "segment" else ()
    keys = {
        "pipeline_splits": splits,
        "recomputation": redone,
        "checkpoints": checkpoints,
        "schedule": random.choice(SCHEDULES),
        "replicas_per_process": given.replicas_per_process,
        "updates_per_session_call": given.updates_per_session_call,
        "reduction_merge_size": given.reduction_merge_size,
        **_factors(spec, stages, batch_size, random),
    }
    memory = spec.memory.model_copy(
        update={"available_memory_proportion": _share(random), "io_tiles": random.choice(_IO_TILES)}
    )
    return ImageParallelismSpec.model_validate(keys), memory


def _some(order: Sequence[str], count: int, random: Random) -> tuple[str, ...]:
    """Return blocks behind the first, in order."""
    chosen = set(random.sample(order[1:], min(count, len(order) - 1)))
    return tuple(name for name in order if name in chosen)
