"""Reports as HTML pages: one file without network requests; the same report gives the same bytes.

Texts from users are escaped. As a second defence, a content security policy allows only the page's own two scripts, by
their hashes, and no requests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Final

from podsim.disk import cached, digest
from podsim.errors import OutputError
from podsim.escaped import html
from podsim.packages import OPTIONAL, check_package, optional
from podsim.report.chart import Chart, TimelineChart
from podsim.report.report import Folded, Part, Report, Tile
from podsim.report.table import Block, Passage, Table
from podsim.result.files import check_not_read, check_writable, write_atomically
from podsim.show.vega_charts import definitions, paint, vega_spec

SUFFIXES: Final = (".html", ".htm")
_PACKAGE = "vl_convert"
_ADDRESS: Final = re.compile(r"(https?://[^\s<>\"';,]+)")
_SHORT_HASH: Final = 12
_DRAWN_BY: Final = (
    "Charts are drawn by Vega, Vega-Lite and Vega-Embed, © University of Washington Interactive Data Lab, "
    "under the BSD 3-Clause licence."
)
_KEYS: Final = ' tabindex="0" aria-keyshortcuts="+ - ArrowLeft ArrowRight 0"'
_DATA: Final = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)
_NO_SCRIPT: Final = "Charts need JavaScript; the tables below them hold their numbers."
_ZOOM_HINT: Final = "Drag over a part to zoom to it; Ctrl and the wheel, or the keys + − ← → and 0, do it too."
_STEPS: Final = (("in", "Zoom in", "+"), ("out", "Zoom out", "−"), ("back", "Earlier", "←"), ("on", "Later", "→"))


def as_html(page: Report) -> str:
    """Return a report as the text of an HTML page."""
    style, page_script = (
        files("podsim.show").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    drawing = script().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    hashes = (base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in (drawing, page_script))
    allowed = " ".join(f"'sha256-{hash_}'" for hash_ in hashes)
    body = "\n".join(_body(page))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src {allowed}; \
style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="podsim {html(page.version)}">
<title>{html(page.title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{_patterns(body)}
{body}
<script>{drawing}</script>
<script>{page_script}</script>
</body>
</html>
"""


def _patterns(drawn: str) -> str:
    """Return the SVG fill patterns used by the charts of a page."""
    place = 'class="patterns" width="0" height="0" aria-hidden="true" focusable="false"'
    return f"<svg {place}><defs>{definitions(drawn)}</defs></svg>"


def fragment(blocks: Iterable[Part], prefix: str) -> str:
    """Return blocks as HTML to insert into another page, without scripts; ids of charts begin with `prefix`."""
    numbers = count(1)
    text = "\n".join(line for block in blocks for line in _block(block, numbers, prefix))
    text = f"{_patterns(text)}{text}" if "url(#" in text else text
    return _DATA.sub(lambda match: f'<pre class="spec" hidden>{html(match[1])}</pre>', text)


def tiles(shown: Iterable[Tile]) -> str:
    """Return headline figures as HTML to insert into a page."""
    parts = []
    for tile in shown:
        notes = "".join(f'<dd class="more">{html(note)}</dd>' for note in (tile.range, *tile.notes) if note)
        parts.append(f'<div><dt>{html(tile.label)}</dt><dd class="value">{html(tile.value)}</dd>{notes}</div>')
    return f'<dl class="tiles">{"".join(parts)}</dl>'


def _body(page: Report) -> Iterator[str]:
    yield '<a class="skip" href="#content">Skip to the content</a>'
    yield f"<header><h1>{html(page.title)}</h1>"
    yield from (f'<p class="about">{html(line)}</p>' for line in page.about)
    for kind, text, _ in page.lead():
        look = "note" if kind == "note" else "warning"
        yield f'<p class="{look}"><strong>{kind.capitalize()}:</strong> {html(text)}</p>'
    yield "</header>"
    sections = [(_anchor(section.title), section) for section in page.sections if section.paged and section.blocks]
    links = (f'<li><a href="#{anchor}">{html(section.title)}</a></li>' for anchor, section in sections)
    yield f'<nav aria-label="Sections"><ul>{"".join(links)}</ul></nav>'
    yield '<main id="content">'
    yield f'<noscript><p class="warning">{_NO_SCRIPT}</p></noscript>'
    if page.tiles:
        yield tiles(page.tiles)
    numbers = count(1)
    for anchor, section in sections:
        yield f'<section id="{anchor}"><h2>{html(section.title)}</h2>'
        for block in section.blocks:
            yield from _block(block, numbers)
        yield "</section>"
    yield "</main>"
    inputs = "".join(
        f'<li>{html(path)} <code title="SHA-256 {sha}">{sha[:_SHORT_HASH]}</code></li>' for path, sha in page.inputs
    )
    listed = f" from these files:</p><ul>{inputs}</ul>" if inputs else ".</p>"
    yield f"<footer><p>Made by podsim {html(page.version)}{listed}<p>{_DRAWN_BY}</p></footer>"


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _block(block: Part, numbers: Iterator[int], prefix: str = "chart") -> Iterator[str]:
    match block:
        case str():
            yield f"<p>{_linked(block)}</p>"
        case Table() | Passage():
            yield to_html(block)
        case Chart():
            yield from _chart(block, f"{prefix}-{next(numbers)}")
        case Folded():
            yield f"<details><summary>{html(block.title)}</summary>"
            for part in block.blocks:
                yield from _block(part, numbers, prefix)
            yield "</details>"


