"""Shipped files parsed once, for tests that load hundreds of scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest

from podsim.specs.library import data_root
from podsim.specs.yaml_source import Document, read_yaml

_read_once = lru_cache(read_yaml)


def _read(path: Path, display: str | None = None) -> Document:
    shipped = path.resolve().is_relative_to(data_root())
    return _read_once(path.resolve(), display) if shipped else read_yaml(path, display)


@contextmanager
def shipped_files_parsed_once() -> Iterator[None]:
    """Keep the documents of shipped pods, machines, chips and software stacks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("podsim.specs.resolve.read_yaml", _read)
        yield
