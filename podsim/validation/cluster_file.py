"""The software stack of a user's cluster as a file: the stack it is derived from, and the constants that moved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError
from podsim.scenario import LoadedScenario
from podsim.scenario.assumptions import Assumption, numbers
from podsim.scenario.library import data_root
from podsim.scenario.resolve import BASE, laid_over, read_named
from podsim.units import UNITS, parse_quantity
from podsim.validation.cluster import Cluster
from podsim.validation.fit import Fit

_DIGITS = 4
_WIDE = 2
"""Standard errors to either end of a range."""
_LEAST = 0.1
"""Share of a value that its range goes down to at most, since no constant is below zero."""


def stack_of(found: Cluster, measured: Path, target: Path) -> str:
    """The file of a stack that scenarios can name, `software: FILE.yaml`.

    Args:
        found: What was fitted.
        measured: Where the measurements are.
        target: Where the file is to be.

    Raises:
        PodsimError: The scenarios do not name a stack, but describe it.
    """
    moved = [pair for pair in zip(found.inputs, found.fits, strict=True) if has_moved(pair[1])]
    name = f"{found.loaded.spec.software.name}, fitted to {measured.name}"
    head = [
        f"# Written by podsim calibrate --with {measured.name}: {len(found.rows)} measurements",
        "kind: software",
        f"base: {json.dumps(base_of(found.loaded, target.parent))}",
        f"name: {json.dumps(name, ensure_ascii=False)}",
    ]
    dimensions = {key: dimension for key, _, dimension in numbers(found.loaded.spec)}
    sources = "; ".join(dict.fromkeys(row.measured.source for row in found.rows))
    body = [line for each, fit in moved for line in _constant(each, fit, dimensions[each.key], sources)]
    return "\n".join([*head, *(body or ["# no constant moved"]), ""])


def has_moved(fit: Fit) -> bool:
    """True for a constant that reads otherwise than it did, to four digits."""
    return f"{fit.fitted:.{_DIGITS}g}" != f"{fit.committed:.{_DIGITS}g}"


def _constant(each: Assumption, fit: Fit, dimension: str, sources: str) -> Iterator[str]:
    error = fit.standard_error or 0.0
    low, high = max(fit.fitted - _WIDE * error, _LEAST * fit.fitted), fit.fitted + _WIDE * error
    yield f"{each.key.partition('.')[2]}:"
    yield f"  value: {in_unit_of(each, fit.fitted, dimension)}"
    yield f"  source: {json.dumps(sources, ensure_ascii=False)}"
    yield "  basis: calibrated"
    yield f"  range: [{in_unit_of(each, low, dimension)}, {in_unit_of(each, high, dimension)}]"
    note = f"standard error {in_unit_of(each, error, dimension)}; {each.value} before, of {each.source}"
    yield f"  note: {json.dumps(note, ensure_ascii=False)}"


def in_unit_of(each: Assumption, value: float, dimension: str) -> str:
    """A value in the unit in which a constant was written.

    Args:
        each: The constant.
        value: In the SI base unit.
        dimension: Its dimension.
    """
    _, _, unit = each.value.partition(" ")
    if not unit or unit not in UNITS[dimension]:
        return f"{value:.{_DIGITS}g}"
    return f"{value / parse_quantity(f'1 {unit}', dimension):.{_DIGITS}g} {unit}"


def base_of(loaded: LoadedScenario, folder: Path) -> str:
    """The name of the stack that a scenario names, as a file in a folder would write it.

    Args:
        loaded: The scenario.
        folder: Where the file is to be.

    Raises:
        PodsimError: It describes a stack, or changes one.
    """
    stack: Any = laid_over(loaded.written, loaded.variant, loaded.overrides).data.get("software")
    if isinstance(stack, Mapping) and set(stack) == {BASE}:
        stack = stack[BASE]
    if not isinstance(stack, str):
        what = "the scenario has keys of a software stack of its own, which no stack can be derived from"
        do = "write them to a file, name it at `software`, and measure that"
        raise PodsimError(what, where=loaded.where("software"), do=do)
    _, path = read_named(stack, "software", (loaded.folder,))
    if path.resolve().is_relative_to(data_root().resolve()):
        return path.stem
    return os.path.relpath(path.resolve(), folder.resolve())
