r"""Escaping of users' text for output, with one function for each format.

A name, a description or a line of a log may contain control sequences of a terminal, lines that look like a verdict,
tags, mentions, formulas, or characters that XML does not allow. Other text is unchanged, so that names can be copied.

>>> terminal("pod\x1b[2J"), line("a\nholds"), markdown("<img> @everyone |"), csv("=cmd()"), github("a\nb")
('pod[2J', 'a holds', '&lt;img&gt; @\u200beveryone \\|', "'=cmd()", 'a%0Ab')
"""

from __future__ import annotations

import re
from html import escape
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
"""Control characters: cursor movement, unusual line ends and writing direction; not tabs and line ends."""
_NOT_IN_XML: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")
_MARKS: Final = re.compile(r"([\\`*|\[\]]|~(?=~)|(?<=~)~|(?<!\w)_|_(?!\w))")
_BLOCK: Final = re.compile(r"^(?:(?=[#+=-])|(\d+))(#{1,6}|[-+]+|=+|[.)])(?=\s|$)")
"""Start of a line that Markdown reads as a heading, a list or a rule."""
_REACHES: Final = re.compile(r"((?<!\w)[@#](?=\w)|\b(?:https?|ftp|mailto|xmpp):|\bwww(?=\.))", re.IGNORECASE)
"""Text that GitHub reads as a mention, an issue or a link."""
_WIDTH: Final = 100
_APART: Final = "\u200b"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def terminal(text: str) -> str:
    """Remove control characters except tabs and ends of lines, for a terminal."""
    return _CONTROLS.sub("", text)


def line(text: str) -> str:
    """Join text into one line without control characters, as names need it."""
    return " ".join(terminal(text.replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")).split())


def printable(text: str) -> str:
    r"""Return the text with a question mark for each character that cannot be printed, for one line of a message.

    >>> printable("a\nb")
    'a?b'
    """
    return "".join(each if each.isprintable() else "?" for each in text)


def short(text: str) -> str:
    """Cut text to one line of at most the width of a line of code."""
    clean = line(text)
    return clean if len(clean) <= _WIDTH else f"{clean[: _WIDTH - 1]}…"


def markdown(text: str) -> str:
    """Escape text for a cell or a line of Markdown, as GitHub reads it."""
    apart = _REACHES.sub(rf"\1{_APART}", line(text))
    marked = _MARKS.sub(r"\\\1", escape(apart, quote=False))
    return _BLOCK.sub(r"\1\\\2", marked)


def xml(text: str) -> str:
    """Remove characters that XML cannot hold; the writer of XML escapes all others."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", terminal(text))


def html(text: str) -> str:
    """Escape text for HTML."""
    return escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", terminal(text)))


def csv(text: str) -> str:
    """Escape text for a cell in CSV, so that no spreadsheet reads it as a formula."""
    clean = terminal(text)
    if not clean.lstrip("'").lstrip(" ").startswith(_FORMULA):
        return clean
    try:
        float(clean)
    except ValueError:
        return f"'{clean}"
    return clean


def from_csv(cell: object) -> object:
    """Return the content of a cell before `csv` escaped it."""
    return cell[1:] if isinstance(cell, str) and cell[:1] == "'" and csv(cell[1:]) == cell else cell


def github(text: str, *, of_property: bool = False) -> str:
    """Escape text for a command of GitHub's runners; its properties end at commas and colons."""
    clean = terminal(text).strip()
    for character in "%\n:," if of_property else "%\n":
        clean = clean.replace(character, f"%{ord(character):02X}")
    return clean
