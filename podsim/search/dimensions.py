"""The keys that a search of training may choose, each with the values that are tried; a new key is a line here.

A key that is given is kept. `SHARED` say how IPUs share every layer; `SHARING` are those of a pipeline, which is then
cut by dynamic programming. `WAYS` divide phases and `STREAMED` say how phases load and store. Keys are chosen in this
order, given ones first: values may depend on earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Any

from podsim.placement.layout import NEAREST
from podsim.scenario import LoadedScenario, TrainingScenario
from podsim.scenario.families.base import GeneratorSpec
from podsim.scenario.sections import shard_findings
from podsim.scenario.training import OptimizerStateSpec
from podsim.scenario.transformer_training import ParallelismSpec
from podsim.scenario.wording import flow

Key = tuple[str, ...]
"""Where a key is in a scenario."""
MOST_SAMPLES = 1024
"""The largest micro-batch that is tried."""
EXECUTION, SCHEDULE = ("parallelism", "execution"), ("parallelism", "schedule")
SHARE = ("memory", "available_memory_proportion")
IO_TILES, PARTS = ("memory", "io_tiles"), ("parallelism", "attention_serialisation")
_HARDLY_FEWER = 0.9
_USUAL_IO_TILES = 64
# Of published configurations of PopXL, which set aside 64 or 128 [popxl_bert].
_TRIED_IO_TILES = (0, 16, 32, 48, 64, 96, 128, 192, 256)
_MOST_PARTS = 16


def divisors(number: int, most: int) -> list[int]:
    """Divisors of a number up to `most`, smallest first.

    >>> divisors(12, 6)
    [1, 2, 3, 4, 6]
    """
    return [each for each in range(1, min(number, most) + 1) if number % each == 0]


def powers_of_two(most: int) -> Iterator[int]:
    """1, 2, 4, … up to `most`."""
    yield from (1 << exponent for exponent in range(most.bit_length()))


def most_replicas(counts: Sequence[int]) -> list[int]:
    """Return the largest numbers of replicas, up to a tenth fewer, and one; the largest first.

    With fewer there is less to compute with, but for models so small that reducing gradients costs more.

    >>> most_replicas([1, 2, 15, 16])
    [16, 15, 1]
    """
    return [count for count in reversed(counts) if count >= _HARDLY_FEWER * counts[-1] or count == 1]


def batch_of(spec: TrainingScenario) -> int:
    """Return the number of samples per weight update, which every search needs."""
    assert spec.batch_size is not None
    return spec.batch_size


@dataclass(frozen=True, slots=True)
class Dimension:
    """A key and what it may be."""

    key: Key
    values: Callable[[TrainingScenario], Iterable[Any]]  # those to try, given what was chosen before


def _shard_counts(spec: TrainingScenario) -> Iterator[int]:
    """Return powers of two, or their multiples of the smallest count with a whole grid and whole groups."""
    sharing = spec.parallelism.shards
    least = lcm(sharing.width_parts, sharing.expert_groups)
    counts = (least * count for count in powers_of_two(spec.system.domain_ipu_count // least))
    if _divides_width(spec):
        return counts
    return (count for count in counts if not any(shard_findings(spec.model, count // sharing.width_parts)))


def _divides_width(spec: TrainingScenario) -> bool:
    return isinstance(spec.model, GeneratorSpec) and spec.model.shape.experts is None


def _width_parts(spec: TrainingScenario) -> Iterator[int]:
    count = spec.parallelism.shards.count
    return (each for each in powers_of_two(count if _divides_width(spec) else 1) if count % each == 0)


def _expert_groups(spec: TrainingScenario) -> list[int]:
    experts, count = getattr(spec.model, "experts", None), spec.parallelism.shards.count
    return (
        divisors(gcd(experts.count, count), count) if experts and not spec.parallelism.shards.width_parts > 1 else [1]
    )


def _token_divisions(spec: TrainingScenario) -> tuple[bool, ...]:
    side_by_side = getattr(spec.model, "parallel_blocks", "none") != "none"
    sharing = spec.parallelism.shards
    return (False,) if sharing.count == 1 or sharing.width_parts > 1 or side_by_side else (True, False)


def _whole(*_: object) -> tuple[int, ...]:
    return (1,)


def attention_parts(spec: TrainingScenario) -> list[int]:
    """Return the numbers of parts of an attention that are tried where fewer leave no room, the fewest first."""
    parallelism = spec.parallelism
    assert isinstance(parallelism, ParallelismSpec)
    return list(powers_of_two(min(_MOST_PARTS, spec.model.shortest_sequence(spec.data))))


def _replica_counts(spec: TrainingScenario) -> list[int]:
    """Return the most replicas that batch and pod allow, slightly smaller numbers, and one."""
    return most_replicas(divisors(batch_of(spec), spec.system.room_for(spec.parallelism.shards.count)))


def _state_shardings(spec: TrainingScenario) -> tuple[bool, ...]:
    return (True, False) if spec.parallelism.replication_factor > 1 else (False,)


def _activation_shardings(spec: TrainingScenario) -> tuple[bool, ...]:
    sharing = spec.parallelism.shards
    return (True,) if sharing.column_count == 1 or sharing.divide_tokens else (True, False)


def _overlaps(spec: TrainingScenario) -> tuple[bool, ...]:
    # I/O tiles that do not overlap only leave fewer to compute.
    return (True,)


def _io_tiles(spec: TrainingScenario) -> tuple[int, ...]:
    return (_USUAL_IO_TILES, 0) if spec.system.machine.ipu.tile.count > 2 * _USUAL_IO_TILES else (0,)


def io_tiles_near(spec: TrainingScenario) -> list[int]:
    """Return the tried numbers of I/O tiles just below and just above the number of a layout."""
    most, given = spec.system.machine.ipu.tile.count // 2, spec.memory.io_tiles
    fewer = [each for each in _TRIED_IO_TILES if each < given]
    more = [each for each in _TRIED_IO_TILES if given < each < most]
    return [*fewer[-1:], *more[:1]]


_SHARDS = ("parallelism", "tensor_parallel")
SHARED = (
    Dimension(_SHARDS, _shard_counts),
    Dimension(("parallelism", "hidden_parallel"), _width_parts),
    Dimension(("parallelism", "expert_parallel"), _expert_groups),
    Dimension(PARTS, _whole),
    Dimension(("parallelism", "nearest"), lambda _: (list(NEAREST),)),
    Dimension(("parallelism", "sequence_parallel"), _token_divisions),
)
SHARING = (*SHARED, Dimension(SCHEDULE, lambda _: (None,)))
WAYS = (
    *SHARED,
    Dimension(("parallelism", "replication_factor"), _replica_counts),
    Dimension(("parallelism", "recomputation"), lambda _: ("none", "layer")),
)
STREAMED = (
    Dimension(("parallelism", "batch_serialisation"), lambda _: (True, False)),
    Dimension(("memory", "optimizer_state", "replicated_tensor_sharding"), _state_shardings),
    Dimension(("memory", "sharded_activations"), _activation_shardings),
    Dimension(("memory", "overlapped_io"), _overlaps),
)
TILES = Dimension(IO_TILES, _io_tiles)
PHASED = (*WAYS, *STREAMED, TILES)


class Pins:
    """Values that a scenario fixes, so that the search does not vary them."""

    def __init__(self, loaded: LoadedScenario, *, kept: bool = True) -> None:
        """Read it; without `kept` everything is open."""
        self._loaded, self._kept = loaded, kept

    def pinned(self, key: Key) -> Any:
        """Return the pinned value of a key, or None."""
        if not self._kept or not self._loaded.has_key(*key):
            return None
        found: Any = self._loaded.auto if key[0] == "parallelism" else getattr(self._loaded.spec, key[0])
        for part in key[1:]:
            found = getattr(found, part, None)
        return found

    def pinned_items(self) -> Iterator[tuple[str, Any]]:
        """Yield key and value of everything that is pinned under `parallelism`."""
        auto = self._loaded.auto
        for name in type(auto).model_fields if auto is not None else ():
            value = getattr(auto, name)
            if name != "auto" and value is not None and self._loaded.has_key("parallelism", name):
                yield name, value

    def pinned_texts(self) -> Iterator[str]:
        """Return the pinned keys and values as text."""
        return (f"{name}: {flow(value)}" for name, value in self.pinned_items())

    def values(self, dimension: Dimension, spec: TrainingScenario) -> Iterable[Any]:
        """Return the values of a dimension: the pinned value, or else the values to try."""
        given = self.pinned(dimension.key)
        return dimension.values(spec) if given is None else (given,)


def chosen(spec: TrainingScenario, dimensions: Sequence[Dimension], pins: Pins) -> Iterator[TrainingScenario]:
    """Yield the scenario with every combination of values, legal or not."""
    if not dimensions:
        yield spec
        return
    # What is given limits what others may be.
    first, *others = sorted(dimensions, key=lambda each: pins.pinned(each.key) is None)
    for value in pins.values(first, spec):
        yield from chosen(with_key(spec, first.key, value), others, pins)


def with_key(spec: Any, key: Key, value: Any) -> Any:
    """Return a section of a scenario with one key replaced."""
    first, *rest = key
    inner = with_key(getattr(spec, first), tuple(rest), value) if rest else value
    return spec.model_copy(update={first: inner})


def shared(spec: TrainingScenario, pins: Pins) -> Iterator[TrainingScenario]:
    """Yield the scenario with every way to share layers between IPUs, or unchanged if it cannot share layers."""
    if isinstance(spec.parallelism, ParallelismSpec):
        yield from filter(_may_share, chosen(spec, SHARING, pins))
    else:
        yield spec


def _may_share(way: TrainingScenario) -> bool:
    """Return True if the sharing of layers in a candidate is valid."""
    parallelism = way.parallelism
    assert isinstance(parallelism, ParallelismSpec)
    return not any(parallelism.sharing_problems()) and not any(parallelism.sharing_findings(way))


def may_be_phased(spec: TrainingScenario, pins: Pins) -> bool:
    """Return True if phased execution from streaming memory is possible and no pinned value excludes it."""
    excluded = (
        pins.pinned(EXECUTION) == "pipelined"
        or pins.pinned(("parallelism", "pipeline_stages")) is not None
        or pins.pinned(SCHEDULE) is not None
        or isinstance(pins.pinned(SHARE), tuple)  # of each IPU of a pipeline
        or spec.software.phased_execution is False
    )
    streaming_bytes: float = spec.system.machine.streaming_memory.capacity_per_ipu_bytes
    return isinstance(spec.parallelism, ParallelismSpec) and not excluded and streaming_bytes > 0


def may_be_pipelined(pins: Pins) -> bool:
    """Return True if no pinned value excludes stages that keep their weights on their IPUs."""
    return pins.pinned(EXECUTION) != "phased" and pins.pinned(("parallelism", "batch_serialisation")) is not False


def in_phases(spec: TrainingScenario, pins: Pins) -> Iterator[TrainingScenario]:
    """Yield the scenario in phased execution in every way to divide its layers, without micro-batches and memory."""
    parallelism = spec.parallelism
    assert isinstance(parallelism, ParallelismSpec)
    phased = parallelism.model_copy(update={"execution": "phased", "layers_per_ipu": None, "micro_batch_size": 1})
    state = OptimizerStateSpec.model_validate(
        {"storage": spec.memory.state.storage} if pins.pinned(("memory", "optimizer_state", "storage")) else {}
    )
    memory = spec.memory.model_copy(update={"optimizer_state": state})
    ipus = pins.pinned(("parallelism", "ipus_per_replica"))
    # All IPUs of a replica share every layer.
    ways = [replace(each, values=lambda _: (ipus,)) if ipus and each.key == _SHARDS else each for each in WAYS]
    for way in chosen(spec.model_copy(update={"parallelism": phased, "memory": memory}), ways, pins):
        if ipus in (None, way.parallelism.ipus_per_replica) and _may_share(way):
            yield way


def micro_batches(spec: TrainingScenario, pins: Pins) -> Iterator[TrainingScenario]:
    """Yield the scenario with every micro-batch that the batch allows, the smallest first."""
    parallelism, given = spec.parallelism, pins.pinned(("parallelism", "micro_batch_size"))
    share, rest = divmod(batch_of(spec), parallelism.replication_factor)
    for size in () if rest else divisors(share, MOST_SAMPLES):
        if given in (None, size):
            factors = {"micro_batch_size": size, "accumulation_factor": share // size}
            yield spec.model_copy(update={"parallelism": parallelism.model_copy(update=factors)})
