"""Layouts found by the search: tables of the candidates, and the keys to write into a scenario."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from podsim.format import format_count, format_duration_s, format_percent
from podsim.report.table import Block, Cell, Cells, Column, Passage, Table, columns
from podsim.scenario.wording import counted, flow
from podsim.search.choice import Candidate, Choice

_DIGITS: Final = 4
_REPLICAS: Final = "replication_factor"
_NEARLY_FULL: Final = 0.97
_PLACES: Final = {"in_processor_memory": "chip", "streaming_memory": "stream"}
_WIDTH: Final = 78


def division_blocks(choice: Choice) -> tuple[Block, ...]:
    """Return tables of the chosen layout, the runners-up and layouts that do not fit, then YAML to paste."""
    chosen, candidates = choice.chosen, choice.candidates
    heads, rows = (_training_rows if _REPLICAS in chosen.parallelism else _decoder_rows)(choice)
    filled = [candidate.used_bytes / candidate.capacity_bytes for candidate in candidates]
    rows = [
        (*row, Cell(format_percent(share), share), _verdict(candidate, chosen))
        for candidate, share, row in zip(candidates, filled, rows, strict=True)
    ]
    notes = [f"as asked: {', '.join(choice.asked)}"] if choice.asked else []
    if any(candidate.verdict.endswith(" slower") for candidate in candidates):
        notes.append("last column: time beyond that of the chosen division")
    place = next(place for place, candidate in enumerate(candidates) if candidate is chosen)
    if chosen.used_bytes > _NEARLY_FULL * chosen.capacity_bytes:
        keys = "parallelism.micro_batch_size, or a smaller memory.available_memory_proportion,"
        if _REPLICAS not in chosen.parallelism:
            keys = "parallelism.tensor_parallel, or memory.weights: streamed,"
        full = f"The fullest IPU is {format_percent(filled[place])} full."
        notes.append(f"{full} A larger memory.reserve, a pinned {keys} leaves room.")
    notes += [f"{division_text(each)}: {each.verdict}" for each in candidates if not each.fits]
    counts = f"{format_count(choice.considered_count)} considered, {choice.simulated_count} simulated"
    notes.append(counts)
    table = Table(heads, rows, headline(choice), notes, place)
    return table, Passage(choice_yaml(chosen), "To keep this division, write in the scenario:")


def headline(choice: Choice) -> str:
    """Return what was chosen, its gain over the division that it replaces, and what lies behind the reserve."""
    chosen, given, behind = choice.chosen, choice.replaced, choice.behind
    parts = [f"Division chosen automatically: {division_text(chosen)}"]
    if given is not None:
        parts.append(f"{_faster(chosen, given)} the division of the file")
    if behind is not None:
        free = format_percent(1 - behind.used_bytes / behind.capacity_bytes)
        parts.append(
            f"{division_text(behind)} would be {_faster(behind, chosen)} this, but leaves {free} of memory free, "
            f"less than the reserve of {format_percent(choice.reserve)}"
        )
    return "; ".join(parts)


def _faster(one: Candidate, other: Candidate) -> str:
    """Return how much faster one candidate is than another."""
    rates = one.throughput_samples_per_s, other.throughput_samples_per_s
    if rates[0] is None or rates[1] is None or rates[0] <= rates[1]:
        return "as fast as"
    return f"{format_percent(rates[0] / rates[1] - 1)} faster than"


def _verdict(candidate: Candidate, chosen: Candidate) -> str:
    if candidate is chosen or not candidate.fits:
        return "chosen" if candidate is chosen else "too big"
    share = candidate.verdict.removesuffix(" slower")
    return candidate.verdict if share == candidate.verdict else f"+{share}"


def _training_rows(choice: Choice) -> tuple[tuple[Column, ...], list[Cells]]:
    shared = any(_shards(candidate) > 1 for candidate in choice.candidates)
    rows: list[Cells] = []
    for candidate in choice.candidates:
        keys, state, rate = (
            candidate.parallelism,
            candidate.memory.get("optimizer_state"),
            candidate.throughput_samples_per_s,
        )
        where = "phases" if _is_phased(keys) else _PLACES["in_processor_memory" if state is None else state["storage"]]
        where += ", shards" if state is not None and state["replicated_tensor_sharding"] else ""
        counts = [str(keys[name]) for name in (_REPLICAS, "micro_batch_size", "accumulation_factor")]
        redo = "no" if keys["recomputation"] == "none" else "yes"
        done = "" if rate is None else Cell(format_count(rate), rate)
        rows.append((str(ipus_of(keys)), *[str(_shards(candidate))] * shared, *counts, redo, where, done))
    counted = (">repli-\ncas", ">micro-\nbatch", ">accumu-\nlation", ">redo", "state", ">samples\nper s", ">mem-\nory")
    return columns(">IPUs", *[">to a\nlayer"] * shared, *counted, ">"), rows


def _shards(candidate: Candidate) -> int:
    """Return the number of IPUs that share every layer."""
    return int(candidate.parallelism.get("tensor_parallel", 1))


def _is_phased(keys: Mapping[str, Any]) -> bool:
    return keys.get("execution") == "phased"


def _decoder_rows(choice: Choice) -> tuple[tuple[Column, ...], list[Cells]]:
    rows: list[Cells] = []
    for candidate in choice.candidates:
        keys, step_s = candidate.parallelism, candidate.decode_step_s
        done = "" if step_s is None else Cell(format_duration_s(step_s, _DIGITS), step_s)
        rows.append(
            (str(keys["tensor_parallel"]), str(keys["pipeline_stages"]), str(candidate.memory["weights"]), done)
        )
    return columns(">tensor", ">stages", "weights", ">per token", ">memory", ">"), rows


def choice_yaml(candidate: Candidate) -> str:
    """Return the keys of a layout as they are written in a scenario.

    >>> keys = dict(used_bytes=0, streaming_bytes=0, capacity_bytes=1, fits=True, verdict="")
    >>> print(choice_yaml(Candidate(parallelism={"tensor_parallel": 4}, memory={"weights": "resident"}, **keys)))
    parallelism:
      tensor_parallel: 4
    memory:
      weights: resident
    """
    return "\n".join((*section_lines("parallelism", candidate.parallelism), *section_lines("memory", candidate.memory)))


def section_lines(title: str, keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a section of a scenario, wrapped to the width of a page."""
    yield f"{title}:"
    for key, value in keys.items():
        lines = [f"  {key}: {flow(value)}"]
        if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            lines = [f"  {key}:", *(f"    - {flow(each)}" for each in value)]
        fill = partial(textwrap.fill, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)
        yield from (fill(line, _WIDTH) for line in lines)


def division_text(candidate: Candidate) -> str:
    """Return a short description of a layout."""
    keys = candidate.parallelism
    if _REPLICAS not in keys:
        return f"{keys['tensor_parallel']} x {keys['pipeline_stages']} IPUs, {candidate.memory['weights']}"
    recomputation = "with" if keys["recomputation"] != "none" else "without"
    words = f"{counted(ipus_of(keys), 'IPU')} per replica, micro-batch {keys['micro_batch_size']}"
    if (shards := _shards(candidate)) > 1 and not _is_phased(keys):
        words += f", {shards} to a layer"
    return f"{words}, {recomputation} recomputation" + (", in phases" if _is_phased(keys) else "")


def ipus_of(keys: Mapping[str, Any]) -> int:
    """Return the number of IPUs of a replica."""
    shards = int(keys.get("tensor_parallel", 1))
    if "stages" in keys:
        return shards * len({stage["ipu"] for stage in keys["stages"]})
    return shards * (len(keys.get("layers_per_ipu", ())) or len(keys.get("pipeline_splits", ())) + 1)
