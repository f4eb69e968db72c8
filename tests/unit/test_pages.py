"""Pages: their numbers are those of the answer, they ask the network for nothing, and what users wrote stays text."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from podsim import RunResult, compare, load, run
from podsim.errors import OutputError, PodsimError
from podsim.report.chart import FASTER, INK, SLOWER, Chart, Fill, TimelineChart, fills_in_turn
from podsim.report.report import Report
from podsim.report.table import Cell, Table
from podsim.result.kinds import FAMILIES, KINDS, fill_of_kind, kind_of
from podsim.result.timeline import (
    MOST_MARKS,
    MOST_OF_CYCLES,
    OPERATION,
    PASS,
    REPEATED,
    OperationMark,
    Slice,
    Stretch,
    marks_of,
    merged,
    pieces_of,
)
from podsim.show import html_page
from podsim.show import html_page as html
from podsim.show.vega_charts import definitions, paint, vega_spec
from podsim.study.compare import ends_of_axis, waterfall_chart, waterfall_of
from podsim.study.sweep import sweep
from podsim.units import ps_to_seconds
from tests.unit.bad_input_cases import Run
from tests.unit.page_examples import EVIL, Tags, answer, blocks_of, charts_of, evil_page, luminance, verdict_page
from tests.unit.report_examples import MAKESPAN_PS, make_forward, make_result

BERT = "bert_v1.1_pod16_open"
PARTS = [
    *("Where time goes", "Timeline", "IPUs of one replica", "Longest operations", "Memory"),
    *("Assumptions by influence", "Sources"),
]


@pytest.fixture(scope="module")
def bert() -> RunResult:
    result = run(BERT, record=True)
    assert isinstance(result, RunResult)
    return result


@pytest.fixture(scope="module")
def page(bert: RunResult) -> Report:
    return bert.report()


@pytest.fixture(scope="module")
def charts(page: Report) -> list[Chart]:
    return charts_of(page)


def bars_of(chart: Chart) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = vega_spec(chart)["data"]["values"]
    return values


def timeline_of(charts: list[Chart]) -> Chart:
    return next(chart for chart in charts if isinstance(chart.drawn, TimelineChart))


# Numbers


def test_a_waterfall_goes_from_nothing_to_the_whole_and_each_step_is_its_kind_of_time(
    bert: RunResult, charts: list[Chart]
) -> None:
    *steps, total = bars_of(charts[0])
    assert (steps[0]["start"], total["start"]) == (0, 0)
    assert all(one["end"] == other["start"] for one, other in pairwise(steps))
    assert steps[-1]["end"] == total["end"] == pytest.approx(bert.weight_update_s, rel=1e-12)
    breakdown = bert.to_dict()["breakdown"]
    assert isinstance(breakdown, Mapping)
    shown = {step["row"]: step["end"] - step["start"] for step in steps}
    least = bert.weight_update_s / 1000
    expected = {kind_of(kind).label: time for kind, time in breakdown.items() if time >= least}
    expected["other"] = sum(time for time in breakdown.values() if time < least)
    assert shown == pytest.approx(expected)


def test_the_table_below_has_the_numbers_of_the_chart(bert: RunResult, charts: list[Chart]) -> None:
    assert charts[0].numbers is not None
    cells = [[each.value for each in row if isinstance(each, Cell)] for row in charts[0].numbers.rows]
    assert [sum(column) for column in zip(*cells, strict=True)] == pytest.approx([1.0, 1e3 * bert.weight_update_s])


def test_each_ipu_fills_its_weight_update(bert: RunResult, charts: list[Chart]) -> None:
    by_row: dict[str, list[dict[str, Any]]] = {}
    (ipus,) = (chart for chart in charts if " is at work " in chart.title)
    for bar in bars_of(ipus):
        by_row.setdefault(bar["row"], []).append(bar)
    mean = by_row.pop("mean")
    assert sum(bar["end"] - bar["start"] for bar in mean) == pytest.approx(bert.weight_update_s, rel=1e-9)
    assert mean[0]["end"] == pytest.approx(sum(each.seconds["matmul"] for each in bert.ipus) / 4, rel=1e-9)
    assert len(by_row) == len(bert.ipus) == 4
    for account, bars in zip(bert.ipus, by_row.values(), strict=True):
        assert sum(bar["end"] - bar["start"] for bar in bars) == pytest.approx(bert.weight_update_s, rel=1e-9)
        assert len(bars) <= sum(1 for time in account.time_ps.values() if time)


def test_a_memory_map_is_as_long_as_what_is_used(bert: RunResult, charts: list[Chart]) -> None:
    chart = next(each for each in charts if each.title.startswith("In-Processor-Memory"))
    for ipu in range(4):
        bars = [bar for bar in bars_of(chart) if bar["row"] == f"IPU {ipu}"]
        assert sum(bar["end"] - bar["start"] for bar in bars) * 2**20 == pytest.approx(bert.memory.used_bytes(ipu))
    assert chart.numbers is not None
    written = {str(row[0]): row[-2].value for row in chart.numbers.rows if isinstance(row[-2], Cell)}
    assert written == {str(ipu): bert.memory.used_bytes(ipu) for ipu in range(4)}


def test_assumptions_are_shown_as_far_as_they_move_the_result(
    bert: RunResult, page: Report, charts: list[Chart]
) -> None:
    chart = charts[-1]
    first = bert.assumptions[0]
    influence = first["influence"]
    assert isinstance(influence, Mapping)
    bars = [bar for bar in bars_of(chart) if str(first["key"]).endswith(bar["row"].partition(" = ")[0])]
    ends = sorted((influence["low"], influence["high"]), key=lambda end: -abs(end))
    assert [bar["end"] / 100 for bar in bars] == pytest.approx(ends)
    grids = blocks_of(page, Table)
    (table,) = [grid for grid in grids if grid.columns[0].head == "input"]
    assert [row[0] for row in table.rows] == [assumption["key"] for assumption in bert.assumptions]


def assumed(key: str, low: float | None, high: float | None) -> dict[str, object]:
    influence = {"metric": "time_to_train_s", "low": low, "high": high}
    return {"key": key, "value": "1", "basis": "assumed", "source": "estimate", "note": None, "influence": influence}


def test_ends_of_ranges_hide_neither_one_another_nor_what_is_impossible() -> None:
    rows = (assumed("one.a.x", 0.1, 0.3), assumed("two.a.x", None, -0.2), assumed("b.y", 0.0001, 0.0))
    chart = charts_of(make_result(assumptions=rows).report())[-1]
    assert [(bar["row"], bar["end"], bar.get("text")) for bar in bars_of(chart)] == [
        ("one.a.x = 1", pytest.approx(30), "+30.0 %"),
        ("one.a.x = 1", pytest.approx(10), "+10.0 %"),
        ("two.a.x = 1", pytest.approx(-20), "-20.0 %"),
        ("two.a.x = 1", 0, "impossible"),
    ]
    nothing = charts_of(make_result(assumptions=(assumed("a.x", None, None),)).report())[-1]
    assert [bar["text"] for bar in bars_of(nothing)] == ["impossible"] * 2
    low, high = vega_spec(nothing)["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 0 < high


def test_tiles_are_the_headline_of_the_terminal_with_what_was_measured() -> None:
    tiles = {tile.label: tile for tile in make_result().report().tiles}
    assert tiles["Weight update"].value == "100 us"
    assert tiles["Weight update"].notes == ("measured 80 us, error +25.0 %",)
    assert tiles["MFU"].notes == ("of all 4 IPUs 12.5 %",)


def test_a_page_says_what_was_simulated() -> None:
    page = make_result(warnings=("Mind the gap.",)).report()
    assert page.title == "Two IPUs [by hand]"
    assert list(page.about) == list(make_result().about)
    assert page.warnings == ("Mind the gap.",)


def test_a_result_without_a_timeline_has_a_page_without_one() -> None:
    titles = [each.title for each in make_result(trace=None).report().sections if each.paged and each.blocks]
    assert titles == [*PARTS[:1], *PARTS[2:]]
    assert "Timeline" in [section.title for section in make_forward().report().sections]


def test_a_waterfall_between_results_adds_up_and_shows_what_moved() -> None:
    before, after = {"matmul": 10**12, "host": 10**11}, {"matmul": 9 * 10**11, "host": 10**11, "bubble": 3 * 10**11}
    chart = waterfall_chart(waterfall_of("weight update", before, after), "B")
    a, matmul, bubble, b = bars_of(chart)
    assert (a["row"], b["row"], a["end"], b["end"]) == ("A", "B", pytest.approx(1100), pytest.approx(1300))
    assert (matmul["start"], matmul["end"], bubble["end"]) == pytest.approx((1100, 1000, 1300))
    assert (matmul["text"], bubble["text"]) == ("-100 ms", "+300 ms")
    assert matmul["fill"] == paint(FASTER)
    assert bubble["fill"] == paint(SLOWER)


def test_an_axis_begins_at_nothing_unless_changes_could_not_be_seen() -> None:
    assert ends_of_axis([0, 100, 100, 50, 0, 50]) == (0, 100)
    low, high = ends_of_axis([0, 1000, 1000, 1010, 0, 1010])
    assert 900 < low < 1000 < 1010 < high


# The timeline


def test_bars_of_a_timeline_fill_what_is_shown_of_each_ipu(bert: RunResult, charts: list[Chart]) -> None:
    chart = timeline_of(charts)
    assert bert.trace is not None
    whole_ms = ps_to_seconds(bert.trace.makespan_ps) * 1000
    for ipu in range(4):
        bars = sorted((bar for bar in bars_of(chart) if bar["lane"] == f"IPU {ipu}"), key=lambda bar: bar["start"])
        assert bars[0]["start"] == 0
        assert bars[-1]["end"] == pytest.approx(whole_ms)
        assert all(one["end"] == other["start"] for one, other in pairwise(bars))
    assert len(bars_of(chart)) <= 2 * MOST_MARKS + MOST_OF_CYCLES + 4


def test_what_is_folded_is_all_that_is_not_shown(bert: RunResult, charts: list[Chart]) -> None:
    chart = timeline_of(charts)
    main = max(bert.phases, key=lambda phase: phase.count)
    folded = [bar for bar in bars_of(chart) if bar["kind"] == "repeated"]
    assert {bar["what"] for bar in folded} == {f"{main.count - 4:,} more cycles like those before"}
    period_ms = main.seconds / main.count * 1000
    assert folded[0]["end"] - folded[0]["start"] == pytest.approx((main.count - 4) * period_ms, rel=1e-6)


def test_the_kinds_of_a_timeline_add_up_nearly_to_their_times(bert: RunResult, charts: list[Chart]) -> None:
    """Two cycles on IPU 1: short operations are drawn together, and yet matrix products get their share."""
    chart = timeline_of(charts)
    assert isinstance(chart.drawn, TimelineChart)
    cycles = chart.drawn.stretches[2]
    bars = [
        bar
        for bar in bars_of(chart)
        if bar["lane"] == "IPU 1" and cycles.start <= bar["start"] and bar["end"] <= cycles.end * (1 + 1e-9)
    ]
    shown = sum(bar["end"] - bar["start"] for bar in bars if bar["fill"] == paint(fill_of_kind("matmul")))
    assert bert.trace is not None
    records = [record for record in bert.trace.records if record.lane == "ipu1" and record.kind == "matmul"]
    main = [record for record in records if record.repeat_count == max(one.repeat_count for one in records)]
    taken = 2 * sum(each.end_ps - each.start_ps for each in main) / 1e9
    assert shown == pytest.approx(taken, rel=0.02)


def operation(name: str, start_ps: int, *kinds: tuple[str, int], runs: int = 1) -> Slice:
    inside, now = [], start_ps
    for kind, length_ps in kinds:
        inside.append(Slice("ipu0", kind, kind, now, now + length_ps))
        now += length_ps
    arguments = {"runs in this pass": runs}
    return Slice("ipu0", OPERATION, name, start_ps, now, arguments=arguments, inside=tuple(inside))


def a_pass() -> Slice:
    """An embedding, then three layers of two operations, of which the program keeps the first."""
    parts = (
        operation("embedding", 0, ("vector", 5)),
        operation("layer/a", 5, ("matmul", 6), ("exchange", 2), runs=3),
        operation("layer/b", 13, ("vector", 2), runs=3),
        Slice("ipu0", REPEATED, "2 more like this: layer", 15, 35, arguments={"repetitions": 2}),
    )
    return Slice("ipu0", PASS, "forward", 0, 35, inside=parts)


def test_operations_that_are_repeated_stand_as_often_as_they_run() -> None:
    assert [(each.name, each.kind, each.start_ps, each.end_ps) for each in pieces_of(a_pass())] == [
        ("embedding", "vector", 0, 5),
        *(("layer/a", "matmul", 5, 11), ("layer/a", "exchange", 11, 13), ("layer/b", "vector", 13, 15)),
        *(("layer/a", "matmul", 15, 21), ("layer/a", "exchange", 21, 23), ("layer/b", "vector", 23, 25)),
        *(("layer/a", "matmul", 25, 31), ("layer/a", "exchange", 31, 33), ("layer/b", "vector", 33, 35)),
    ]


def test_short_neighbours_become_one_that_is_drawn_as_what_it_owes() -> None:
    pieces = [
        OperationMark("ipu0", f"op{number}", kind, start, start + length)
        for number, (kind, start, length) in enumerate(
            [("matmul", 0, 6), ("vector", 6, 4), ("matmul", 10, 6), ("vector", 16, 4)]
        )
    ]
    one, other = merged(pieces, 10)
    assert (one.name, one.kind, one.operations, one.length_ps) == ("2 short operations, op0 to op1", "matmul", 2, 10)
    # After the first, matmul has been drawn for 4 too long: it is owed 6 - 4 = 2, and vector 4 + 4 = 8.
    assert (other.kind, other.start_ps, other.end_ps) == ("vector", 10, 20)
    assert one.mixture == "matmul 60 %, vector 40 %"
    assert list(merged(pieces, 4)) == pieces


def test_marks_are_cut_to_their_window_and_not_too_many() -> None:
    cycle = Slice("ipu0", "matmul", "work", 0, 10, repeat_count=100, repeat_period_ps=10)
    marks = marks_of([cycle], Stretch("some", 25, 45), most=10)
    assert [(mark.start_ps, mark.end_ps) for mark in marks] == [(25, 30), (30, 40), (40, 45)]
    few = marks_of([cycle], Stretch("all", 0, 1000), most=10)
    assert len(few) <= 10
    assert (few[0].start_ps, few[-1].end_ps, sum(each.operations for each in few)) == (0, 1000, len(few))


# Colours


def pattern_of(fill: Fill) -> tuple[str, str]:
    """Colour and drawing of a fill as a page has them."""
    if paint(fill) == fill.colour:
        return fill.colour, ""
    name = paint(fill).removeprefix("url(#").removesuffix(")")
    found = re.search(rf'<pattern id="{name}".*?fill="(#\w+)"/>(.*?)</pattern>', definitions(paint(fill)))
    assert found is not None, name
    return found[1], re.sub(r'"#\w+"', "", found[2])


def test_families_differ_in_pattern_and_their_members_in_lightness() -> None:
    fills = {kind.name: pattern_of(fill_of_kind(kind.name)) for kind in KINDS}
    families = {family: {fills[kind.name][1] for kind in KINDS if kind.family == family} for family in FAMILIES}
    assert all(len(shapes) == 1 for shapes in families.values())
    assert len({shape for shapes in families.values() for shape in shapes}) == len(FAMILIES)
    for family in FAMILIES:
        lightness = [luminance(fills[kind.name][0]) for kind in KINDS if kind.family == family]
        assert lightness == sorted(lightness)
        assert all(other > one * 1.05 for one, other in pairwise(lightness))


def test_tenants_of_memory_differ_in_pattern_or_lightness() -> None:
    fills = [pattern_of(fill) for fill in fills_in_turn(map(str, range(8))).values()]
    for (one, shape), (other, other_shape) in combinations(fills, 2):
        darker, lighter = sorted((luminance(one), luminance(other)))
        assert shape != other_shape or (lighter + 0.05) / (darker + 0.05) > 2
    assert fills_in_turn(map(str, range(20)))["19"] == fills_in_turn(map(str, range(8)))["7"]


def test_text_of_pages_has_contrast() -> None:
    style = (Path(html.__file__).parent / "page.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--(ink|soft|accent): (#\w+)", style))
    for colour in colours.values():
        full = colour if len(colour) == 7 else "#" + "".join(2 * each for each in colour[1:])
        assert 1.05 / (luminance(full) + 0.05) > 4.5
    assert len(colours) == 3


def test_text_on_a_bar_is_black_or_white_whichever_is_easier_to_read() -> None:
    for kind in KINDS:
        light = luminance(kind.colour)
        contrast = (light + 0.05) / 0.05 if Fill(kind.colour).ink == INK else 1.05 / (light + 0.05)
        assert contrast > 4.5, kind.name


# The file


@pytest.fixture
def with_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script in place of the library, which need not be installed."""
    monkeypatch.setattr(html, "script", lambda: "window.vegaEmbed = () => '</script><!-- ';")


