"""Result files of small runs, for tests of what is read from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Line = tuple[str, float, Any]
"""Key, time in seconds, and value or metadata."""

HEAD: tuple[Line, ...] = (
    ("submission_benchmark", 0, "bert"),
    ("submission_division", 0, "closed"),
    ("submission_platform", 0, "Bow-Pod64"),
    ("global_batch_size", 0, 4608),
    ("init_start", 0, None),
    ("init_stop", 100, None),
)
BERT: tuple[Line, ...] = (
    *HEAD,
    ("run_start", 100, None),
    *(("block_start", 110, None), ("block_stop", 140, None)),
    *(("eval_start", 140, None), ("eval_accuracy", 141, 0.7), ("eval_stop", 141, None)),
    *(("block_start", 142, None), ("block_stop", 169, None)),
    *(("eval_start", 169, None), ("eval_accuracy", 170, 0.72), ("eval_stop", 170, None)),
    ("run_stop", 170.5, {"status": "success"}),
)
"""Set-up of 10 s, blocks of 30 and 27 s, evaluations of 1 s, 1 s between them and 0.5 s behind them: 70.5 s."""

RESNET: tuple[Line, ...] = (
    ("submission_benchmark", 0, "resnet"),
    ("submission_platform", 0, "Bow-Pod16"),
    ("global_batch_size", 0, 3520),
    ("run_start", 0, None),
    ("block_start", 1, None),
    *(("epoch_start", 1, None), ("epoch_stop", 31, None)),
    *(("epoch_start", 31, None), ("epoch_stop", 61, None)),
    ("block_stop", 61, None),
    *(("eval_start", 67, None), ("eval_stop", 78, None), ("eval_accuracy", 78, 0.759)),
    ("run_stop", 78, {"status": "success"}),
)
"""Set-up of 1 s, two epochs of 30 s, 6 s of loading and an evaluation of 11 s."""


def text(lines: Iterable[Line]) -> str:
    """A result file."""
    return "".join(f"{line(*each)}\n" for each in lines)


def line(key: str, time_s: float, value: Any) -> str:
    """A line of it; text of another program stands in front, as where several write to one file."""
    metadata = value if isinstance(value, dict) else {}
    data = {"time_ms": time_s * 1000, "key": key, "value": None if metadata else value, "metadata": metadata}
    return f"0: :::MLLOG {json.dumps(data)}"


def without(lines: Iterable[Line], *keys: str) -> list[Line]:
    """The lines about other keys."""
    return [each for each in lines if each[0] not in keys]


def changed(lines: Iterable[Line], **values: Any) -> list[Line]:
    """The lines with other values."""
    return [(key, time_s, values.get(key, value)) for key, time_s, value in lines]
