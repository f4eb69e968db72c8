"""What packing brings BERT: the same scenario with and without packs, beside published speed-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from notebooks.charts import Chart, chart_of_height, draw_pairs
from notebooks.figures import published_figure, samples_of_update
from podsim.result.result import RunResult
from podsim.runs import simulate

if TYPE_CHECKING:
    from pandas import DataFrame

_NAMES: Final = ("predicted", "published")
_PLAIN: Final = "data.packing=null"
_DEEP: Final = ("data.packing={sequences_per_pack: 1.7, max_sequences_per_pack: 3}", "data.masked_token_count=58")


@dataclass(frozen=True, slots=True)
class PackingCase:
    """Scenario to simulate with and without packing.

    Attributes:
        name: Name for readers.
        scenario: Name of the scenario.
        packed: Overrides that pack it; none if the file does.
        masked: Masked tokens of a sequence without packing.
        row: Id of the published speed-up.
    """

    name: str
    scenario: str
    packed: tuple[str, ...]
    masked: int
    row: str

    @property
    def plain(self) -> tuple[str, ...]:
        """Overrides that undo the packing."""
        return (_PLAIN, f"data.masked_token_count={self.masked}")


CASES: Final = (
    PackingCase("BERT-Large\n512 tokens", "bert_large_phase2_packed_pod16", (), 76, "PACK-001"),
    PackingCase("BERT-Large\n384 tokens", "bert_large_phase2_pod16", _DEEP, 56, "PACK-002"),
    PackingCase("BERT-Base\n384 tokens", "bert_base_phase2_pod16", _DEEP, 56, "PACK-003"),
    PackingCase("BERT-Large\n128 tokens", "bert_large_phase1_packed_pod16", (), 20, "PACK-004"),
)


def packing_frame(cases: Sequence[PackingCase] = CASES) -> DataFrame:
    """Return the speed-up and cost of packing, with a row for each case.

    Columns: `factor`, sequences per pack; `predicted` and `published`, the speed-up of a pipeline cycle for a sequence;
    `update`, the same of whole weight updates; `cost` and `published_cost`, what a cycle takes longer.
    """
    import pandas as pd

    return pd.DataFrame([_record(case) for case in cases]).set_index("name")


def _record(case: PackingCase) -> dict[str, str | float]:
    packed = simulate(case.scenario, overrides=case.packed)
    plain = simulate(case.scenario, overrides=case.plain)
    factor = samples_of_update(packed) / samples_of_update(plain)
    cost = cycle_s(packed) / cycle_s(plain) - 1
    return {
        "name": case.name,
        "factor": factor,
        "predicted": factor / (1 + cost),
        "published": published_figure(case.row),
        "update": packed.throughput_samples_per_s / plain.throughput_samples_per_s,
        "cost": cost,
        "published_cost": factor / published_figure(case.row) - 1,
    }


def cycle_s(result: RunResult) -> float:
    """Time of one main cycle of the pipeline. [s]"""
    (main,) = (phase for phase in result.phases if phase.name == "main")
    return main.seconds / main.count


def packing_chart(frame: DataFrame) -> Chart:
    """Draw speed-ups and the relative cost of a pipeline cycle, predicted and published.

    Args:
        frame: Names as index; columns as `packing_frame` gives them.
    """
    chart = chart_of_height(3.6)
    left, right = chart.subplots(1, 2)
    labels = [f"{name}\n{factor:g} per pack" for name, factor in zip(frame.index, frame["factor"], strict=True)]
    draw_pairs(left, labels, frame["predicted"], frame["published"], digits=2, names=_NAMES)
    left.set_title("Speed-up: time per sequence without packs ÷ with", loc="left", fontsize=10)
    draw_pairs(right, labels, 100 * frame["cost"], 100 * frame["published_cost"], names=_NAMES)
    right.set_title("What packs add to a pipeline cycle [%]", loc="left", fontsize=10)
    return chart
