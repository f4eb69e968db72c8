"""Markdown as generated pages need it: tables and paragraphs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from textwrap import fill

WRITTEN_NOTE = "<!-- written by tools/make_reference.py; change the docstrings of podsim and run `./dev docs` -->"
SIMULATED_NOTE = "<!-- written by tools/make_reference.py from simulations; run `./dev docs` -->"
_WIDTH = 120


def table(header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Collection[int]) -> str:
    """A table whose columns are aligned to the right, apart from those of text."""
    ruler = ["---" if column in text_columns else "--:" for column in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ruler, *rows))


def paragraph(text: str) -> str:
    """Text in lines of the width of a page."""
    return fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)


def one_line(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