def test_what_users_write_stays_text(with_script: None) -> None:
    text = html.as_html(evil_page())
    tags = Tags(text)
    assert EVIL not in text
    assert not any(tag == "img" for tag, _ in tags.tags)
    assert len([1 for tag, given in tags.tags if tag == "script" and "type" not in given]) == 2
    assert any(bar["row"] for spec in tags.specs for bar in spec["data"]["values"])
    assert text.count("</script>") == len(tags.specs) + 2
    (key,) = {bar["t2"] for spec in tags.specs[-1:] for bar in spec["data"]["values"]}
    assert key == EVIL


def test_a_page_asks_the_network_for_nothing(with_script: None) -> None:
    tags = Tags(html.as_html(make_result().report()))
    for tag, given in tags.tags:
        assert "src" not in given
        if "href" in given and tag != "a":
            assert str(given["href"]).startswith("data:")
    policy = next(given["content"] for _, given in tags.tags if given.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "'unsafe-eval'" not in policy
    assert len(re.findall(r"'sha256-[\w+/]{43}='", policy)) == 2


def test_headings_labels_and_tables_are_there_for_those_who_do_not_see_charts(
    page: Report, charts: list[Chart], with_script: None
) -> None:
    text = html.as_html(page)
    levels = [int(level) for level in re.findall(r"<h([1-6])", text)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(other <= one + 1 for one, other in pairwise(levels))
    tags = Tags(text).tags
    ids = {given["id"] for _, given in tags if "id" in given}
    for tag, given in tags:
        assert tag != "figure" or given["aria-labelledby"] in ids
        assert given.get("class") != "chart" or given["aria-label"]
        assert tag != "a" or not str(given["href"]).startswith("#") or str(given["href"])[1:] in ids
    assert text.count("The numbers of this chart") == len([chart for chart in charts if chart.numbers])
    assert all(spec["description"] for spec in Tags(text).specs)


def test_addresses_of_sources_are_links_and_nothing_else_is(with_script: None) -> None:
    page = make_result(warnings=("javascript:alert(1)",)).report()
    reference = {"key": "k", "value": "1", "basis": "assumed", "note": "see https://example.org/a?b=1&c='x'."}
    page = make_result(assumptions=(reference,)).report()
    links = [given["href"] for tag, given in Tags(html.as_html(page)).tags if tag == "a"]
    assert [link for link in links if not str(link).startswith("#")] == ["https://example.org/a?b=1&c="]


def test_the_same_result_gives_the_same_bytes(with_script: None) -> None:
    assert html.as_html(make_result().report()) == html.as_html(make_result().report())


def test_a_page_with_its_library_has_five_megabytes_at_most(tmp_path: Path, page: Report) -> None:
    pytest.importorskip("vl_convert", reason="pages need vl-convert-python")
    html_page.write_page(page, tmp_path / "page.html")
    content = (tmp_path / "page.html").read_bytes()
    assert 1_000_000 < len(content) <= 5_000_000
    assert b"window.vegaEmbed" in content


# Refusals


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["run", "good.yaml", "--report", "out.txt"], 2, "`.txt` is not a format for pages"),
        (["run", "good.yaml", "--report", "out"], 2, "the name of a page needs a suffix"),
        (["serve", "good.yaml", "--report", "none/out.html"], 2, "the folder `none` does not exist"),
        (["sweep", "study.yaml", "--report", "none/out.html"], 2, "the folder `none` does not exist"),
        (["compare", "good.yaml", "good.yaml", "--report", "out.pdf"], 2, "`.pdf` is not a format for pages"),
        (["plan", "good.yaml", "--report", "."], 2, "needs a suffix"),
        (["check", "good.yaml", "--report", "out.png"], 2, "`.png` is not a format for pages"),
        (["check", "good.yaml", "--accept", "--reason", "r", "--report", "o.html"], 2, "`--accept` gives none"),
    ],
)
def test_pages_that_cannot_be_written_are_refused_before_the_work(
    podsim: Run, arguments: list[str], code: int, told: str
) -> None:
    found, text = podsim(*arguments)
    assert (found, told in text, "do: " in text) == (code, True, True), text
    assert not Path("podsim-baseline.json").exists()


