"""Shipped files parsed once, and each product or convolution planned once, for tests that simulate hundreds of times.

Parsing and planning take most of the time of a simulation, and neither depends on anything but what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

import pytest

from podsim.cost.conv import plan_conv
from podsim.cost.matmul import plan_matmul
from podsim.specs.ipu import Ipu
from podsim.specs.library import data_root
from podsim.specs.yaml_source import Document, read_yaml

_Plan = TypeVar("_Plan")

_read_once = lru_cache(maxsize=None)(read_yaml)


def _read(path: Path, display: str | None = None) -> Document:
    shipped = path.resolve().is_relative_to(data_root())
    return _read_once(path.resolve(), display) if shipped else read_yaml(path, display)


def _planned_once(plan: Callable[..., _Plan]) -> Callable[..., _Plan]:
    """The same plan for the same arguments, the chip known by its text, as it holds mappings."""
    known: dict[tuple[object, ...], _Plan] = {}

    @wraps(plan)
    def planned(ipu: Ipu, *arguments: Any) -> _Plan:
        key = (repr(ipu), *arguments)
        if key not in known:
            known[key] = plan(ipu, *arguments)
        return known[key]

    return planned


_REMEMBERED = {
    "podsim.specs.resolve.read_yaml": _read,
    "podsim.cost.model.plan_conv": _planned_once(plan_conv),
    "podsim.cost.model.plan_matmul": _planned_once(plan_matmul),
}


@contextmanager
def shipped_files_parsed_once() -> Iterator[None]:
    """Remember the documents of shipped files and the plans of operations, for the whole process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, function in _REMEMBERED.items():
            patch.setattr(name, function)
        yield
