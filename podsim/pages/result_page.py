"""The page of a result of training, forward passes or text generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podsim.pages.assumptions import assumptions_section, sources_section
from podsim.pages.memory_map import memory_blocks
from podsim.pages.parts import Block, Folded, Page, Section, Tile
from podsim.pages.rich_tables import blocks_of
from podsim.pages.serving_page import serving_sections, serving_tiles
from podsim.pages.tiles import tiles_of
from podsim.pages.time_charts import ipus_chart, waterfall
from podsim.pages.timeline import timeline_chart
from podsim.result.base import Result
from podsim.result.forward import ForwardResult
from podsim.result.generation import GenerationResult
from podsim.result.result import RunResult
from podsim.result.rows import OperationRow
from podsim.result.serving import ServingResult
from podsim.show.choice_table import choice_table
from podsim.show.forward_table import forward_headline
from podsim.show.generation_table import generation_headline
from podsim.show.table import operation_table, training_headline
from podsim.show.uncertainty_table import uncertainty_table


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
        blocks.append(ipus_chart(what, result.ipus))
    yield Section("Where time goes", [*blocks, *_operations(result.operations)])
    yield from _timeline(result, what)
    yield Section("Memory", list(memory_blocks(result.memory)))
    yield from _division(result)


def _forward(result: ForwardResult) -> Iterator[Section]:
    call = "session call"
    blocks: list[Block] = [waterfall("batch", result.batch.breakdown, result.batch.sources)]
    blocks.append(waterfall(call, result.call.breakdown, result.call.sources))
    if len(result.ipus) > 1:
        blocks.append(ipus_chart(call, result.ipus))
    yield Section("Where time goes", [*blocks, *_operations(result.operations)])
    yield from _timeline(result, call)
    yield Section("Memory", list(memory_blocks(result.memory)))


def _generation(result: GenerationResult) -> Iterator[Section]:
    steps = (result.prefill, result.decode)
    charts = [waterfall(f"{each.name} step", each.breakdown, each.sources) for each in steps]
    bounds = " ".join(f"A {each.name} step is bound by {each.bound}." for each in steps)
    yield Section("Where time goes", [bounds, *charts])
    yield from _timeline(result, "decode step")
    yield Section("Memory", list(memory_blocks(result.memory)))
    yield from _division(result)


def _timeline(result: Result, what: str) -> Iterator[Section]:
    chart = timeline_chart(result.trace, result.passes, what)
    if chart is not None:
        yield Section("Timeline", [chart])


def _operations(operations: Sequence[OperationRow]) -> Iterator[Block]:
    blocks = list(blocks_of(operation_table(operations)))
    if blocks:
        yield Folded("The longest operations", blocks)


def _division(result: Result) -> Iterator[Section]:
    if result.choice is not None:
        yield Section("Division", list(blocks_of(choice_table(result.choice))))


def _certainty(result: Result) -> Section | None:
    blocks = list(blocks_of(uncertainty_table(result.uncertainty)))
    return Section("How sure", blocks) if blocks else None
