"""The chart of text generation: what it says, what it shows and where it goes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from podsim.cli.app import main
from podsim.result.inference import GenerationResult, StepReport
from podsim.result.rows import IN_PROCESSOR, STREAMING, MemoryReport, MemoryRow
from podsim.show.matplotlib_charts import figure_of
from tests.unit.bad_input_cases import Run
from tests.unit.report_examples import SIMULATED

MS, MIB, GIB = 10**9, 2**20, 2**30
MEMORY = MemoryReport(
    (
        MemoryRow(0, "weights", 300 * MIB, IN_PROCESSOR),
        MemoryRow(0, "code", 150 * MIB, IN_PROCESSOR),
        MemoryRow(4, "weights", 600 * MIB, IN_PROCESSOR),
        MemoryRow(0, "weights", 26 * GIB, STREAMING),
        MemoryRow(4, "weights", 13 * GIB, STREAMING),
    ),
    900 * MIB,
    104 * GIB,
)


def make_result(loads_ms: int = 0) -> GenerationResult:
    prefill = StepReport("prefill", 40 * MS, {"matmul": 30 * MS, "all_reduce": 10 * MS}, ())
    decode = StepReport("decode", 10 * MS, {"matmul": 2 * MS, "streaming": 8 * MS}, (), loads_ms * MS)
    return GenerationResult(
        name="by_hand",
        description="A decoder [by hand]",
        version="0",
        simulated=SIMULATED,
        batch_size=2,
        batches_in_flight=1,
        output_tokens=8,
        prefill=prefill,
        decode=decode,
        memory=MEMORY,
        assumptions=(),
        inputs=(),
        event_count=0,
        scenario={},
    )


def bars_of(axes: Axes) -> list[tuple[float, float]]:
    """Begin and length of each bar."""
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bar in bars]


def labels_of(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_the_title_says_the_conclusion() -> None:
    """Two sequences every 10 ms."""
    assert make_result().report().sheet().title == (
        "A decoder [by hand]\n"
        "200 tokens/s: first token after 40 ms, bound by compute; next after 10 ms, bound by streaming memory"
    )


def test_a_waterfall_for_each_step_and_a_bar_for_each_memory() -> None:
    """40 ms and 10 ms are drawn to one scale, since one is no more than four times as long as the other."""
    prefill, decode, chip, streaming = figure_of(make_result().report().sheet()).axes
    assert prefill.get_title(loc="left") == "Where a prefill step goes: 40 ms, bound by compute"
    assert decode.get_title(loc="left") == "Where a decode step goes: 10 ms, bound by streaming memory"
    assert (bars_of(prefill), bars_of(decode)) == ([(0, 30), (30, 10), (0, 40)], [(0, 2), (2, 8), (0, 10)])
    assert (prefill.get_xlim(), decode.get_xlim()) == ((0, 40), (0, 40))
    assert [text.get_text() for text in prefill.texts] == ["30 ms · 75.0 %", "10 ms · 25.0 %", "40 ms"]
    assert labels_of(decode) == ["matmul", "streaming", "decode step"]
    assert chip.get_title(loc="left") == "In-Processor-Memory: IPU 4 uses 600 MiB of 900 MiB (66.7 %)"
    assert (bars_of(chip), bars_of(streaming)) == ([(0, 300), (300, 150), (0, 600)], [(0, 26), (0, 13)])
    assert (chip.get_xlabel().splitlines()[0], streaming.get_xlabel().splitlines()[0]) == (
        "In-Processor-Memory of an IPU [MiB]",
        "Streaming Memory of an IPU [GiB]",
    )
    assert labels_of(chip) == ["IPU 0", "IPU 4"]
    assert [line.get_xdata()[0] for line in chip.lines] == [900]  # type: ignore[index]  # the capacity


def test_a_step_that_is_much_longer_has_a_scale_of_its_own() -> None:
    longer = replace(make_result(), prefill=StepReport("prefill", 41 * MS, {"matmul": 41 * MS}, ()))
    prefill, decode, *_ = figure_of(longer.report().sheet()).axes
    assert (prefill.get_xlim(), decode.get_xlim()) == ((0, 41), (0, 10))


def test_the_legend_of_a_memory_names_what_is_in_it() -> None:
    *_, chip, streaming = [chart for row in make_result().report().sheet().rows for chart in row]
    assert list(chip.legend) == ["weights", "code"]
    assert list(streaming.legend) == ["weights"]
    assert chip.legend["weights"] == streaming.legend["weights"] != chip.legend["code"]


def test_loads_under_other_work_have_a_bar_of_their_own() -> None:
    decode = figure_of(make_result(loads_ms=9).report().sheet()).axes[1]
    assert bars_of(decode) == [(0, 2), (2, 8), (0, 10), (0, 9)]
    assert labels_of(decode)[-1].split() == ["loads", "of", "weights", "by", "I/O", "tiles", "meanwhile"]
    assert decode.texts[-1].get_text() == "9 ms"


def test_a_memory_that_nobody_uses_is_left_out() -> None:
    resident = replace(MEMORY, rows=tuple(row for row in MEMORY.rows if row.where == IN_PROCESSOR))
    assert len(figure_of(replace(make_result(), memory=resident).report().sheet()).axes) == 3


def test_the_command_draws_a_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["podsim", "run", "llama2_7b_pods", "--plot", "steps.png", "--format", "json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert Path("steps.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_folder_is_found_before_the_simulation(podsim: Run) -> None:
    code, message = podsim("run", "llama2_7b_pods", "--plot", "nowhere/steps.png")
    assert code == 2
    assert "nowhere" in message
