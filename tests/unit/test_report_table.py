"""The tables for a terminal."""

from io import StringIO

import pytest
from rich.console import Console

from podsim.report.chart import Bars
from podsim.result.evidence import Envelope
from podsim.result.rows import STREAMING, IpuAccount, MemoryReport, MemoryRow
from podsim.result.sources import Sources
from podsim.scenario.without_effect import WithoutEffect
from podsim.show.text import print_report
from tests.unit.page_examples import charts_of
from tests.unit.report_examples import LANES, MIB, US, make_result, result_text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in result_text(make_result(), width).splitlines()) <= width


def test_headline_and_what_was_measured() -> None:
    lines = result_text(make_result()).splitlines()
    assert lines[0] == "Two IPUs [by hand]"
    assert lines[1] == "IPU-POD4, 2 of 4 IPUs in use, GC200 at 1.33 GHz; PopART, SDK 2.3"
    assert lines[2] == "two_ipus, podsim 0.1.0; as the file says"
    assert "Throughput     80,000 samples/s" in lines
    update, mfu = lines.index("Weight update  100 us"), lines.index("MFU            25.0 %")
    assert lines[update + 1] == "               measured 80 us, error +25.0 %"
    assert "Time to train  26.05 min" in lines
    assert lines[mfu + 1] == "               of all 4 IPUs 12.5 %"
    assert "Measured: bench log" in lines


def test_where_the_time_went_largest_first() -> None:
    text = result_text(make_result())
    table = text.partition("Where one weight update goes: 100 us, mean over 2 IPUs\n")[2].splitlines()[2:]
    assert [line.split()[0] for line in table[:5]] == ["matmul", "all-reduce", "optimizer", "bubble", "update"]
    assert table[0] == "matmul       65.0 %  65.0  published   matrix products on the AMP"