def test_a_missing_library_says_how_to_install_it(podsim: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    code, text = podsim("run", "good.yaml", "--report", "out.html")
    assert code == 2
    assert "pages need the package `vl-convert-python`, which is not installed" in text
    assert "do: pip install 'podsim[report]'" in text
    assert not Path("out.html").exists()


def test_a_page_never_overwrites_what_it_stands_on(
    podsim: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, with_script: None
) -> None:
    monkeypatch.setattr(html_page, "check_library", lambda: None)
    (tmp_path / "link.html").symlink_to(tmp_path / "good.yaml")
    before = (tmp_path / "good.yaml").read_text()
    for arguments in (["run", "good.yaml"], ["compare", "good.yaml", BERT]):
        code, text = podsim(*arguments, "--report", "link.html")
        assert (code, "this is both" in text) == (2, True), text
    code, text = podsim("run", "good.yaml", "--trace", "x.html", "--report", "x.html")
    assert (code, "this is both the trace and the report" in text) == (2, True), text
    assert (tmp_path / "good.yaml").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "title", "sections"),
    [
        (["run", "good.yaml"], None, PARTS),
        (["compare", "good.yaml", "good.yaml"], "good.yaml against good.yaml", ["B against A: training"]),
        (["check", "agreed.yaml"], "holds: 1 scenario, 0 figures, 1 expectation", ["Scenarios"]),
        (["sweep", "study.yaml", "-o", "t.csv"], "One &lt;key&gt;", ["Over the keys", "Points"]),
    ],
)
def test_each_command_writes_its_page_and_says_so(
    podsim: Run,
    monkeypatch: pytest.MonkeyPatch,
    with_script: None,
    arguments: list[str],
    title: str | None,
    sections: list[str],
) -> None:
    monkeypatch.setattr(html_page, "check_library", lambda: None)
    study = f"kind: study\ndescription: One <key>\nscenario: {BERT}\nkeys: {{software.host_call: [100 ms, 136 ms]}}\n"
    Path("study.yaml").write_text(study)
    Path("agreed.yaml").write_text("base: ./good.yaml\nexpect: {throughput_samples_per_s: '> 1'}\n")
    code, text = podsim(*arguments, "--report", "page.html")
    assert (code, "wrote page.html" in text) == (0, True), text
    written = Path("page.html").read_text(encoding="utf-8")
    assert re.findall(r"<h2>(.*?)</h2>", written) == sections
    assert title is None or f"<h1>{title}</h1>" in written
    assert "good.yaml" in written or "agreed" in written or BERT in written


