"""A division that was chosen: the table of what was weighed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Group
from rich.text import Text

from podsim.format import format_count, format_duration_s, format_percent
from podsim.placement.search.choice import Candidate, Choice
from podsim.show.choice_text import choice_yaml, division_words, ipus_of
from podsim.show.tables import plain_table, titled

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
    misfits = [f"{division_words(each)}: {each.verdict}" for each in choice.candidates if not each.fits]
    notes = [*_slower_note(choice), *_margin_note(chosen), *misfits]
    keep = Text("To keep this division, write in the scenario:", style="dim")
    return Group(titled(f"Division chosen automatically: {counts}", table, *notes), keep, Text(choice_yaml(chosen)))


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
    """A note if memory is nearly full: what leaves room."""
    if chosen.used_bytes > _NEARLY_FULL * chosen.capacity_bytes:
        keys = "parallelism.micro_batch_size, or a smaller memory.available_memory_proportion,"
        if "replication_factor" not in chosen.parallelism:
            keys = "parallelism.tensor_parallel, or memory.weights: streamed,"
        yield f"The fullest IPU is {_fullness(chosen)} full. A larger memory.reserve, a pinned {keys} leaves room."


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
