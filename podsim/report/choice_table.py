"""A division that was chosen: the table of what was weighed, and the keys to keep it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Group
from rich.text import Text

from podsim.parallelism.choice import Candidate, Choice
from podsim.report.format import format_count, format_duration_s, format_percent
from podsim.report.tables import plain_table, titled
from podsim.specs.wording import counted

_WIDTH: Final = 78
_DIGITS: Final = 4
_NEARLY_FULL: Final = 0.97
_PLACES: Final = {"in_processor_memory": "chip", "streaming_memory": "stream"}


def choice_table(choice: Choice) -> Group:
    """The chosen division, the runners-up, and those that do not fit; then YAML to paste."""
    counts = f"{format_count(choice.considered_count)} considered, {choice.simulated_count} simulated"
    chosen = choice.chosen
    make = _training_rows if "replication_factor" in chosen.parallelism else _decoder_rows
    table, rows = make(choice)
    for candidate, cells in zip(choice.candidates, rows, strict=True):
        cells = (*cells, _fullness(candidate), _verdict(candidate, chosen))
        table.add_row(*(Text(cell) for cell in cells), style="bold" if candidate is chosen else "")
    misfits = [f"{name}: {each.verdict}" for name, each in _misfits(choice)]
    misfits = [*_slower_note(choice), *_margin_note(chosen), *misfits]
    keep = Text("To keep this division, write in the scenario:", style="dim")
    return Group(titled(f"Division chosen automatically: {counts}", table, *misfits), keep, Text(choice_yaml(chosen)))


def _verdict(candidate: Candidate, chosen: Candidate) -> str:
    if candidate is chosen:
        return "chosen"
    if not candidate.fits:
        return "too big"
    share = candidate.verdict.removesuffix(" slower")
    return candidate.verdict if share == candidate.verdict else f"+{share}"


def _fullness(candidate: Candidate) -> str:
    return format_percent(candidate.used_bytes / candidate.capacity_bytes)


def _slower_note(choice: Choice) -> Iterator[str]:
    if any(each.verdict.endswith(" slower") for each in choice.candidates):
        yield "last column: time beyond that of the chosen division"


def _margin_note(chosen: Candidate) -> Iterator[str]:
    """Memory that is as good as full, and what leaves room."""
    if chosen.used_bytes > _NEARLY_FULL * chosen.capacity_bytes:
        keys = "parallelism.micro_batch_size, or a smaller memory.available_memory_proportion,"
        if "replication_factor" not in chosen.parallelism:
            keys = "parallelism.tensor_parallel, or memory.weights: streamed,"
        yield f"The fullest IPU is {_fullness(chosen)} full; no margin is modelled. A pinned {keys} leaves room."


def choice_yaml(candidate: Candidate) -> str:
    """The keys of a division as they are written in a scenario.

    >>> keys = dict(used_bytes=0, streaming_bytes=0, capacity_bytes=1, fits=True, verdict="")
    >>> print(choice_yaml(Candidate(parallelism={"tensor_parallel": 4}, memory={"weights": "resident"}, **keys)))
    parallelism:
      tensor_parallel: 4
    memory:
      weights: resident
    """
    return "\n".join((*_lines("parallelism", candidate.parallelism), *_lines("memory", candidate.memory)))


def _lines(title: str, keys: Mapping[str, Any]) -> Iterator[str]:
    yield f"{title}:"
    for key, value in keys.items():
        if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            yield f"  {key}:"
            yield from (_folded(f"    - {_flow(each)}") for each in value)
        else:
            yield _folded(f"  {key}: {_flow(value)}")


def _folded(line: str) -> str:
    """No wider than a page; a list goes on in a line that is further in."""
    return textwrap.fill(line, _WIDTH, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)


def _flow(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value)


def _misfits(choice: Choice) -> Iterator[tuple[str, Candidate]]:
    for each in choice.candidates:
        keys = each.parallelism
        if not each.fits and "replication_factor" in keys:
            recomputation = "with" if keys["recomputation"] != "none" else "without"
            words = f"{counted(_ipus(keys), 'IPU')} per replica, micro-batch {keys['micro_batch_size']}"
            yield f"{words}, {recomputation} recomputation", each
        elif not each.fits:
            yield f"{keys['tensor_parallel']} x {keys['pipeline_stages']} IPUs, {each.memory['weights']}", each


def _ipus(keys: Mapping[str, Any]) -> int:
    """IPUs of a replica."""
    if "stages" in keys:
        return len({stage["ipu"] for stage in keys["stages"]})
    return len(keys.get("layers_per_ipu", ())) or len(keys.get("pipeline_splits", ())) + 1


def _training_rows(choice: Choice) -> tuple[Any, list[tuple[str, ...]]]:
    table = plain_table(
        ">IPUs",
        ">repli-\ncas",
        ">micro-\nbatch",
        ">accumu-\nlation",
        ">redo",
        "state",
        ">samples\nper s",
        ">mem-\nory",
        ">",
    )
    return table, [
        (
            str(_ipus(each.parallelism)),
            *(str(each.parallelism[f"{name}"]) for name in ("replication_factor", "micro_batch_size")),
            str(each.parallelism["accumulation_factor"]),
            "no" if each.parallelism["recomputation"] == "none" else "yes",
            _state(each.memory.get("optimizer_state")),
            "" if each.throughput_samples_per_s is None else format_count(each.throughput_samples_per_s),
        )
        for each in choice.candidates
    ]


def _state(state: Mapping[str, Any] | None) -> str:
    """Where optimizer state is, in words."""
    if state is None:
        return _PLACES["in_processor_memory"]
    return _PLACES[state["storage"]] + (", shards" if state["replicated_tensor_sharding"] else "")


def _decoder_rows(choice: Choice) -> tuple[Any, list[tuple[str, ...]]]:
    table = plain_table(">tensor", ">stages", "weights", ">per token", ">memory", ">")
    return table, [
        (
            str(each.parallelism["tensor_parallel"]),
            str(each.parallelism["pipeline_stages"]),
            str(each.memory["weights"]),
            "" if each.decode_step_s is None else format_duration_s(each.decode_step_s, _DIGITS),
        )
        for each in choice.candidates
    ]
