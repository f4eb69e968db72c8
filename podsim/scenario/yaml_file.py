"""Files of YAML 1.2 as documents.

A file that this or another process has parsed before is not parsed again while its content is unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsim import disk, memo
from podsim.scenario.document import Document, refusal
from podsim.user_file import content_of

MAX_FILE_BYTES = 1 << 18


def read_yaml(path: Path, display: str | None = None) -> Document:
    """Return the document of a YAML file, or raise a `SpecError`."""
    name = display or str(path)
    content = content_of(path, MAX_FILE_BYTES, "name a YAML file", name=name, smaller="name a smaller YAML file")
    digest = hashlib.sha256(content).hexdigest()
    return memo.DOCUMENTS.get((name, digest), lambda: _read(content, name, digest))


def _read(content: bytes, name: str, digest: str) -> Document:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refusal(name, "the file is not text in UTF-8", "name a YAML file") from error
    key = disk.digest(
        [b"document", memo.SOURCES.get(__name__, _parser), digest.encode(), name.encode(errors="surrogatepass")]
    )
    document = disk.cached(key, lambda: parse_yaml(text, name), _to_json, _from_json)
    return Document(document.data, document.places, ((name, digest),))


def _parser() -> bytes:
    """Return a hash of the code that parses and of the library's version."""
    ours = (Path(__file__).with_name(f"{each}.py") for each in ("document", "yaml_file", "yaml_text"))
    return disk.source([disk.library("ruamel.yaml"), *ours])


def _to_json(document: Document) -> dict[str, Any]:
    return {"data": document.data, "places": [[list(path), place] for path, place in document.places.items()]}


def _from_json(written: Mapping[str, Any]) -> Document:
    places = {tuple(path): place for path, place in written["places"]}
    if not isinstance(written["data"], dict) or not all(isinstance(place, str) for place in places.values()):
        raise TypeError(written)
    return Document(written["data"], places)


def parse_yaml(text: str, name: str) -> Document:
    """Return the document of a YAML text; `name` stands for the file in messages."""
    from podsim.scenario.yaml_text import parsed  # slow import

    return parsed(text, name)


_COUNT = re.compile("[1-9][0-9]{0,17}")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)? [A-Za-z]+(/[A-Za-z]+)?")
"""Quantities such as `17 GB/s`, which are plain text in YAML and need no parser."""


def parse_value(text: str) -> Any:
    """Return a single value as it would be read in a file; text that is not YAML stays text."""
    if _COUNT.fullmatch(text):
        return int(text)
    if _QUANTITY.fullmatch(text):
        return text
    from podsim.scenario.yaml_text import parsed_value

    return memo.VALUES.get(text, lambda: parsed_value(text))
