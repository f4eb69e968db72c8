"""Builds the documentation site in `build/site` from the pages that `mkdocs.yml` lists; no request leaves its pages.

Zensical turns Markdown into pages. What it cannot do is done before it and after it: files that pages link to are
collected with the paths that they have in the repository, notebooks become pages, words of the glossary become links;
afterwards links, headings that links lead to, and what pages load are looked up in what was built.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
from ruamel.yaml import YAML

from podsim._version import __version__

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "mkdocs.yml"
GLOSSARY = "GLOSSARY.md"
LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
_SCHEME = re.compile(r"[a-z]+:")
_FENCE = re.compile(r"^ *```")
_TERM_ROW = re.compile(r"^\| \*\*([^*]+)\*\* \| (.+) \|$", re.MULTILINE)
_NOT_PROSE = re.compile(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)|<[^>]*>|\*\*[^*]*\*\*")
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


def navigation(node: Any = None) -> list[str]:
    """Return the paths of the pages in `mkdocs.yml`, in their order."""
    if node is None:
        node = YAML(typ="safe").load(CONFIG)["nav"]
    if isinstance(node, str):
        return [node]
    inner = node.values() if isinstance(node, Mapping) else node
    return [path for each in inner for path in navigation(each)]


def source_of(page: str) -> Path:
    """Return the file of the repository that a page of the navigation is made from."""
    path = ROOT / page
    notebook = path.with_suffix(".ipynb")
    return notebook if notebook.is_file() else path


def links_of(text: str) -> Iterator[str]:
    """Yield the relative links of a page, without headings."""
    yield from (link for line in _outside_of_code(text) for link in LINK.findall(line) if not _SCHEME.match(link))


def _outside_of_code(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            yield line


# Words of the glossary


def terms(glossary: str) -> dict[str, str]:
    """Return the meaning of each term of the glossary; terms of one row share it."""
    rows = _TERM_ROW.findall(glossary)
    return {word: meaning for words, meaning in rows for word in words.split(", ")}


def with_targets(glossary: str) -> str:
    """Return the glossary with a link target in each row."""
    return _TERM_ROW.sub(
        lambda row: row[0].replace(
            "| **", "| " + "".join(f'<a id="{_anchor(w)}"></a>' for w in row[1].split(", ")) + "**", 1
        ),
        glossary,
    )


def _anchor(word: str) -> str:
    return "word-" + re.sub(r"\W+", "-", word.lower())


def linked(text: str, words: Mapping[str, str], glossary: str) -> str:
    """Return a page in which the first use of each glossary term is a link to the glossary.

    Headings, tables, code, emphasis and other links are left alone.
    """
    left, lines, inside = dict(words), [], False
    for line in text.splitlines():
        inside ^= bool(_FENCE.match(line))
        plain = inside or line.startswith(("#", "|", "<!--", "    ", "```")) or _FENCE.match(line)
        lines.append(line if plain else _linked_line(line, left, glossary))
    return "\n".join(lines) + "\n"


def _linked_line(line: str, left: dict[str, str], glossary: str) -> str:
    """Return a line with links, and remove linked terms from `left`."""
    if not left:
        return line
    longest_first = sorted(left, key=len, reverse=True)
    word = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(s?)(?![\w-])")

    def link(match: re.Match[str]) -> str:
        if (meaning := left.pop(match[1], None)) is None:
            return match[0]
        title = escape(re.sub(r"[`*]|\]\([^)]*\)|\[", "", meaning).replace("\\|", "|"))
        return f'[{match[0]}]({glossary}#{_anchor(match[1])} "{title}")'

    parts, end = [], 0
    for kept in _NOT_PROSE.finditer(line):
        parts += [word.sub(link, line[end : kept.start()]), kept[0]]
        end = kept.end()
    return "".join([*parts, word.sub(link, line[end:])])


# Notebooks


def page_of_notebook(path: Path, folder: Path, name: str) -> str:
    """Return a notebook as a page, with its stored outputs."""
    parts: list[str] = []
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells):  # type: ignore[no-untyped-call]
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for place, output in enumerate(cell.get("outputs", ())):
            data = output.get("data", {})
            if "image/png" in data:
                picture = folder / f"{name}_{number}_{place}.png"
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![Output of the lines above]({picture.name})")
            elif "text/markdown" in data:
                parts.append(data["text/markdown"])
            else:
                parts.append(f"```text\n{(output.get('text') or data.get('text/plain', '')).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


# Before Zensical


def stage(folder: Path) -> None:
    """Collect pages, and what they link to, with the paths that they have in the repository."""
    pages = navigation()
    glossary = (ROOT / GLOSSARY).read_text(encoding="utf-8")
    for page in pages:
        source, target = source_of(page), folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".ipynb":
            text = page_of_notebook(source, target.parent, source.stem)
        else:
            text = source.read_text(encoding="utf-8")
        _copy_linked(text, source, folder, pages)
        if page == GLOSSARY:
            text = with_targets(text)
        else:
            text = linked(text, terms(glossary), "../" * page.count("/") + GLOSSARY)
        target.write_text(re.sub(r"\.ipynb(?=[)#])", ".md", text), encoding="utf-8")


def _copy_linked(text: str, source: Path, folder: Path, pages: list[str]) -> None:
    """Copy pictures, tables and scenarios that a page links to; pages and notebooks are collected elsewhere."""
    for link in links_of(text):
        path = (source.parent / link).resolve()
        if not path.is_file() or not path.is_relative_to(ROOT):
            continue  # Zensical says so, or the picture of a notebook, which has just been written
        name = path.relative_to(ROOT)
        if name.as_posix() not in pages and name.suffix != ".ipynb":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)


def build(folder: Path) -> Path:
    """Build the site, and look up its links."""
    for name in ("site", "site-source"):
        shutil.rmtree(folder / name, ignore_errors=True)
    stage(folder / "site-source")
    config = YAML(typ="safe").load(CONFIG)
    config |= {"site_name": f"{config['site_name']} {__version__}", "docs_dir": "site-source", "site_dir": "site"}
    shutil.copytree(ROOT / "docs" / "site", folder / "site-source" / "site")
    with (folder / "mkdocs.yml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(config, file)
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--clean",
        "--config-file",
        str(folder / "mkdocs.yml"),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{_without_colour(done.stdout)}\nthe site could not be built; Zensical's reasons are above")
    if wrong := faults(folder / "site"):
        sys.exit("\n".join([*wrong, "the site was built with links that lead nowhere, named above"]))
    return folder / "site"


def _without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text).partition("Traceback (most recent call last)")[0].strip()


# After Zensical


class _Built(HTMLParser):
    """Parser that collects link targets, links and loaded files of a built page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record one element."""
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if (loaded := values.get(_LOADED.get(tag, ""))) and values.get("rel") not in ("next", "prev", "canonical"):
            self.loads.append(loaded)


def faults(site: Path) -> list[str]:
    """Return broken links of built pages, and files that pages would load from elsewhere."""
    pages: dict[Path, _Built] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = _Built()
        pages[path].feed(path.read_text(encoding="utf-8"))
    found = []
    for path, built in pages.items():
        if path.name == "404.html":
            continue  # its links are seen from any folder
        place = path.relative_to(site).as_posix()
        found += [f"{place}: loads {load} from elsewhere" for load in built.loads if re.match(r"(\w+:)?//", load)]
        for link in (*built.links, *built.loads):
            if _SCHEME.match(link) or link.startswith("//"):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].ids):
                found.append(f"{place}: {link} leads nowhere")
    return found


if __name__ == "__main__":
    built = build(ROOT / "build")
    print(f"the site: open {built.relative_to(ROOT) / 'index.html'} in a browser")
