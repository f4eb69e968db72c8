"""How many IPUs for LLaMa2-7B: variants of `llama2_7b_pods` from POD4 to POD64, with both chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from podsim.activity import generate
from podsim.report.generation import GenerationResult
from podsim.specs import GenerationScenario, load_scenario
from podsim.studies.figures import figure_row
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

SCENARIO = "llama2_7b_pods"
STREAMED = ("pod4", "pod8", "pod16", "pod32", "pod64")
RESIDENT = ("int4_resident", "pod32_resident", "pod32_resident_one_stage", "pod64_resident")
BOUNDS = ("compute", "exchange", "links", "streaming memory", "host")
AS_PUBLISHED = "llama2_7b_pod16_streamed"
_PUBLISHED = ("LLM-001", "LLM-002", "LLM-003")
_PODS_OF_SHARDS = {4: "ipu_pod4", 8: "ipu_pod16", 16: "ipu_pod16"}
_BOW = "system.machine.ipu=ipu_bow"


@dataclass(frozen=True, slots=True)
class PodRow:
    """One way to divide the model.

    Attributes:
        variant: Of the scenario.
        pod: The pod that it names.
        shards: IPUs that share every layer.
        stages: Groups of such IPUs.
        sequences: Sequences that are generated at a time.
        gc200: The result.
        bow_tokens_per_s: Throughput with Bow chips and nothing else changed. [1/s]
    """

    variant: str
    pod: str
    shards: int
    stages: int
    sequences: int
    gc200: GenerationResult
    bow_tokens_per_s: float

    @property
    def ipu_count(self) -> int:
        """IPUs at work."""
        return self.shards * self.stages

    @property
    def step_parts_s(self) -> Mapping[str, float]:
        """Time of a decode step by what it is spent on, summed over the stages. [s]"""
        parts = self.gc200.decode.time_by_bound
        return {bound: ps_to_seconds(self.stages * parts.get(bound, 0)) for bound in BOUNDS}


def rows_of_pods(variants: Sequence[str]) -> tuple[PodRow, ...]:
    """A row for each variant, in their order."""
    return tuple(_row(variant) for variant in variants)


def _row(variant: str) -> PodRow:
    loaded = load_scenario(SCENARIO, variant)
    spec = loaded.of(GenerationScenario)
    return PodRow(
        variant=variant,
        pod=spec.system.name,
        shards=spec.parallelism.tensor_parallel,
        stages=spec.parallelism.pipeline_stages,
        sequences=spec.generation.batch_size * spec.parallelism.batches_in_flight,
        gc200=generate(loaded),
        bow_tokens_per_s=generate(SCENARIO, variant=variant, overrides=[_BOW]).tokens_per_s,
    )


def kept_rates(rows: Sequence[PodRow]) -> dict[int, float]:
    """Tokens per second of the rows that generate one sequence, by number of IPUs. [1/s]"""
    return {row.ipu_count: row.gc200.tokens_per_s for row in rows if row.sequences == 1}


def recomputed_rates() -> dict[int, float]:
    """Tokens per second of one sequence as published, without keys and values kept, by number of IPUs. [1/s]

    The published run shares every layer among 16 IPUs; nothing else differs on the others.
    """
    return {
        shards: generate(AS_PUBLISHED, overrides=[f"system={pod}", f"parallelism.tensor_parallel={shards}"]).steps_per_s
        for shards, pod in _PODS_OF_SHARDS.items()
    }


def published_rates() -> list[tuple[int, float]]:
    """Numbers of IPUs and published tokens per second. [1/s]"""
    return [(int(row["ipus"]), float(row["value"])) for row in map(figure_row, _PUBLISHED)]


def links_overtake_compute(rows: Sequence[PodRow]) -> PodRow | None:
    """The first row in which sums over links take longer than what the tiles compute."""
    return next((row for row in rows if row.step_parts_s["links"] > row.step_parts_s["compute"]), None)


def pods_frame(rows: Sequence[PodRow]) -> DataFrame:
    """For charts: `ipus`, `tokens_per_s`, `sequences`, and the shares of a decode step, by variant."""
    import pandas as pd

    records = []
    for row in rows:
        whole_s = sum(row.step_parts_s.values())
        shares = {bound: part_s / whole_s for bound, part_s in row.step_parts_s.items()}
        records.append(
            {"ipus": row.ipu_count, "tokens_per_s": row.gc200.tokens_per_s, "sequences": row.sequences} | shares
        )
    return pd.DataFrame(records, index=[row.variant for row in rows])