def test_a_plan_shows_what_rules_a_system_out_and_what_none_beats(with_script: None) -> None:
    page = answer().report()
    assert [(tile.label, tile.value) for tile in page.tiles] == [
        ("Best", "bow_pod64"),
        ("Weight update", "500 ms"),
        ("MFU", "20.0 %"),
        ("IPUs", "64 (= 4 × 16)"),
        ("Within all limits", "2 of 4 options"),
    ]
    bars, weighed = charts_of(page)
    assert [(bar["row"], bar["end"]) for bar in bars_of(bars)] == [
        ("bow_pod64, as given", 0.5),
        ("bow_pod16, as given", 1.0),
        ("ipu_pod16, as given", 2.0),
    ]
    assert [(bar["x"], bar["y"], bar["name"]) for bar in bars_of(weighed)] == [
        (0.2, 0.5, "no other beats it in both"),
        (0.3, 1.0, "no other beats it in both"),
        (0.2, 0.5, "within all limits"),
        (0.3, 1.0, "within all limits"),
        (0.2, 2.0, "ruled out by a limit"),
    ]
    assert "16 IPUs are needed" in html.as_html(page)
    assert [section.title for section in page.sections][:2] == ["Ranking", "Weighed"]


def test_a_check_shows_how_far_each_figure_has_moved() -> None:
    page = verdict_page()
    (chart,) = charts_of(page)
    assert [(bar["row"], bar["end"]) for bar in bars_of(chart)] == [("weight_update_s, one", pytest.approx(10))]
    assert page.tiles[0].value == "does not hold"
    tables = [each for each in blocks_of(page, Table) if each.columns[0].head == "scenario"]
    (findings,) = [table for table in tables if len(table.columns) == 6]
    assert findings.rows[0][:5] == ["one", "weight_update_s", "1", "1.1", "+10.00 %"]


