"""An option as a scenario file: what it is based on, and all that is laid over that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final

from podsim.placement.search.choice import Candidate
from podsim.result.division import section_lines
from podsim.scenario import LoadedScenario
from podsim.scenario.auto import AUTO
from podsim.scenario.document import Document
from podsim.scenario.pins import PARALLELISM
from podsim.scenario.resolve import assigned, lay_over
from podsim.scenario.wording import flow

_MEMORY: Final = "memory"
_SUFFIXES: Final = (".yaml", ".yml", ".csv")
_PLACEMENTS: Final = ("stages", "layers_per_ipu", "pipeline_stages", "chunks_per_ipu", "head_on", "schedule")
"""Keys that say where layers go, and when they run there; none of them stays behind a division that is chosen."""


def written(scenario: str, loaded: LoadedScenario, chosen: Candidate | None, about: str) -> str:
    """A file that gives the same as a scenario that was run, based on its path or name, with the division chosen."""
    path = Path(scenario)
    name = path.stem if path.is_file() else scenario
    variant = [loaded.written.variants[loaded.variant]] if loaded.variant else []
    layers = [Document(each) for each in variant] + [assigned(text) for text in loaded.overrides]
    data = _found(reduce(lay_over, layers, Document({})).data, (Path(), loaded.folder))
    if chosen is not None:
        # A division that a file gives is replaced key by key, so that another way to place layers has to go.
        given = loaded.written.document.at
        gone = {
            key: None for key in _PLACEMENTS if key not in chosen.parallelism and given((PARALLELISM, key)) is not None
        }
        pinned = {key: value for key, value in _section(data, PARALLELISM).items() if key not in (AUTO, *_PLACEMENTS)}
        data[PARALLELISM] = gone | pinned | dict(chosen.parallelism)
        data[_MEMORY] = _section(data, _MEMORY) | dict(chosen.memory)
    base = str(path.resolve()) if path.is_file() else scenario
    words = f"{name}{f' ({loaded.variant})' if loaded.variant else ''} on {about}"
    lines = [f"base: {flow(base)}", f"description: {flow(words)}"]
    for key, value in data.items():
        if key == "description":
            continue
        lines += section_lines(key, value) if isinstance(value, dict) and value else [f"{key}: {flow(value)}"]
    return "\n".join(lines) + "\n"


def _section(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    section = data.get(key)
    return dict(section) if isinstance(section, Mapping) else {}


def _found(value: Any, folders: tuple[Path, ...]) -> Any:
    """Values with the names of files that lie in a folder as paths from the root, to be read from anywhere."""
    if isinstance(value, dict):
        return {key: _found(each, folders) for key, each in value.items()}
    if isinstance(value, str) and value.endswith(_SUFFIXES):
        return next((str(path.resolve()) for each in folders if (path := each / value).is_file()), value)
    return value
