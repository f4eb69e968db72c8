"""The page of a result of training, forward passes or text generation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from podsim.pages.assumptions import assumptions_section, sources_section
from podsim.pages.parts import Block, Folded, Page, Section, Tile
from podsim.result.base import Result
from podsim.result.forward import ForwardResult
from podsim.result.generation import GenerationResult
from podsim.result.ranges import range_text
from podsim.result.result import RunResult
from podsim.result.rows import MemoryReport, OperationRow
from podsim.result.serving import ServingResult
from podsim.show.choice_table import choice_tables
from podsim.show.run_charts import (
    MEMORIES,
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


def result_page(result: Result) -> Page:
    """A page of a result; the timeline is part of it where it was recorded."""
    sections = [*_own_sections(result), assumptions_section(result), _certainty(result), sources_section(result)]
    notes = [f"{each.key} changes nothing: {each.reason}" for each in result.without_effect]
    return Page(
        title=result.title,
        about=result.about,
        version=result.version,
        inputs=result.inputs,
        verdict=result.verdict,
        warnings=result.warnings,
        notes=notes,
        tiles=_tiles(result),
        sections=[each for each in sections if each is not None and each.blocks],
    )


def _tiles(result: Result) -> Sequence[Tile]:
    match result:
        case RunResult():
            return list(tiles_of(result, training_headline(result)))
        case ForwardResult():
            return list(tiles_of(result, forward_headline(result)))
        case GenerationResult():
            return list(tiles_of(result, generation_headline(result)))
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
    blocks: list[Block] = [waterfall(what, result.breakdown, result.sources)]
    if result.ipus:
        blocks.append(ipus_chart(what, result.ipus, result.breakdown_ps))
    yield Section("Where time goes", [*blocks, *_operations(result.operations)])
    yield from _timeline(result, what)
    yield Section("Memory", _memory(result.memory))
    yield from _division(result)


def _forward(result: ForwardResult) -> Iterator[Section]:
    call = "session call"
    blocks: list[Block] = [waterfall("batch", result.batch.breakdown, result.batch.sources)]
    blocks.append(waterfall(call, result.call.breakdown, result.call.sources))
    if len(result.ipus) > 1:
        blocks.append(ipus_chart(call, result.ipus, result.call.breakdown_ps))
    yield Section("Where time goes", [*blocks, *_operations(result.operations)])
    yield from _timeline(result, call)
    yield Section("Memory", _memory(result.memory))


def _generation(result: GenerationResult) -> Iterator[Section]:
    steps = (result.prefill, result.decode)
    bounds = " ".join(f"A {each.name} step is bound by {each.bound}." for each in steps)
    yield Section("Where time goes", [bounds, *step_charts(steps)])
    yield from _timeline(result, "decode step")
    yield Section("Memory", _memory(result.memory))
    yield from _division(result)


def _timeline(result: Result, what: str) -> Iterator[Section]:
    chart = timeline_chart(result.trace, result.passes, what)
    if chart is not None:
        yield Section("Timeline", [chart])


def _memory(memory: MemoryReport) -> list[Block]:
    """A map for each memory that is used; of one that is next to empty a line."""
    blocks: list[Block] = list(memory_charts(memory))
    for where, (name, *_) in MEMORIES.items():
        if memory.fullest_ipu(where) is not None and is_next_to_empty(memory, where):
            blocks.append(f"{memory_title(memory, where)}.")
            blocks.append(Folded(f"What is in the {name}", [memory_numbers(memory, where)]))
    return blocks


def _operations(operations: Sequence[OperationRow]) -> Iterator[Block]:
    table = operation_table(operations)
    if table is not None:
        yield Folded("The longest operations", [table])


def _division(result: Result) -> Iterator[Section]:
    if result.choice is not None:
        yield Section("Division", choice_tables(result.choice))


def _certainty(result: Result) -> Section | None:
    table = uncertainty_table(result.uncertainty)
    return Section("How sure", [table]) if table is not None else None


def tiles_of(result: Result, rows: Iterable[tuple[str, str, str]]) -> Iterator[Tile]:
    """Rows of a headline as tiles; a row whose label is empty or begins with a blank belongs to the one before."""
    label, value, notes = "", "", list[str]()
    for name, quantity, text in rows:
        if not name or name.startswith(" "):
            notes.append(f"{name.strip()} {text}".strip())
            continue
        if label:
            yield Tile(label, value, tuple(notes))
        label, value = name, text
        notes = [*filter(None, [range_text(result, quantity)]), *compared(result, quantity)]
    if label:
        yield Tile(label, value, tuple(notes))


def serving_tiles(result: ServingResult) -> list[Tile]:
    """The numbers of a service that matter most."""
    tiles = [Tile(label, value, (remark,) if remark else ()) for label, value, remark in serving_headline(result)]
    return [*tiles, *tiles_of(result, spent_rows(result))]


def serving_sections(result: ServingResult) -> Iterator[Section]:
    """What requests see, how it changes with load, and what waits."""
    yield Section("What requests see", [percentile_table(result), *percentile_charts(result)])
    yield Section("Queue", [queue_chart(result)])
    if result.decode:
        step = result.decode[0]
        yield Section("Where time goes", [waterfall("decode step of a full batch", step.breakdown, step.sources)])
