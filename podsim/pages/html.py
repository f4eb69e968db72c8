"""A page as HTML: one file that asks the network for nothing, the same bytes for the same answer.

Whatever a user may have written is escaped. Should that ever fail, a browser still runs no script of it, since the page
names the hashes of its own two scripts and forbids all others, and all requests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import count
from typing import Final

from podsim.harmless import html
from podsim.pages.library import script
from podsim.pages.parts import Block, Folded, Page, Section, Tile
from podsim.show.chart import Chart, Fill, TimelineChart, TimelineStretch
from podsim.show.table import Passage, Table, linked, to_html
from podsim.show.vega_charts import choices_of, definitions, paint, vega_spec

_SHORT_HASH: Final = 12
_DRAWN_BY: Final = (
    "Charts are drawn by Vega, Vega-Lite and Vega-Embed, © University of Washington Interactive Data Lab, "
    "under the BSD 3-Clause licence."
)
_KEYS: Final = ' tabindex="0" aria-keyshortcuts="+ - ArrowLeft ArrowRight 0"'
_DATA: Final = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)
_NO_SCRIPT: Final = "Charts need JavaScript; the tables below them hold their numbers."
_ZOOM_HINT: Final = "Drag over a part to zoom to it; Ctrl and the wheel, or the keys + − ← → and 0, do it too."


def as_html(page: Page) -> str:
    """A page as text of HTML."""
    style, own = _resource("page.css"), _resource("page.js")
    drawing = script().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    body = "\n".join(_body(page))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(drawing, own)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="podsim {html(page.version)}">
<title>{html(page.title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{patterns()}
{body}
<script>{drawing}</script>
<script>{own}</script>
</body>
</html>
"""


def patterns() -> str:
    """What charts paint with, once on every page that has some."""
    place = 'class="patterns" width="0" height="0" aria-hidden="true" focusable="false"'
    return f"<svg {place}><defs>{definitions()}</defs></svg>"


def fragment(blocks: Iterable[Block], prefix: str) -> str:
    """Blocks as a part of a page that is put together elsewhere, without any script.

    Args:
        blocks: What it shows.
        prefix: Begins the names of its charts, which differ from those of other parts.
    """
    numbers = count(1)
    text = "\n".join(line for block in blocks for line in _block(block, numbers, prefix))
    return _DATA.sub(lambda match: f'<pre class="spec" hidden>{html(match[1])}</pre>', text)


def tiles(shown: Iterable[Tile]) -> str:
    """The numbers that matter most, as a part of a page."""
    return f'<dl class="tiles">{"".join(map(_tile, shown))}</dl>'


