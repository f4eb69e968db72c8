"""The benchmarks that podsim has scenarios of, as MLPerf's rules describe them. Source: [mlperf_training_rules]."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from podsim.errors import PodsimError


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Benchmark of MLPerf Training."""

    name: str  # as result files call it
    title: str


BENCHMARKS: Final = {"bert": Benchmark("bert", "BERT-Large"), "resnet": Benchmark("resnet", "ResNet-50")}
"""By the name that result files have."""


def benchmark_of(name: str | None, where: str) -> Benchmark:
    """Return the benchmark with a name, or of a model's `benchmark`."""
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    known = " and ".join(f"{each.title} (`{each.name}`)" for each in BENCHMARKS.values())
    what = "the model is no benchmark of MLPerf Training" if name is None else f"benchmark `{name}` is none"
    raise PodsimError(f"{what} that podsim knows; those are {known}", where=where, do=_CURE)


_CURE: Final = "use a scenario of one of them, such as `bert_v2.0_pod64_closed`; `podsim list mlperf` shows all"


def section(scenario: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of a resolved scenario, empty if it is absent."""
    found = scenario.get(name)
    return found if isinstance(found, Mapping) else {}


def nominal_batch(packs: int, scenario: Mapping[str, Any]) -> int:
    """Return the batch size in result files, which count a pack as a whole number of sequences.

    >>> nominal_batch(2304, {"data": {"packing": {"sequences_per_pack": 2.0368}}})
    4608
    """
    return packs * nominal_sequences_per_pack(scenario)


def nominal_sequences_per_pack(scenario: Mapping[str, Any]) -> int:
    """Return the sequences of a pack as a whole number; 1 without packing. Source: [mlperf_logs]."""
    packing = section(scenario, "data").get("packing")
    return 1 if packing is None else math.floor(packing["sequences_per_pack"] + 1 / 2)


def batch_size(scenario: Mapping[str, Any]) -> int:
    """Return the samples, or packs, of one weight update of a resolved scenario."""
    layout = section(scenario, "parallelism")
    factors = ("micro_batch_size", "accumulation_factor", "replication_factor")
    return math.prod(int(layout[name]) for name in factors)
