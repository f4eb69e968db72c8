"""The page of a result of training, forward passes or text generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from podsim.format import format_error
from podsim.report.report import Folded, Part, Report, Section, Tile
from podsim.report.table import Table, columns
from podsim.result.base import Result
from podsim.result.forward import ForwardResult
from podsim.result.generation import GenerationResult
from podsim.result.ranges import range_text
from podsim.result.result import RunResult
from podsim.result.rows import MemoryReport, OperationRow
from podsim.result.serving import ServingResult
from podsim.scenario import data_file
from podsim.scenario.document import plain_data, read_yaml
from podsim.show.choice_table import choice_tables
from podsim.show.run_charts import (
    MEMORIES,
    inputs_chart,
    ipus_chart,
    is_next_to_empty,
    memory_charts,
    memory_numbers,
    memory_title,
    step_charts,
    waterfall,
)
from podsim.show.serving_charts import percentile_charts, queue_chart
from podsim.show.serving_table import percentile_table, serving_headline
from podsim.show.tables import (
    compared,
    forward_headline,
    generation_headline,
    operation_table,
    spent_rows,
    training_headline,
    uncertainty_table,
)
from podsim.show.timeline import timeline_chart


def result_page(result: Result) -> Report:
    """A page of a result; the timeline is part of it where it was recorded."""
    sections = [*_own_sections(result), assumptions_section(result), _certainty(result), sources_section(result)]
    notes = [f"{each.key} changes nothing: {each.reason}" for each in result.without_effect]
    return Report(
        title=result.title,
        about=result.about,
        version=result.version,
        inputs=result.inputs,
        verdict=result.verdict,
        warnings=result.warnings,
        notes=notes,
        tiles=headline_tiles(result),
        sections=[each for each in sections if each is not None and each.blocks],
    )


def headline_tiles(result: Result, *, ranged: bool = True) -> Sequence[Tile]:
    """The numbers of a result that matter most.

    Args:
        result: What they are of.
        ranged: Whether their ranges are told, which take longest to find; a service has them where it was drawn.
    """
    match result:
        case RunResult():
            return list(tiles_of(result, training_headline(result), ranged=ranged))
        case ForwardResult():
            return list(tiles_of(result, forward_headline(result), ranged=ranged))
        case GenerationResult():
            return list(tiles_of(result, generation_headline(result), ranged=ranged))
        case ServingResult():
            return serving_tiles(result)
    raise TypeError(type(result).__name__)


def _own_sections(result: Result) -> Iterator[Section]:
    match result:
        case RunResult():
            yield from _training(result)
        case ForwardResult():
            yield from _forward(result)
        case GenerationResult():
            yield from _generation(result)
        case ServingResult():
            yield from serving_sections(result)


def _training(result: RunResult) -> Iterator[Section]:
    what = "weight update"
    blocks: list[Part] = [waterfall(what, result.breakdown, result.sources)]
    if result.ipus:
        blocks.append(ipus_chart(what, result.ipus, result.breakdown_ps))
    yield Section("Where time goes", [*blocks, *_operations(result.operations)])
    yield from _timeline(result, what)
    yield Section("Memory", memory_blocks(result.memory))
    yield from _division(result)


def _forward(result: ForwardResult) -> Iterator[Section]:
    call = "session call"
    blocks: list[Part] = [waterfall("batch", result.batch.breakdown, result.batch.sources)]
    blocks.append(waterfall(call, result.call.breakdown, result.call.sources))
    if len(result.ipus) > 1:
        blocks.append(ipus_chart(call, result.ipus, result.call.breakdown_ps))
    yield Section("Where time goes", [*blocks, *_operations(result.operations)])
    yield from _timeline(result, call)
    yield Section("Memory", memory_blocks(result.memory))


def _generation(result: GenerationResult) -> Iterator[Section]:
    steps = (result.prefill, result.decode)
    bounds = " ".join(f"A {each.name} step is bound by {each.bound}." for each in steps)
    yield Section("Where time goes", [bounds, *step_charts(steps)])
    yield from _timeline(result, "decode step")
    yield Section("Memory", memory_blocks(result.memory))
    yield from _division(result)


def _timeline(result: Result, what: str) -> Iterator[Section]:
    chart = timeline_chart(result.trace, result.passes, what)
    if chart is not None:
        yield Section("Timeline", [chart])


def memory_blocks(memory: MemoryReport) -> list[Part]:
    """A map for each memory that is used; of one that is next to empty a line."""
    blocks: list[Part] = list(memory_charts(memory))
    for where, (name, *_) in MEMORIES.items():
        if memory.fullest_ipu(where) is not None and is_next_to_empty(memory, where):
            blocks.append(f"{memory_title(memory, where)}.")
            blocks.append(Folded(f"What is in the {name}", [memory_numbers(memory, where)]))
    return blocks


def _operations(operations: Sequence[OperationRow]) -> Iterator[Part]:
    table = operation_table(operations)
    if table is not None:
        yield Folded("The longest operations", [table])


def _division(result: Result) -> Iterator[Section]:
    if result.choice is not None:
        yield Section("Division", choice_tables(result.choice))


def _certainty(result: Result) -> Section | None:
    table = uncertainty_table(result.uncertainty)
    return Section("How sure", [table]) if table is not None else None


def tiles_of(result: Result, rows: Iterable[tuple[str, str, str]], *, ranged: bool = True) -> Iterator[Tile]:
    """Rows of a headline as tiles; a row whose label is empty or begins with a blank belongs to the one before."""
    label, value, notes = "", "", list[str]()
    for name, quantity, text in rows:
        if not name or name.startswith(" "):
            word = name.strip()
            notes.append(text if word in text.split(";")[0] else f"{word} {text}")
            continue
        if label:
            yield Tile(label, value, tuple(notes))
        label, value = name, text
        span = range_text(result, quantity) if ranged else ""
        notes = [*filter(None, [span]), *compared(result, quantity)]
    if label:
        yield Tile(label, value, tuple(notes))


def serving_tiles(result: ServingResult) -> list[Tile]:
    """The numbers of a service that matter most."""
    tiles = [Tile(label, value, (remark,) if remark else ()) for label, value, remark in serving_headline(result)]
    return [*tiles, *tiles_of(result, spent_rows(result))]


def serving_sections(result: ServingResult) -> Iterator[Section]:
    """The sections of a service: percentiles against load, and the queue over time."""
    yield Section("What requests see", [percentile_table(result), *percentile_charts(result)])
    yield Section("Queue", [queue_chart(result)])
    if result.decode:
        step = result.decode[0]
        yield Section("Where time goes", [waterfall("decode step of a full batch", step.breakdown, step.sources)])


def assumptions_section(result: Result) -> Section | None:
    """Inputs that are neither published nor measured, what moves the result most first; None where there are none."""
    rows = result.assumptions
    if not rows:
        return None
    counts = Counter(str(each.get("basis", "")) for each in rows)
    lead = (
        f"The result stands on {', '.join(f'{count} {basis}' for basis, count in counts.items())} inputs, "
        "each moved to the ends of its range, or a tenth either way where it has none."
    )
    blocks: list[Part] = [lead]
    chart = inputs_chart(rows)
    if chart is not None:
        blocks.append(chart)
    blocks.append(Folded(f"All {len(rows)} inputs, with their notes", [_numbers(rows)]))
    return Section("Assumptions by influence", blocks)


def sources_section(result: Result) -> Section:
    """Where the numbers come from."""
    known = _bibliography()
    keys = dict.fromkeys(str(each["source"]) for each in result.assumptions if str(each.get("source", "")) in known)
    rows = [(key, str(known[key].get("title", "")), str(known[key].get("where", ""))) for key in keys]
    measured = [
        (each.label, each.quantity, f"{each.measured:.6g}", _error(result.error_of(each)), each.role, each.source)
        for each in result.references
    ]
    blocks: list[Part] = []
    if measured:
        headers = ("figure", "quantity", ">measured", ">prediction is off by", "role", "source")
        blocks.append(Table(columns(*headers), measured, "Measured and published figures for this scenario"))
    if rows:
        blocks.append(Table(columns("key", "title", "where"), rows, "Sources of the inputs above"))
    files = [(path, digest) for path, digest in result.inputs]
    blocks.append(Folded("Files read, with their SHA-256", [Table(columns("file", "SHA-256"), files)]))
    return Section("Sources", blocks)


def _error(error: float | None) -> str:
    return "" if error is None else format_error(error)


@lru_cache
def _bibliography() -> Mapping[str, Mapping[str, Any]]:
    data: Mapping[str, Mapping[str, Any]] = plain_data(read_yaml(data_file("hardware_specs/references.yaml")).data)
    return data


def _numbers(rows: Sequence[Mapping[str, object]]) -> Table:
    headers = ("input", "value", "basis", ">at lower end", ">at upper end", "source", "note")
    return Table(columns(*headers), [_cells(each) for each in rows])


def _cells(row: Mapping[str, object]) -> tuple[str, ...]:
    influence = row.get("influence")
    if isinstance(influence, Mapping):
        ends = ["impossible" if influence[end] is None else format_error(influence[end], 2) for end in ("low", "high")]
    else:
        ends = ["not measured"] * 2
    texts = [str(row.get(name) or "") for name in ("key", "value", "basis", "source", "note")]
    return (*texts[:3], *ends, *texts[3:])