def _chart(chart: Chart, name: str) -> Iterator[str]:
    stretches = chart.drawn.stretches if isinstance(chart.drawn, TimelineChart) else ()
    zoom = ' data-zoom="yes"' if stretches else ""
    yield f'<figure id="{name}"{zoom} aria-labelledby="{name}-title">'
    yield f'<figcaption><h3 id="{name}-title">{html(chart.title)}</h3></figcaption>'
    if stretches:
        parts = [
            (f'data-from="{stretch.start!r}" data-to="{stretch.end!r}"', html(stretch.title.partition(":")[0]))
            for stretch in stretches
        ]
        steps = [(f'data-step="{step}" aria-label="{label}"', sign) for step, label, sign in _STEPS]
        groups = (
            "".join(f'<button type="button" {attributes}>{text}</button>' for attributes, text in group)
            for group in (parts, steps)
        )
        spans = "".join(f'<span class="group">{group}</span>' for group in groups)
        yield f'<div class="tools" role="toolbar" aria-label="Zoom">{spans}</div>'
    yield f'<div class="chart" role="group" aria-label="{html(chart.description)}"{_KEYS * bool(zoom)}></div>'
    if chart.legend:
        size, items = 'width="22" height="14"', [f"<li>{html(chart.legend_title)}</li>"] * bool(chart.legend_title)
        for text, fill in chart.legend.items():
            box = f'<svg {size} aria-hidden="true"><rect {size} fill="{paint(fill)}"/></svg>'
            items.append(f"<li>{box}{html(text)}</li>")
        yield f'<ul class="legend" aria-label="Legend">{"".join(items)}</ul>'
    notes = [_ZOOM_HINT, *chart.notes] if stretches else chart.notes
    yield from (f'<p class="small">{html(note)}</p>' for note in notes)
    spec = {"description": chart.description, **vega_spec(chart)}
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # so that the text cannot end its script element
    yield f'<script type="application/json">{text}</script>'
    if chart.numbers:
        yield from _block(Folded("The numbers of this chart", [chart.numbers]), count())
    yield "</figure>"


def report_as_html(report: Report) -> str:
    """Return the short answer of a report as HTML for notebooks."""
    return "".join(to_html(block) for block in (*report.heading(), *report.short()))


def to_html(table: Block) -> str:
    """Return a table with its notes, or a passage, as HTML; addresses become links."""
    if isinstance(table, Passage):
        title = f"<p>{_linked(table.title)}</p>\n" if table.title else ""
        return f'{title}<pre tabindex="0">{html(table.text)}</pre>'
    kinds = [' class="number"' if column.is_number else "" for column in table.columns]

    def cells(row: Iterable[object], tag: str, more: str = "") -> str:
        return "".join(
            f"<{tag}{more}{kind}>{_linked(str(cell))}</{tag}>" for cell, kind in zip(row, kinds, strict=False)
        )

    rows = []
    for number, row in enumerate(table.rows):
        chosen = ' class="chosen"' if number == table.chosen else ""
        whole = f'<th scope="rowgroup" colspan="{len(kinds)}">{_linked(str(row[0]))}</th>'
        rows.append(f"<tr{chosen}>{whole if len(row) < len(kinds) else cells(row, 'td')}</tr>")
    heads = cells((column.head for column in table.columns), "th", ' scope="col"')
    head = f"<thead><tr>{heads}</tr></thead>" if table.has_heads else ""
    caption = f"<caption>{html(table.title)}</caption>" if table.title else ""
    lines = "\n".join(rows)
    body = f"<table>{caption}{head}<tbody>{lines}</tbody></table>"
    notes = "".join(f'\n<p class="small">{_linked(note)}</p>' for note in table.notes)
    name = html(table.title or "Table")
    return f'<div class="scroll" role="region" aria-label="{name}" tabindex="0">{body}</div>{notes}'


def _linked(text: str) -> str:
    """Return text escaped for HTML, with links for addresses and `<br>` for line ends."""
    parts = [html(part) for part in _ADDRESS.split(text)]
    parts[1::2] = [f'<a href="{address}" rel="noreferrer">{address}</a>' for address in parts[1::2]]
    return "".join(parts).replace("\n", "<br>")


def check_page_path(path: str | Path) -> None:
    """Raise a `PodsimError` if a page cannot be written to a path, or the chart library is not installed."""
    suffix = Path(path).suffix
    if suffix.lower() not in SUFFIXES:
        what = f"`{suffix}` is not a format for pages" if suffix else "the name of a page needs a suffix"
        raise OutputError(what, where=str(path), do=f"end the name in {' or '.join(SUFFIXES)}")
    check_writable(path)
    check_library()


def write_page(page: Report, path: str | Path) -> None:
    """Write a page; raise `OutputError` if the path is not writable, or an input file of the report."""
    check_page_path(path)
    check_not_read(path, "report", page.inputs)
    write_atomically(path, as_html(page).encode(errors="replace"))


def check_library() -> None:
    """Raise a `PodsimError` if the package that draws the charts of pages is not installed."""
    check_package(_PACKAGE, "pages need")


def script() -> str:
    """Return the script that sets `window.vegaEmbed`: Vega, Vega-Lite and Vega-Embed from an installed package.

    It is cached on disk, because its assembly takes two seconds.
    """
    check_library()
    key = digest([b"script of pages", version(OPTIONAL[_PACKAGE][0]).encode()])
    return cached(key, lambda: str(optional(_PACKAGE, "pages need").javascript_bundle()), str, _checked)


def _checked(data: object) -> str:
    if not isinstance(data, str):
        raise TypeError(data)
    return data
