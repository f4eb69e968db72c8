"""A division of a decoder that fits: few IPUs first, weights resident before streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from podsim.errors import DoesNotFitError, InfeasibleError
from podsim.importer.wording import listed, megabytes
from podsim.plan.inference import InferenceJob, StepCost, plan_inference, stage_memory, step_costs
from podsim.plan.memory import IpuMemory
from podsim.specs.wording import counted

_STORAGES = ("in_processor_memory", "streaming_memory")
_STORAGE_WORDS = {"in_processor_memory": "In-Processor-Memory", "streaming_memory": "streaming memory"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A division and what became of it.

    Attributes:
        shards: IPUs that share every layer.
        stages: Pipeline stages.
        streamed: Whether weights are loaded for every step.
        outcome: `fits`, or why it does not.
        detail: The memory that is short, in words.
    """

    shards: int
    stages: int
    streamed: bool
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DecoderFit:
    """The first division that fits, with those tried before it.

    Attributes:
        shards: IPUs that share every layer.
        stages: Pipeline stages.
        streamed: Whether weights are loaded for every step.
        tried: A line for each kind of division.
        widest: The most IPUs that could share every layer where weights are streamed.
    """

    shards: int
    stages: int
    streamed: bool
    tried: tuple[str, ...]
    widest: int


def fit_decoder(job: InferenceJob) -> DecoderFit | None:
    """Try 1, 2, 4, … IPUs, then pipelines of such groups; weights resident first, then streamed.

    Returns:
        The first division that fits, or None.
    """
    attempts: list[Attempt] = []
    costs_with = lru_cache(lambda shards: step_costs(_divided(job, 1, shards, streamed=False)))
    for stages, shards, streamed in _divisions(job):
        attempt = _attempt(job, stages, shards, costs_with, streamed=streamed)
        attempts.append(attempt)
        if attempt.outcome == "fits":
            widest = _widest(job) if streamed else shards
            return DecoderFit(shards, stages, streamed, tuple(_lines(attempts)), widest)
    return None


def widest_failure(job: InferenceJob) -> InfeasibleError:
    """Why the division over the most IPUs does not fit either."""
    shards = _widest(job)
    stages = [stages for stages, count, _ in _divisions(job) if count == shards]
    try:
        plan_inference(_divided(job, max(stages), shards, streamed=True))
    except InfeasibleError as error:
        return error
    return DoesNotFitError("the divisions that were tried do not fit")


def _divisions(job: InferenceJob) -> Iterator[tuple[int, int, bool]]:
    """(stages, shards, streamed) in the order in which they are tried."""
    domain = job.system.domain_ipu_count
    for streamed in (False, True):
        for stages in _powers(min(domain, job.shape.layer_count)):
            for shards in _powers(domain // stages):
                yield stages, shards, streamed


def _powers(most: int) -> Iterator[int]:
    count = 1
    while count <= most:
        yield count
        count *= 2


def _undivided(job: InferenceJob, shards: int) -> str:
    shape = job.shape
    if shape.head_count % shards:
        return f"cannot share {shape.head_count} heads"
    if shape.feed_forward_size % shards:
        return f"cannot share a feed-forward width of {shape.feed_forward_size}"
    return ""


def _widest(job: InferenceJob) -> int:
    return max(count for count in _powers(job.system.domain_ipu_count) if not _undivided(job, count))


def _divided(job: InferenceJob, stages: int, shards: int, *, streamed: bool) -> InferenceJob:
    options = replace(job.options, tensor_parallel=shards, pipeline_stages=stages, weights_streamed=streamed)
    return replace(job, options=options)


def _attempt(
    job: InferenceJob,
    stages: int,
    shards: int,
    costs_with: Callable[[int], tuple[StepCost, StepCost]],
    *,
    streamed: bool,
) -> Attempt:
    undivided = _undivided(job, shards)
    if undivided:
        return Attempt(shards, stages, streamed, undivided)
    divided = _divided(job, stages, shards, streamed=streamed)
    capacity = job.system.machine.ipu.memory_bytes
    share = divided.options.weight_bytes(job.shape.parameter_count) // stages
    if not streamed and share > capacity:
        need = f"weights alone are {megabytes(share)} of {megabytes(capacity)}"
        return Attempt(shards, stages, streamed, "too little memory", need)
    try:
        memory = stage_memory(divided, costs_with(shards))
    except InfeasibleError:
        return Attempt(shards, stages, streamed, "no plan for a matrix product")
    if all(ipu.fits for ipu in memory):
        return Attempt(shards, stages, streamed, "fits", _need(memory))
    return Attempt(shards, stages, streamed, "too little memory", _need(memory))


def _need(memory: Sequence[IpuMemory]) -> str:
    """The memory that is fullest, in words."""
    shares = [
        (ipu.used_bytes(storage) / capacity, ipu.used_bytes(storage), capacity, storage)
        for ipu in memory
        for storage, capacity in zip(_STORAGES, (ipu.capacity_bytes, ipu.streaming_capacity_bytes), strict=True)
    ]
    _, used, capacity, storage = max(shares)
    where = "" if storage == _STORAGES[0] else f" {_STORAGE_WORDS[storage]}"
    return f"{megabytes(used)} of {megabytes(capacity)}{where}"


def _lines(attempts: Iterable[Attempt]) -> Iterator[str]:
    for (streamed, stages), group in groupby(attempts, lambda each: (each.streamed, each.stages)):
        parts = [_part(outcome, list(each)) for outcome, each in groupby(group, lambda each: each.outcome)]
        weights = "streamed weights" if streamed else "resident weights"
        yield f"{weights}, {counted(stages, 'stage')} {'; '.join(parts)}"


def _part(outcome: str, attempts: Sequence[Attempt]) -> str:
    last = attempts[-1]
    counts = listed([str(each.shards) for each in attempts])
    subject = f"of {counts} {'IPU' if counts == '1' else 'IPUs'}"
    largest = f"with {last.shards}, " if len(attempts) > 1 else ""
    return f"{subject}: {outcome}{f' ({largest}{last.detail})' if last.detail else ''}"
