"""What published rows cover: the envelope of the scenarios that they name."""

from __future__ import annotations

from typing import Any

from podsim.report.envelope import NAMES, names_of, numbers_of
from podsim.report.reference_data import rows, scenario_name
from podsim.specs import load_scenario
from podsim.validation.published import published_titles


def compared_titles() -> tuple[str, ...]:
    """Scenarios that a published figure is held against; a variant stands behind `@`."""
    submitted = (scenario_name(row) for row in rows("mlperf_submissions"))
    return tuple(dict.fromkeys((*submitted, *published_titles())))


def covered() -> dict[str, dict[str, Any]]:
    """By activity, its chips and software stacks, and by kind of model the least and the greatest of each number."""
    found: dict[str, dict[str, Any]] = {}
    for title in compared_titles():
        name, _, variant = title.partition("@")
        spec = load_scenario(name, variant or None).spec
        part = found.setdefault(spec.activity, {each: set() for each in NAMES} | {"models": {}})
        for each, value in names_of(spec).items():
            part.setdefault(each, set()).add(value)
        ranges = part["models"].setdefault(spec.model.kind, {})
        for each, number in numbers_of(spec).items():
            low, high = ranges.get(each, (number, number))
            ranges[each] = [min(low, number), max(high, number)]
    return {activity: _sorted(part) for activity, part in sorted(found.items())}


def _sorted(part: dict[str, Any]) -> dict[str, Any]:
    models = {kind: part["models"][kind] for kind in sorted(part["models"])}
    return {each: sorted(names) for each, names in part.items() if each != "models"} | {"models": models}