def test_a_study_shows_what_does_not_fit_and_refuses_figures_that_are_not_there(tmp_path: Path) -> None:
    content = {"kind": "study", "scenario": BERT, "keys": {"parallelism.micro_batch_size": [24, 48]}}
    none = sweep(content, processes=1).report()
    assert [(tile.label, tile.value) for tile in none.tiles] == [("Points that do not fit", "2")]
    assert [section.title for section in none.sections] == ["What could not be simulated"]
    content = {"kind": "study", "scenario": BERT, "keys": {"parallelism.micro_batch_size": [2, 24]}}
    swept = sweep(content, processes=1)
    with pytest.raises(PodsimError, match="no column of numbers `speed`"):
        swept.report("speed")
    (chart,) = charts_of(swept.report("mfu"))
    values = {(bar["name"], bar["x"]): bar["y"] for bar in bars_of(chart)}
    result = run(BERT, overrides=["parallelism.micro_batch_size=2"])
    assert isinstance(result, RunResult)
    assert values == {("MFU", 2): pytest.approx(result.mfu, rel=1e-5), ("does not fit", 24): 0}
    with pytest.raises(OutputError, match="is not a format"):
        html_page.check_page_path(tmp_path / "page.md")


def test_variants_of_a_study_have_their_names_and_the_file_itself_none() -> None:
    content = {"kind": "study", "scenario": "bert_base_c600", "all_variants": True}
    (chart,) = charts_of(sweep(content, processes=1).report())
    assert [bar["row"] for bar in bars_of(chart)] == ["no variant", "batch_128"]


def test_the_makespan_of_the_example_is_shown_whole() -> None:
    chart = timeline_of(charts_of(make_result().report()))
    assert isinstance(chart.drawn, TimelineChart)
    assert [(stretch.start, stretch.end) for stretch in chart.drawn.stretches] == [(0.0, MAKESPAN_PS / 1e9)]
    assert json.dumps(vega_spec(chart))


def test_a_tile_of_a_comparison_says_what_is_better() -> None:
    bow = load("bert_pod64_hardware", variant="bow")
    page = compare("bert_pod64_hardware", bow).report()
    assert page.tiles
    assert all(tile.notes[-1] in ("B is better", "B is worse") for tile in page.tiles)
