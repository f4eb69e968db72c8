"""Whether a scenario is one of those that come with podsim, unchanged."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from podsim.specs.library import SCENARIOS, data_root
from podsim.specs.load import LoadedScenario

_FOLDER: Final = f"{SCENARIOS}/"


def is_shipped(loaded: LoadedScenario) -> bool:
    """Whether the scenario and all files it was read from are the shipped ones, and nothing was changed.

    Published figures are compared with nothing else.
    """
    if loaded.variant or loaded.overrides:
        return False
    own = [path for path, _ in loaded.inputs if path.startswith(_FOLDER) and Path(path).stem == loaded.name]
    return bool(own) and all(_is_shipped_file(path, digest) for path, digest in loaded.inputs)


def _is_shipped_file(path: str, digest: str) -> bool:
    file = data_root() / path
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == digest
