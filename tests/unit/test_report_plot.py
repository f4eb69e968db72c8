"""The chart: what it says, what it shows and where it goes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from podsim.engine.trace import PhaseRecord
from podsim.errors import OutputError
from podsim.report.chart import Bars
from podsim.result.base import Result
from podsim.result.kinds import fill_of_kind
from podsim.result.rows import IpuAccount
from podsim.result.timeline import Stretch, parts_of, windows_of
from podsim.scenario.resolve import Change
from podsim.show.matplotlib_charts import check_plot_path, figure_of, write_sheet
from tests.unit.report_examples import LANES, MAKESPAN_PS, PHASES, SIMULATED, US, make_forward, make_result, make_trace
from tests.unit.test_generation_plot import make_result as make_generation

SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


def test_the_title_says_the_conclusion() -> None:
    assert make_result().report().sheet().title == (
        "Two IPUs [by hand]\n100 us per weight update: matmul 65 %, all-reduce 20 %, optimizer 8 %; IPU 0 sets the pace"
    )


def test_panels_of_a_short_update() -> None:
    figure = figure_of(make_result().report().sheet())
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "One weight update",
        "The whole weight update",
        "IPU 0 is at work 100 % of the time, IPU 1 waits 15 %",
    ]
    # matmul, all-reduce, optimizer, bubble and update wait.
    assert len(figure.subfigs[1].legends[0].get_patches()) == 5


def test_panels_of_a_long_update() -> None:
    phases = (
        PhaseRecord("replica0", "fill 0", 1, 0, 10 * US),
        PhaseRecord("replica0", "main", 6, 10 * US, 70 * US),
        PhaseRecord("replica0", "update", 1, 70 * US, 100 * US),
    )
    long = replace(make_trace(), phases=phases)
    titles = [axes.get_title(loc="left") for axes in figure_of(make_result(trace=long).report().sheet()).axes]
    assert titles[1:4] == [
        "A   Start: fill 10 us",
        "B   2 of 6 main cycles, 10 us each",
        "C   End: update 30 us",
    ]


def test_without_a_timeline_only_the_breakdown_is_drawn() -> None:
    assert len(figure_of(make_result(trace=None).report().sheet()).axes) == 1


def test_a_single_ipu_has_no_pace_to_set() -> None:
    alone = make_result(ipus=(IpuAccount(0, "ipu0", "all", LANES["ipu0"]),))
    assert "pace" not in alone.report().sheet().title
    assert figure_of(alone.report().sheet()).axes[-1].get_title(loc="left") == "How the IPU spends one weight update"


def test_below_the_ipus_stands_their_mean() -> None:
    """Of two IPUs that spend 70 and 60 of 100 us in products: 65 us."""
    (*_, (chart,)) = make_result().report().sheet().rows
    assert isinstance(chart.drawn, Bars) and chart.numbers is not None
    assert chart.drawn.rows == ["IPU 0: embedding + 3 layers", "IPU 1: 4 layers + head", "mean"]
    matmul = [bar.end - bar.start for bar in chart.drawn.bars if bar.fill == fill_of_kind("matmul")]
    assert matmul == pytest.approx([70, 60, 65])
    assert [row[0] for row in chart.numbers.rows] == ["0", "1", "all"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SIGNATURES)
def test_the_suffix_chooses_the_format_and_pixels_repeat(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix.upper()}"
    write_sheet(lambda: make_result().report().sheet(), first, ())
    write_sheet(lambda: make_result().report().sheet(), second, ())
    assert first.read_bytes().startswith(SIGNATURES[suffix])
    if suffix != ".pdf":  # which embeds its fonts with the time of day
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("name", "what"),
    [("chart.gif", "`.gif` is not a format for charts"), ("chart", "the name of a chart needs a suffix")],
)
def test_a_suffix_that_cannot_be_drawn(tmp_path: Path, name: str, what: str) -> None:
    path = tmp_path / name
    with pytest.raises(OutputError) as caught:
        write_sheet(lambda: make_result().report().sheet(), path, ())
    assert str(caught.value) == f"{path}: {what}\n  do: end the name in .png, .svg, .pdf"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_found_before_drawing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        check_plot_path(tmp_path / "no" / "chart.png")


def test_parts_join_phases_of_one_first_word() -> None:
    phases = [
        PhaseRecord("replica0", "fill 0", 1, 0, 10),
        PhaseRecord("replica0", "fill 1", 1, 10, 20),
        PhaseRecord("replica0", "main", 2, 20, 20),
        PhaseRecord("replica0", "update IPU 0: optimizer", 1, 20, 25),
    ]
    assert parts_of(phases) == [Stretch("fill", 0, 20), Stretch("update", 20, 25)]


def test_windows_are_the_start_two_cycles_and_the_end() -> None:
    """Ten cycles of 10 ps; without phases around them, one cycle stands for the start or the end."""
    fill, main, host = (
        PhaseRecord("r", *each) for each in (("fill 0", 1, 0, 10), ("main", 10, 10, 110), ("host", 1, 110, 120))
    )
    for phases, end_ps, titles in (
        ([fill, main, host], 120, ["Start: fill 10 ps", "2 of 10 main cycles, 10 ps each", "End: host 10 ps"]),
        ([main], 110, ["Start: the first cycle", "2 of 10 main cycles, 10 ps each", "End: the last cycle"]),
    ):
        windows = [(0, 20), (20, 40), (100, end_ps)]
        assert windows_of(phases, end_ps) == [
            Stretch(title, *ends) for title, ends in zip(titles, windows, strict=True)
        ]


def test_few_cycles_are_shown_whole() -> None:
    assert windows_of(PHASES, MAKESPAN_PS) == [Stretch("The whole weight update", 0, MAKESPAN_PS)]
    assert windows_of([], 7) == [Stretch("The whole weight update", 0, 7)]


def text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text of a figure with the place it takes in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [each for each in figure.findobj(Text) if each.get_visible() and each.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts]


@pytest.mark.parametrize("made", [make_result, make_generation, make_forward])
def test_long_words_stay_in_the_figure_and_apart(made: Callable[..., Result]) -> None:
    """A long description, many changes and three warnings: nothing of the head lies over anything else."""
    change = Change("parallelism.available_memory_proportion", "0.2", "0.4")
    result = replace(
        made(),
        description="A model with a description that goes on and on " * 5,
        warnings=("what must be known is said at length, and then once more in other words; " * 4,) * 3,
        simulated=replace(SIMULATED, overrides=("x=1",), changes=(change,) * 6),
    )
    figure = figure_of(result.report().sheet())
    head = [text.get_text() for text in figure.subfigs[0].texts]
    assert any(line.startswith("IPU-POD4, 2 of 4 IPUs in use, GC200 at 1.33 GHz") for line in head)
    assert sum(line.startswith("warning: ") for line in head) == 3
    boxes = text_boxes(figure)
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for _, box in boxes)
    for number, (text, box) in enumerate(boxes):
        if text in head:
            assert not [other for other, place in boxes[number + 1 :] if box.overlaps(place)]


def test_forward_passes_have_the_chart_of_a_call() -> None:
    figure = figure_of(make_forward().report().sheet())
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:2] == ["One session call", "The whole session call"]
    told, _, rest = make_forward().conclusion().partition(": ")
    assert told == "60,000 samples/s, 100 us per call of 3 batches"
    assert rest == "matmul 65 %, all-reduce 20 %, optimizer 8 %; IPU 0 sets the pace"
