"""A division that was chosen, in words and as the keys to keep it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from podsim.placement.search.choice import Candidate
from podsim.scenario.wording import counted, flow

_WIDTH: Final = 78


def choice_yaml(candidate: Candidate) -> str:
    """The keys of a division as they are written in a scenario.

    >>> keys = dict(used_bytes=0, streaming_bytes=0, capacity_bytes=1, fits=True, verdict="")
    >>> print(choice_yaml(Candidate(parallelism={"tensor_parallel": 4}, memory={"weights": "resident"}, **keys)))
    parallelism:
      tensor_parallel: 4
    memory:
      weights: resident
    """
    return "\n".join((*section_lines("parallelism", candidate.parallelism), *section_lines("memory", candidate.memory)))


def section_lines(title: str, keys: Mapping[str, Any]) -> Iterator[str]:
    """A section of a scenario as it is written.

    Args:
        title: Its name.
        keys: What it holds.
    """
    yield f"{title}:"
    for key, value in keys.items():
        if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            yield f"  {key}:"
            yield from (_folded(f"    - {flow(each)}") for each in value)
        else:
            yield _folded(f"  {key}: {flow(value)}")


def _folded(line: str) -> str:
    """No wider than a page; a list goes on in a line that is further in."""
    return textwrap.fill(line, _WIDTH, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)


def division_words(candidate: Candidate) -> str:
    """A division in a few words."""
    keys = candidate.parallelism
    if "replication_factor" not in keys:
        return f"{keys['tensor_parallel']} x {keys['pipeline_stages']} IPUs, {candidate.memory['weights']}"
    recomputation = "with" if keys["recomputation"] != "none" else "without"
    words = f"{counted(ipus_of(keys), 'IPU')} per replica, micro-batch {keys['micro_batch_size']}"
    return f"{words}, {recomputation} recomputation"


def ipus_of(keys: Mapping[str, Any]) -> int:
    """IPUs of a replica."""
    if "stages" in keys:
        return len({stage["ipu"] for stage in keys["stages"]})
    return len(keys.get("layers_per_ipu", ())) or len(keys.get("pipeline_splits", ())) + 1