def _resource(name: str) -> str:
    return files("podsim.pages").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    allowed = " ".join(f"'sha256-{_hash(each)}'" for each in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _body(page: Page) -> Iterator[str]:
    yield '<a class="skip" href="#content">Skip to the content</a>'
    yield f"<header><h1>{html(page.title)}</h1>"
    yield from (f'<p class="about">{html(line)}</p>' for line in page.about)
    yield from (f'<p class="warning"><strong>Verdict:</strong> {html(text)}</p>' for text in page.verdict)
    yield from (f'<p class="warning"><strong>Warning:</strong> {html(text)}</p>' for text in page.warnings)
    yield from (f'<p class="note"><strong>Note:</strong> {html(text)}</p>' for text in page.notes)
    yield "</header>"
    links = (f'<li><a href="#{_anchor(each)}">{html(each.title)}</a></li>' for each in page.sections)
    yield f'<nav aria-label="Sections"><ul>{"".join(links)}</ul></nav>'
    yield '<main id="content">'
    yield f'<noscript><p class="warning">{_NO_SCRIPT}</p></noscript>'
    if page.tiles:
        yield tiles(page.tiles)
    numbers = count(1)
    for section in page.sections:
        yield f'<section id="{_anchor(section)}"><h2>{html(section.title)}</h2>'
        for block in section.blocks:
            yield from _block(block, numbers)
        yield "</section>"
    yield "</main>"
    yield from _footer(page)


def _anchor(section: Section) -> str:
    return re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")


def _tile(tile: Tile) -> str:
    notes = "".join(f'<dd class="more">{html(note)}</dd>' for note in tile.notes)
    return f'<div><dt>{html(tile.label)}</dt><dd class="value">{html(tile.value)}</dd>{notes}</div>'


def _block(block: Block, numbers: Iterator[int], prefix: str = "chart") -> Iterator[str]:
    match block:
        case str():
            yield f"<p>{linked(block)}</p>"
        case Table() | Passage():
            yield to_html(block)
        case Chart():
            yield from _chart(block, f"{prefix}-{next(numbers)}", numbers)
        case Folded():
            yield f"<details><summary>{html(block.title)}</summary>"
            for each in block.blocks:
                yield from _block(each, numbers, prefix)
            yield "</details>"


def _chart(chart: Chart, name: str, numbers: Iterator[int]) -> Iterator[str]:
    choices = choices_of(chart)
    stretches = chart.drawn.stretches if isinstance(chart.drawn, TimelineChart) else ()
    zoom = ' data-zoom="yes"' if stretches else ""
    yield f'<figure id="{name}"{zoom} aria-labelledby="{name}-title">'
    yield f'<figcaption><h3 id="{name}-title">{html(chart.title)}</h3></figcaption>'
    if choices:
        options = "".join(
            f'<option value="{html(key)}" data-scale="{scale}">{html(text)}</option>' for key, text, scale in choices
        )
        yield f'<p class="tools"><label>Show <select>{options}</select></label></p>'
    if stretches:
        yield _zoom(stretches)
    yield f'<div class="chart" role="group" aria-label="{html(chart.description)}"{_KEYS * bool(zoom)}></div>'
    if chart.legend:
        title = f"<li>{html(chart.legend_title)}</li>" if chart.legend_title else ""
        swatches = "".join(_swatch(fill, text) for text, fill in chart.legend.items())
        yield f'<ul class="legend" aria-label="Legend">{title}{swatches}</ul>'
    notes = [_ZOOM_HINT, *chart.notes] if stretches else chart.notes
    yield from (f'<p class="small">{html(note)}</p>' for note in notes)
    spec = {"description": chart.description, **vega_spec(chart)}
    yield f'<script type="application/json">{_json(spec)}</script>'
    if chart.numbers:
        yield from _block(Folded("The numbers of this chart", [chart.numbers]), numbers)
    yield "</figure>"


def _zoom(stretches: Sequence[TimelineStretch]) -> str:
    parts = "".join(
        f'<button type="button" data-from="{each.start!r}" data-to="{each.end!r}">'
        f"{html(each.title.partition(':')[0])}</button>"
        for each in stretches
    )
    steps = "".join(
        f'<button type="button" data-step="{step}" aria-label="{label}">{sign}</button>'
        for step, label, sign in (
            ("in", "Zoom in", "+"),
            ("out", "Zoom out", "−"),
            ("back", "Earlier", "←"),
            ("on", "Later", "→"),
        )
    )
    return (
        f'<div class="tools" role="toolbar" aria-label="Zoom"><span class="group">{parts}</span>'
        f'<span class="group">{steps}</span></div>'
    )


def _swatch(fill: Fill, text: str) -> str:
    size = 'width="22" height="14"'
    box = f'<svg {size} aria-hidden="true"><rect {size} fill="{paint(fill)}"/></svg>'
    return f"<li>{box}{html(text)}</li>"


def _json(spec: object) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _footer(page: Page) -> Iterator[str]:
    files = [
        f'<li>{html(path)} <code title="SHA-256 {digest}">{digest[:_SHORT_HASH]}</code></li>'
        for path, digest in page.inputs
    ]
    listed = f" from these files:</p><ul>{''.join(files)}</ul>" if files else ".</p>"
    yield f"<footer><p>Made by podsim {html(page.version)}{listed}<p>{_DRAWN_BY}</p></footer>"
