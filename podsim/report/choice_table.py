"""A division that was chosen: the table of what was weighed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group
from rich.text import Text

from podsim.parallelism.choice import Candidate, Choice
from podsim.report.choice_text import choice_yaml, division_words, ipus_of
from podsim.report.format import format_count, format_duration_s, format_percent
from podsim.report.tables import plain_table, titled

_DIGITS: Final = 4
_PLACES: Final = {"in_processor_memory": "chip", "streaming_memory": "streaming"}


def choice_table(choice: Choice) -> Group:
    """The chosen division, the runners-up, and those that do not fit; then YAML to paste."""
    counts = f"{format_count(choice.considered_count)} considered, {choice.simulated_count} simulated"
    chosen = choice.chosen
    make = _training_rows if "replication_factor" in chosen.parallelism else _decoder_rows
    table, rows = make(choice)
    for candidate, cells in zip(choice.candidates, rows, strict=True):
        cells = (*cells, format_percent(candidate.used_bytes / candidate.capacity_bytes), _verdict(candidate, chosen))
        table.add_row(*(Text(cell) for cell in cells), style="bold" if candidate is chosen else "")
    misfits = [f"{division_words(each)}: {each.verdict}" for each in choice.candidates if not each.fits]
    keep = Text("To keep this division, write in the scenario:", style="dim")
    return Group(titled(f"Division chosen automatically: {counts}", table, *misfits), keep, Text(choice_yaml(chosen)))


def _verdict(candidate: Candidate, chosen: Candidate) -> str:
    if candidate is chosen:
        return "chosen"
    return candidate.verdict if candidate.fits else "too large"


def _training_rows(choice: Choice) -> tuple[Any, list[tuple[str, ...]]]:
    table = plain_table(">IPUs", ">repl.", ">micro", ">accum.", ">redo", ">state", ">samples/s", ">memory", ">verdict")
    return table, [
        (
            str(ipus_of(each.parallelism)),
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
    table = plain_table(">tensor", ">stages", "weights", ">per token", ">memory", ">verdict")
    return table, [
        (
            str(each.parallelism["tensor_parallel"]),
            str(each.parallelism["pipeline_stages"]),
            str(each.memory["weights"]),
            "" if each.decode_step_s is None else format_duration_s(each.decode_step_s, _DIGITS),
        )
        for each in choice.candidates
    ]