def test_kinds_below_a_thousandth_are_one_row_and_sums_stay() -> None:
    """Of 100 us, exchange takes 60 ns and sync 40 ns, which is below 0.1 %; 150 ns of vectors are not."""
    short = {"matmul": 9975 * US // 100, "vector": 15 * US // 100, "exchange": 6 * US // 100, "sync": 4 * US // 100}
    result = make_result(breakdown_ps=short, sources=Sources((("matmul", {"published": 1}), ("sync", {"assumed": 1}))))
    (chart,) = [each for each in charts_of(result.report()) if each.title.startswith("Where one")]
    assert isinstance(chart.drawn, Bars) and chart.numbers is not None
    assert [str(row[0]) for row in chart.numbers.rows] == ["matmul", "vector", "other"]
    assert [bar.row for bar in chart.drawn.bars] == ["matmul", "vector", "other", "weight update"]
    assert [bar.end - bar.start for bar in chart.drawn.bars] == pytest.approx([99.75, 0.15, 0.1, 100])
    assert list(result.breakdown) == list(short)


def test_what_the_times_stand_on() -> None:
    """Of 100 us, 75 are published; three quarters of the all-reduce are assumed, and the optimizer is calibrated."""
    lines = result_text(make_result()).splitlines()
    assert "Sources: 75.0 % published or measured, 10.0 % calibrated, 15.0 % assumed" in lines
    (row,) = (line for line in lines if line.startswith("all-reduce"))
    assert "assumed" in row


def test_what_was_never_compared_comes_first_and_notes_last() -> None:
    told, outside = (WithoutEffect("data.dropout", "nothing drops"),), Envelope(("IPUs 3 (4 to 16)",))
    text = result_text(make_result(without_effect=told, envelope=outside, warnings=("too hot",)))
    first = text.index("\nverdict: unknown: never compared with a published run: IPUs 3 (4 to 16)")
    assert (
        first < text.index("\nwarning: too hot\n") < text.index("\nnote: data.dropout changes nothing: nothing drops\n")
    )


def test_phases_ipus_operations_memory_and_assumptions() -> None:
    text = result_text(make_result())
    assert "Phases: fill 10 us, main 60 us (3 cycles), update 30 us" in text
    assert "IPU 0 is at work 100 % of the time, IPU 1 waits 15 %" in text
    assert "Slowest: stage 1, 40 us of operations; the longest are" in text
    assert "Stands on 1 assumed inputs" in text


def test_memories_are_told_by_tenant() -> None:
    """Of 800 MiB, IPU 0 has 100 and 300; of 1 GiB, IPU 1 has 64 MiB; a hundredth of it is a line."""
    text = result_text(make_result())
    chip = text.partition("In-Processor-Memory: IPU 0 uses 400 MiB of 800 MiB (50.0 %)\n")[2].splitlines()
    assert [line.split() for line in chip[2:4]] == [["0", "300", "100", "400", "400"], ["1", "0", "200", "200", "600"]]
    assert chip[0].split() == ["IPU", "stash", "weights", "used", "free"] and chip[4] == "in MiB"
    streaming = text.partition("Streaming Memory: IPU 1 uses 64 MiB of 1 GiB (6.2 %)\n")[2].splitlines()
    assert streaming[2].split() == ["1", "0.0625", "0.0625", "0.938"]
    little = MemoryReport((MemoryRow(1, "optimizer_state", 10 * MIB, STREAMING),), 800 * MIB, 1000 * MIB)
    line = "\nStreaming Memory: IPU 1 uses 10 MiB of 0.977 GiB (1.0 %); optimizer state 10 MiB\n"
    assert line in result_text(make_result(memory=little), 100)


def test_shares_of_an_ipu() -> None:
    # ipu1: matmul 60 + optimizer 15 compute, all-reduce 10 moves data, bubble 10 + update wait 5.
    row = next(line for line in result_text(make_result()).splitlines() if "4 layers + head" in line)
    assert row.split()[5:] == ["75.0", "%", "10.0", "%", "15.0", "%"]


def test_drawn_times_to_train() -> None:
    drawn = make_result(time_to_train_s=None, time_to_train_percentiles={"p10": 1440.0, "p50": 1563.0, "p90": 1800.0})
    lines = result_text(drawn).splitlines()
    assert "Time to train  26.1 min (median)" in lines
    assert "               P10 to P90 24 min to 30 min" in lines


def test_a_result_with_little_in_it_prints() -> None:
    text = result_text(make_result(ipus=(), operations=(), references=(), assumptions=(), phases=()))
    assert "Measured" not in text
    assert "Slowest" not in text


def test_many_ipus_and_assumptions_are_cut_short() -> None:
    many = make_result(
        ipus=tuple(IpuAccount(ipu, f"ipu{ipu}", f"layer {ipu}", LANES["ipu0"]) for ipu in range(20)),
        assumptions=tuple({"key": f"k{number}", "value": number, "basis": "assumed"} for number in range(9)),
        warnings=("numbers are rough",),
    )
    text = result_text(many)
    assert "and 4 more IPUs" in text
    assert "and 1 more; `--format json` lists them all" in text
    assert "warning: numbers are rough" in text


def test_ipus_that_share_a_layer_have_one_row() -> None:
    shards = [IpuAccount(ipu, f"ipu{ipu}", f"{1 + ipu // 4} layers", LANES["ipu0"]) for ipu in range(6)]
    lines = result_text(make_result(ipus=tuple(shards))).splitlines()
    rows = [line.partition(" layers ")[0].split("  ") for line in lines if " layers " in line]
    assert [(row[-2].strip(), row[-1]) for row in rows] == [("0 to 3", "1"), ("4 to 5", "2")]


def test_a_file_gets_no_control_codes_and_a_screen_gets_colours() -> None:
    plain, coloured = StringIO(), StringIO()
    print_report(make_result().report(), Console(file=plain, width=80))
    screen = Console(file=coloured, width=80, force_terminal=True, color_system="truecolor")
    print_report(make_result().report(), screen)
    assert "\x1b" not in plain.getvalue()
    assert "\x1b" in coloured.getvalue()
