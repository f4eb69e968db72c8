"""A pipeline of a BERT that fits: few IPUs first, then the largest micro-batch on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from podsim.errors import DoesNotFitError, InfeasibleError
from podsim.importer.wording import megabytes
from podsim.plan import make_plan
from podsim.plan.job import training_job
from podsim.specs import ScenarioSpec
from podsim.specs.scenario import ParallelismSpec
from podsim.specs.wording import counted

_IPU_COUNTS = (1, 2, 4, 8)
MOST_IPUS = max(_IPU_COUNTS)
_MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
MICRO_BATCHES_PER_STAGE = 32


@dataclass(frozen=True, slots=True)
class EncoderFit:
    """The first pipeline that fits, with those tried before it.

    Attributes:
        parallelism: How the run is divided over IPUs.
        split: How layers were divided, in words.
        tried: A line for each number of IPUs, and for the micro-batch.
    """

    parallelism: ParallelismSpec
    split: str
    tried: tuple[str, ...]


def fit_encoder(spec: ScenarioSpec) -> EncoderFit | None:
    """Try 1, 2, 4 and 8 IPUs per replica with micro-batches of one sequence, then larger ones.

    Returns:
        The first pipeline that fits, or None.
    """
    tried: list[str] = []
    for count in _ipu_counts(spec):
        found = _largest_micro_batch(spec, count)
        if found is not None:
            parallelism, split = found
            size = counted(parallelism.micro_batch_size, "sequence")
            tried.append(f"{_ipus(count)}: fits; the largest micro-batch that does has {size}")
            return EncoderFit(parallelism, split, tuple(tried))
        tried.append(f"{_ipus(count)}: too little memory for one sequence at a time{_weights(spec, count)}")
    return None


def largest_failure(spec: ScenarioSpec) -> InfeasibleError:
    """Why the pipeline over the most IPUs does not fit either."""
    count = max(_ipu_counts(spec))
    try:
        make_plan(training_job(_divided(spec, next(_splits(spec, count))[0], 1)))
    except InfeasibleError as error:
        return error
    return DoesNotFitError("the pipelines that were tried do not fit")


def _ipu_counts(spec: ScenarioSpec) -> Iterator[int]:
    domain = spec.system.domain_ipu_count
    for count in _IPU_COUNTS:
        if not domain % count and count <= spec.model.layer_count + 1:
            yield count


def _ipus(count: int) -> str:
    return f"{counted(count, 'IPU')} per replica"


def _weights(spec: ScenarioSpec, count: int) -> str:
    need, capacity = _weight_bytes(spec) // count, _capacity(spec)
    if need <= capacity:
        return ""
    return f" (weights and gradients alone need {megabytes(need)} of {megabytes(capacity)})"


def _capacity(spec: ScenarioSpec) -> int:
    tile = spec.system.machine.ipu.tile
    return int(tile.count) * int(tile.memory)


def _weight_bytes(spec: ScenarioSpec) -> int:
    """Half-precision matrices with their accumulated gradients. [B]"""
    return 2 * 2 * (spec.model.layer_count * _layer_weights(spec) + _embedding_weights(spec))


def _layer_weights(spec: ScenarioSpec) -> int:
    model = spec.model
    return 4 * model.hidden_size**2 + 2 * model.hidden_size * model.feed_forward_size


def _embedding_weights(spec: ScenarioSpec) -> int:
    return spec.model.vocabulary_size * spec.model.hidden_size


def _largest_micro_batch(spec: ScenarioSpec, count: int) -> tuple[ParallelismSpec, str] | None:
    found = None
    if _weight_bytes(spec) // count > _capacity(spec):
        return None
    for size in _MICRO_BATCHES:
        fitting = _first_split(spec, count, size)
        if fitting is None:
            break
        found = fitting
    return found


def _first_split(spec: ScenarioSpec, count: int, size: int) -> tuple[ParallelismSpec, str] | None:
    for layers, words in _splits(spec, count):
        divided = _divided(spec, layers, size)
        try:
            make_plan(replace(training_job(divided), changes=()))
        except InfeasibleError:
            continue
        return divided.parallelism, words
    return None


def _splits(spec: ScenarioSpec, count: int) -> Iterator[tuple[list[int], str]]:
    """Layers of each IPU, the embedding and the head being on the first."""
    total = spec.model.layer_count
    if count == 1:
        yield [total], "one IPU holds all layers"
        return
    embedding = _embedding_weights(spec) / _layer_weights(spec)
    firsts = {
        round(_rest(total, count, _head_work(spec))): "even work, the head counted on the first IPU",
        round(_rest(total, count, embedding)): "even weights, the embedding counted on the first IPU",
        0: "the first IPU holds embedding and head alone",
    }
    for first, words in firsts.items():
        share, more = divmod(total - first, count - 1)
        yield [first, *(share + (place >= count - 1 - more) for place in range(count - 1))], words


def _rest(total: int, count: int, extra: float) -> float:
    """Layers left for the first of so many IPUs beside `extra` layers."""
    return max(0.0, (total + extra) / count - extra)


def _head_work(spec: ScenarioSpec) -> float:
    """Products of the masked-token head over those of a layer."""
    model, data = spec.model, spec.data
    head = (data.masked_token_count or 0) * model.hidden_size * (model.vocabulary_size + model.hidden_size)
    attention = 2 * data.sequence_length * model.hidden_size
    return head / (data.sequence_length * (_layer_weights(spec) + attention))


def _divided(spec: ScenarioSpec, layers: list[int], size: int) -> ScenarioSpec:
    stages = len(layers) if len(layers) == 1 else len(layers) + 1
    parallelism = ParallelismSpec(
        micro_batch_size=size,
        accumulation_factor=MICRO_BATCHES_PER_STAGE * stages,
        replication_factor=spec.system.ipu_count // len(layers),
        layers_per_ipu=layers,
    )
    return spec.model_copy(update={"parallelism": parallelism})
