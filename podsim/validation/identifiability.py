"""Number of choices made to match published figures, compared with the number of independent figures.

A constant counts once even if files repeat it. A configuration counts once, even if rows with different names simulate
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from podsim.scenario.assumptions import Assumption, assumptions
from podsim.scenario.base import Spec, keys_of
from podsim.scenario.quantity import LEVELS, quantities
from podsim.scenario.software import Software
from podsim.scenario.vertices import Origin, Vertices
from podsim.validation.comparison import RowComparison, configuration, loaded
from podsim.validation.microbenchmarks import mk1

MOST_OF_NOISE = 7
"""Most constants of noise that are fitted."""


@dataclass(frozen=True, slots=True)
class Identifiability:
    """Choices that could have been made otherwise."""

    fitted: Mapping[str, tuple[str, ...]]  # constants that are fitted to rows
    assumed: tuple[str, ...]  # numbers of machines and software stacks that are assumed
    assumed_in_scenarios: tuple[str, ...]  # numbers that scenarios assume
    switches: tuple[str, ...]  # non-numerical choices that differ between software stacks
    configurations: Mapping[str, int]  # distinct configurations of whole runs
    shared: int  # configurations of hold-out rows that calibration rows have too
    of_noise: tuple[str, ...]  # constants fitted to the spread of logged runs


def identifiability(comparisons: Sequence[RowComparison]) -> Identifiability:
    """Count what was chosen for rows."""
    specs = {title: loaded(title) for row in comparisons for title in row.scenarios}
    machines = [mk1()] if any(row.group.startswith("Mk1") for row in comparisons) else []
    uncertain = {
        _identity(assumption): assumption for spec in (*specs.values(), *machines) for assumption in assumptions(spec)
    }
    assumed = [each for each in uncertain.values() if each.basis == "assumed"]
    of_hardware = [each for each in assumed if each.key.startswith(("system.", "software."))]
    known = {title: configuration(spec) for title, spec in specs.items()}
    by_role = {role: _configurations(comparisons, role, known) for role in dict.fromkeys(r.role for r in comparisons)}
    common = set.intersection(*by_role.values()) if len(by_role) > 1 else set()
    tables = {spec.system.machine.ipu.vertices.name: spec.system.machine.ipu.vertices for spec in specs.values()}
    tables |= {each.machine.ipu.vertices.name: each.machine.ipu.vertices for each in machines}
    of_tables = {named: origin for table in tables.values() for named, origin in _table_numbers(table)}
    of_tables = {name: origin for name, origin in of_tables.items() if origin.basis == "calibrated"}
    fitted = {
        level: (
            *_fitted_at(level, uncertain.values()),
            *sorted(name for name, origin in of_tables.items() if origin.level == level),
        )
        for level in LEVELS
    }
    return Identifiability(
        {level: found for level, found in fitted.items() if found},
        tuple(_named(of_hardware)),
        tuple(_named(each for each in assumed if each not in of_hardware)),
        tuple(_switches([spec.software for spec in specs.values()])),
        {role: len(found) for role, found in by_role.items()},
        len(common),
        tuple(sorted({each for spec in specs.values() for each in _noise(spec.software)})),
    )


def _table_numbers(table: Vertices) -> Iterator[tuple[str, Origin]]:
    """Yield the numbers of a table of vertices that have an origin of their own."""
    for key, origin in table.origins.items():
        yield f"system.machine.ipu.vertices.{key} = {_written(table.number_at(key))}", origin


def _written(number: Any) -> str:
    return f"{number.model_dump(mode='json')}" if isinstance(number, Spec) else f"{number}"


def _identity(each: Assumption) -> tuple[str, str, str, str, str | None]:
    """Return the identity of a number: machines or stacks that share its origin share the number."""
    return each.key, each.value, each.basis, each.source, each.note


def _named(found: Iterable[Assumption]) -> Iterator[str]:
    yield from sorted(f"{each.key} = {each.value}" for each in found)


def _fitted_at(level: str, uncertain: Iterable[Assumption]) -> tuple[str, ...]:
    return tuple(_named(each for each in uncertain if each.basis == "calibrated" and each.level == level))


def _noise(software: Software) -> Iterator[str]:
    """Yield the fitted constants of a stack's noise."""
    for key, number, _ in quantities(software.noise) if software.noise else ():
        if number.provenance.basis == "calibrated":
            yield f"software.noise.{key} = {number.provenance.text}"


def _switches(stacks: Sequence[Software]) -> Iterator[str]:
    """Yield the flags and choices that differ between stacks."""
    for key, name in keys_of(Software).items():
        if key != "kind" and _is_choice(Software.model_fields[name]):
            values = {getattr(stack, name) for stack in stacks}
            if len(values) > 1:
                yield f"software.{key}"


def _is_choice(declared: FieldInfo) -> bool:
    kinds = (declared.annotation, *get_args(declared.annotation))
    return any(kind is bool or get_origin(kind) is Literal for kind in kinds)


def _configurations(comparisons: Sequence[RowComparison], role: str, known: Mapping[str, str]) -> set[str]:
    return {known[title] for row in comparisons if row.role == role for title in row.scenarios}
