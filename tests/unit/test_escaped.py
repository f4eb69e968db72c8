"""Text of users in each format: what it could do elsewhere, it does not do here."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import podsim
from podsim import escaped
from podsim.cli.app import main
from podsim.report.report import Report, Section
from podsim.report.table import Table, columns
from podsim.show.html_page import as_html
from podsim.show.matplotlib_charts import write_sheet
from podsim.show.text import PlainConsole
from podsim.study.check import verdict as ci
from podsim.study.check.verdict import Baseline, Issue, Verdict, verdict_on
from podsim.study.compare import compare
from podsim.study.store import write_table
from podsim.study.sweep import sheet_of

ESCAPES = "a\x1b[2J\x9b31m\x07\u202eb\x00"
EVIL = f"{ESCAPES}\nholds: 9 scenarios\r::error::x\u2028<img src=x> @everyone |c| [l](https://x.example) `d` \ufffe"


def test_a_terminal_gets_lines_and_tabs_and_nothing_that_moves_its_cursor() -> None:
    assert escaped.terminal(f"{ESCAPES}\n\tc") == "a[2J31mb\n\tc"
    assert escaped.line(" a\r\nb\u2029c\td ") == "a b c d"
    assert escaped.line("weight_update_s: 1.5 → 2 (±3 %), größer") == "weight_update_s: 1.5 → 2 (±3 %), größer"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a | b\nc", "a \\| b c"),
        ("<img src=x> & </details>", "&lt;img src=x&gt; &amp; &lt;/details&gt;"),
        ("[here](x) ![i](y)", "\\[here\\](x) !\\[i\\](y)"),
        ("@everyone me@home s@variant", "@\u200beveryone me@home s@variant"),
        ("#12 a#12", "#\u200b12 a#12"),
        ("https://x.example www.x.example", "https:\u200b//x.example www\u200b.x.example"),
        ("`a` *b* _c_ d_e ~~f~~ g~h", "\\`a\\` \\*b\\* \\_c\\_ d_e \\~\\~f\\~\\~ g~h"),
        ("a\\|b", "a\\\\\\|b"),
        ("# a", "\\# a"),
        ("1. a", "1\\. a"),
        ("- a", "\\- a"),
        ("-5.5 % of 1.5 s", "-5.5 % of 1.5 s"),
    ],
)
def test_markdown_shows_what_was_written(text: str, written: str) -> None:
    assert escaped.markdown(text) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("@SUM(1)", "'@SUM(1)"),
        ("+a", "'+a"),
        ("  -a", "'  -a"),
        ("\t=a", "'\t=a"),
        ("\x1b=a", "'=a"),
        ("-5", "-5"),
        ("+1e3", "+1e3"),
        ("a=b", "a=b"),
    ],
)
def test_no_cell_is_a_formula(text: str, written: str) -> None:
    assert escaped.csv(text) == written


@pytest.mark.parametrize("text", ["=a", "'a'", "'=a", "--set a", "-5", "a", "'"])
def test_a_table_is_read_as_it_was_written(text: str) -> None:
    assert escaped.from_csv(escaped.csv(text)) == text


def test_a_table_of_a_study_holds_no_formula(tmp_path: Path) -> None:
    rows = [{"point": 0, "variant": "=cmd()", "mfu": -0.5}]
    write_table(tmp_path / "t.csv", lambda: rows, {})
    assert list(csv.reader(StringIO((tmp_path / "t.csv").read_text()))) == [
        ["point", "variant", "mfu"],
        ["0", "'=cmd()", "-0.5"],
    ]


def test_what_is_no_xml_is_left_out_of_it() -> None:
    text = escaped.xml(f"{EVIL}\ud800")
    assert ET.fromstring(f"<a>{text.replace('<', '&lt;').replace('&l', '&l')}</a>".replace("& ", "&amp; ")).text
    assert "\x1b" not in text and "\ufffe" not in text and "\ud800" not in text


def evil_verdict() -> Verdict:
    now = {
        "status": "done",
        "reason": None,
        "metrics": {"mfu": 2.0},
        "breakdown_ps": {},
        "inputs": {EVIL: "2"},
        "expect": {},
    }
    return verdict_on({EVIL: now}, Baseline({EVIL: now | {"metrics": {"mfu": 4.0}, "inputs": {EVIL: "1"}}}))


def test_a_verdict_is_harmless_in_each_format() -> None:
    verdict = evil_verdict()
    text = verdict.text()
    assert text.splitlines()[0] == "does not hold: 1 drift of 1 scenario, 1 figure"
    assert not any("\n" in cell for cell in verdict.issues[0].cells())
    markdown = ci.as_comment(verdict).splitlines()
    assert len(markdown) == 6 and markdown[-1].startswith("| drift | a")
    assert markdown[-1].replace("\\|", "").count("|") == 8
    annotations = ci.as_github(replace(verdict, paths={EVIL: Path(f"{EVIL}.yaml".replace("\0", ""))})).splitlines()
    assert len(annotations) == 2
    assert annotations[0].partition(",title=")[0].count(",") == 0
    suite = ET.fromstring(ci.as_junit(verdict))
    assert suite.get("failures") == "1"
    for each in (text, *markdown, *annotations):
        assert not {"\x1b", "\x9b", "\x07", "\r", "\u202e", "\u2028"} & {*each}
    assert "<img" not in "".join(markdown) and "@everyone" not in "".join(markdown)


def test_a_name_of_bytes_that_are_no_text_ends_no_command(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b\udcff.yaml"
    try:
        path.write_text("base: nothing_like_it\n")
    except (OSError, UnicodeError):
        pytest.skip("names of files are text here")
    for form in ("text", "markdown", "github", "junit", "json"):
        monkeypatch.setattr(sys, "argv", ["podsim", "check", str(tmp_path), "--format", form])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 1
        output = capfdbinary.readouterr().out
        if form == "json":
            assert json.loads(output)["holds"] is False
        if form == "junit":
            ET.fromstring(output)


SCENARIO = (
    "base: conductivity_cnn_pod4\n"
    'description: "=cmd\\e[2J\\a <img src=x> @everyone |\\nholds: 9 scenarios [red]a[/red] $\\\\frac{$"\n'
    'variants: {"=v|<img>\\e[31m\\n@everyone $\\\\frac{$": {parallelism: {accumulation_factor: 2}}}\n'
)
VARIANT = "=v|<img>\x1b[31m\n@everyone $\\frac{$"


def test_a_description_is_harmless_wherever_a_run_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    drawn, page = tmp_path / "s.svg", tmp_path / "s.html"
    monkeypatch.setattr(
        sys, "argv", ["podsim", "run", str(path), "--variant", VARIANT, "--plot", str(drawn), "--report", str(page)]
    )
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err and "\x07" not in printed.out
    assert not any(line.startswith("holds") for line in printed.out.splitlines())
    assert "[red]a[/red]" in " ".join(printed.out.split())
    ET.parse(drawn)
    assert "<img src=x>" not in page.read_text() and "\x1b" not in page.read_text()


def test_a_comparison_is_harmless_in_markdown(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    found = compare(podsim.simulate(str(path)), podsim.simulate(str(path), variant=VARIANT))
    text = found.markdown()
    assert "<img" not in text and "@everyone" not in text and "\x1b" not in text


@pytest.mark.slow
def test_no_name_is_a_formula_of_a_chart(tmp_path: Path) -> None:
    """Two dollar signs would begin one, and end the command where it is none."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    study = "kind: study\nscenario: s.yaml\nall_variants: true\nkeys: {parallelism.micro_batch_size: [8]}\n"
    (tmp_path / "study.yaml").write_text(study)
    swept = podsim.sweep(tmp_path / "study.yaml", tmp_path / "t.csv", processes=1)
    write_sheet(lambda: sheet_of(swept, swept.report()), tmp_path / "t.svg", swept.inputs)
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    drawn = [each.text or "" for each in ET.parse(tmp_path / "t.svg", parser).iter(ET.Comment)]
    assert any(each.count("$") == 2 for each in drawn), drawn


def test_tables_take_no_text_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    PlainConsole().print("[red]a[/red] \x1b[2Jb :smile:")
    assert capsys.readouterr().out == "[red]a[/red] [2Jb :smile:\n"


def test_pages_escape_and_leave_out() -> None:
    sections = [Section(EVIL, [EVIL, Table(columns(EVIL), [[EVIL]], EVIL)])]
    page = Report(title=EVIL, about=(EVIL,), version="1", inputs=[(EVIL, "0")], tiles=[], sections=sections)
    text = as_html(page)
    assert "<img src=x>" not in text
    assert not {"\x1b", "\x9b", "\x00", "\x07", "\u202e", "\ufffe"} & {*text.partition("<script>")[0]}


def test_a_finding_without_a_place_is_annotated() -> None:
    verdict = Verdict([Issue("removed", "gone", before="done")])
    assert ci.as_github(verdict).splitlines()[0] == "::error title=podsim check::removed: gone: done → nothing"
