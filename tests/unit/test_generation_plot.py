"""The chart of text generation: what it says, what it shows and where it goes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from podsim.cli.app import main
from podsim.errors import OutputError
from podsim.result.generation import GenerationResult, StepReport
from podsim.result.rows import IN_PROCESSOR, STREAMING, MemoryReport, MemoryRow
from podsim.show.chart_frame import write_chart
from podsim.show.generation_plot import generation_conclusion, plot_generation
from tests.unit.bad_input_cases import Run
from tests.unit.report_examples import SIMULATED

MS, MIB, GIB = 10**9, 2**20, 2**30
SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}
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


def widths(axes: Axes) -> list[float]:
    return [round(patch.get_width(), 6) for patch in axes.patches if isinstance(patch, Rectangle)]


def test_the_title_says_the_conclusion() -> None:
    """Two sequences every 10 ms."""
    assert generation_conclusion(make_result()) == (
        "A decoder [by hand]\n"
        "200 tokens/s: first token after 40 ms, bound by compute; next after 10 ms, bound by streaming memory"
    )


def test_a_bar_for_each_step_and_memory() -> None:
    prefill, decode, chip, streaming = plot_generation(make_result()).axes
    assert prefill.get_title(loc="left") == "A prefill step: 40 ms, bound by compute"
    assert decode.get_title(loc="left") == "A decode step: 10 ms, bound by streaming memory"
    assert (widths(prefill), widths(decode)) == ([30, 10], [2, 8])
    assert chip.get_title(loc="left") == "In-Processor-Memory of the first IPU of each stage, up to 900 MiB"
    assert (widths(chip), widths(streaming)) == ([300, 150, 600], [26, 13])
    assert [text.get_text() for text in chip.texts] == ["50 %", "67 %"]
    assert [label.get_text() for label in chip.get_yticklabels()] == ["IPU 0", "IPU 4"]


def test_legends_have_shares_and_tenants() -> None:
    figure = plot_generation(make_result())
    kinds, tenants = ([text.get_text() for text in each.legends[0].get_texts()] for each in figure.subfigs[1].subfigs)
    assert kinds == ["matmul  75.0 %, 20.0 %", "all-reduce  25.0 %, 0.0 %", "streaming  0.0 %, 80.0 %"]
    assert tenants == ["weights", "code"]


def test_loads_under_other_work_have_a_bar_of_their_own() -> None:
    decode = plot_generation(make_result(loads_ms=9)).axes[1]
    assert widths(decode) == [2, 8, 9]
    assert "loads of weights by I/O tiles meanwhile, 9 ms" in [text.get_text() for text in decode.texts]


def test_a_memory_that_nobody_uses_is_left_out() -> None:
    resident = replace(MEMORY, rows=tuple(row for row in MEMORY.rows if row.where == IN_PROCESSOR))
    assert len(plot_generation(replace(make_result(), memory=resident)).axes) == 3


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SIGNATURES)
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str) -> None:
    write_chart(make_result(), tmp_path / f"steps{suffix}", plot_generation)
    assert (tmp_path / f"steps{suffix}").read_bytes().startswith(SIGNATURES[suffix])


@pytest.mark.slow
def test_the_same_pixels_for_the_same_result(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        write_chart(make_result(), tmp_path / name, plot_generation)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_suffix_that_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"`\.gif` is not a format for charts"):
        write_chart(make_result(), tmp_path / "a.gif", plot_generation)


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
