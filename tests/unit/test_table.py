"""One table, written for a terminal, in Markdown, HTML and CSV."""

from __future__ import annotations

from io import BytesIO, StringIO, TextIOWrapper

import pytest
from rich.console import Console

from podsim.report.table import Block, Cell, Column, Passage, Table, columns
from podsim.show.html_page import to_html
from podsim.show.markdown import to_csv, to_markdown
from podsim.show.text import Printed, to_text

TIMES = Table(
    (*columns("kind", ""), Column("weight\nupdate", is_number=True, unit="s")),
    [
        ("first",),
        ("matmul", Cell("most × 2", 1.0), Cell("1,250 ms", 1.25)),
        ("last",),
        ("a <b>", Cell("some", 0.55), "none"),
    ],
    "Where time goes",
    ["see https://x.example"],
    chosen=1,
)


def printed(block: Block, width: int = 80, encoding: str = "utf-8") -> str:
    """What a console gets that is so wide."""
    file = TextIOWrapper(BytesIO(), encoding)
    Console(file=file, width=width).print(Printed(block))
    file.seek(0)
    return file.read()


def test_text_has_numbers_to_the_right_heads_at_the_bottom_and_headings_over_rows() -> None:
    assert to_text(TIMES) == (
        "Where time goes\n"
        "                    weight\n"
        "kind                update\n"
        "──────────────────────────\n"
        "first:\n"
        "matmul  most × 2  1,250 ms\n"
        "last:\n"
        "a <b>   some          none\n"
        "see https://x.example\n"
    )


def test_a_console_shows_the_same_and_lines_become_ascii_where_it_knows_no_others() -> None:
    assert printed(TIMES) == to_text(TIMES)
    lines = printed(TIMES, encoding="ascii").splitlines()
    assert lines[3] == "-" * 26
    assert lines[5] == "matmul  most x 2  1,250 ms"
    assert lines[7] == "a <b>   some          none"


def test_the_chosen_row_is_bold_and_titles_too() -> None:
    file = StringIO()
    Console(file=file, width=80, force_terminal=True, color_system="truecolor").print(Printed(TIMES))
    bold = [line for line in file.getvalue().splitlines() if line.startswith("\x1b[1m")]
    assert [text.removeprefix("\x1b[1m").split("\x1b")[0].rstrip() for text in bold] == [
        "Where time goes",
        "first:",
        "matmul",
        "last:",
    ]


def test_markdown() -> None:
    assert to_markdown(TIMES).splitlines() == [
        "## Where time goes",
        "",
        "| kind |  | weight update |",
        "| --- | --- | --: |",
        "| **first** |  |  |",
        "| matmul | most × 2 | 1,250 ms |",
        "| **last** |  |  |",
        "| a &lt;b&gt; | some | none |",
        "",
        "see https:\u200b//x.example",
    ]


def test_html_escapes_marks_what_is_chosen_and_links_addresses() -> None:
    text = to_html(TIMES)
    assert "<caption>Where time goes</caption>" in text
    assert '<th scope="col" class="number">weight<br>update</th>' in text
    assert '<tr><th scope="rowgroup" colspan="3">first</th></tr>' in text
    assert '<tr class="chosen"><td>matmul</td><td>most × 2</td><td class="number">1,250 ms</td></tr>' in text
    assert "<td>a &lt;b&gt;</td>" in text
    assert '<p class="small">see <a href="https://x.example" rel="noreferrer">https://x.example</a></p>' in text
    assert "<thead>" not in to_html(Table(columns("", ""), [("a", "b")]))
    assert to_html(Passage("a:\n  <b>", "keys")) == '<p>keys</p>\n<pre tabindex="0">a:\n  &lt;b&gt;</pre>'


def test_csv_has_the_numbers_behind_cells_with_their_unit_and_no_formulas() -> None:
    assert to_csv(TIMES).splitlines() == [
        "group,kind,,weight update [s]",
        "first,matmul,1.0,1.25",
        "last,a <b>,0.55,none",
    ]
    assert to_csv(Table(columns("a", "b"), [("=cmd()", '1,"2"')])) == 'a,b\n\'=cmd(),"1,""2"""\n'


def test_where_there_is_little_room_text_gives_way_before_heads_and_heads_before_numbers() -> None:
    table = Table(columns("what", ">long head"), [("some words in a row", "12,345")])
    assert to_text(table, 31).splitlines()[2] == "some words in a row     12,345"
    assert to_text(table, 20).splitlines() == [
        "what       long head",
        "────────────────────",
        "some          12,345",
        "words in",
        "a row",
    ]
    assert to_text(table, 17).splitlines()[:4] == [
        "             long",
        "what         head",
        "─────────────────",
        "some       12,345",
    ]


@pytest.mark.parametrize("width", [1, 5, 12, 30])
def test_no_line_is_wider_than_asked_and_no_text_is_lost(width: int) -> None:
    cells = ("GCP-028: vit_base_pod16@bow", "1,234", "日本語の列")
    table = Table(columns("row", ">predicted", "why"), [cells], "A title of a few words")
    room = max(width, 3 + 2 * 2)  # a column has at least one character
    wide = str.maketrans({each: each * 2 for each in cells[2]})
    lines = to_text(table, max(room, 8)).splitlines()
    assert max(len(line.translate(wide)) for line in lines) <= max(room, 8) + 1  # a wide character is two columns


def test_control_characters_neither_show_nor_count() -> None:
    table = Table(columns("a", ">b"), [("x\x1b[2Jy", "1"), ("x[2Jyz", "2")])
    assert to_text(table).splitlines() == ["a       b", "─────────", "x[2Jy   1", "x[2Jyz  2"]


def test_a_passage_keeps_its_lines() -> None:
    assert to_text(Passage("a:\n  b: 1", "Keys")) == "Keys\na:\n  b: 1\n"
    assert printed(Passage("")) == "\n"
