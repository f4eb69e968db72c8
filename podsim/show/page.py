"""A result for a person at a terminal: plain text in a file or a pipe, with colours on a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console

from podsim.harmless import line
from podsim.report.table import Passage
from podsim.result.base import Result
from podsim.result.forward import ForwardResult
from podsim.result.generation import GenerationResult
from podsim.result.result import RunResult
from podsim.result.serving import ServingResult
from podsim.show.html_page import to_html
from podsim.show.serving_table import serving_tables
from podsim.show.tables import (
    Tables,
    assumption_table,
    forward_tables,
    generation_tables,
    training_tables,
    uncertainty_table,
)
from podsim.show.text import PlainConsole, Printed


def print_result(result: Result, tables: Callable[..., Tables], console: Console | None = None) -> None:
    """Print what a result is about, its tables, and what it stands on, with an empty line between them.

    Args:
        result: What to show.
        tables: Makes the tables of such a result.
        console: Where; standard output if left out.
    """
    target = console or PlainConsole()
    for passage in _heading(result):
        target.print(Printed(passage))
    for block in (*tables(result), assumption_table(result.assumptions), uncertainty_table(result.uncertainty)):
        if block is not None:
            target.print()
            target.print(Printed(block))


def html_of(result: Result) -> str:
    """What `print_result` prints, as HTML for notebooks."""
    tables: Tables
    match result:
        case RunResult():
            tables = training_tables(result)
        case GenerationResult():
            tables = generation_tables(result)
        case ForwardResult():
            tables = forward_tables(result)
        case ServingResult():
            tables = serving_tables(result)
        case _:
            raise TypeError(type(result).__name__)
    told = "".join(to_html(each) for each in _heading(result))
    blocks = (*tables, assumption_table(result.assumptions), uncertainty_table(result.uncertainty))
    return told + "".join(to_html(each) for each in blocks if each is not None)


def _heading(result: Result) -> Iterator[Passage]:
    """The title of a report, what it is about, what a reader must know first, its warnings and notes."""
    yield Passage("\n".join(map(line, result.about)), line(result.title), "dim")
    yield from (Passage(line(f"verdict: {sentence}"), style="bold") for sentence in result.verdict)
    yield from (Passage(line(f"warning: {warning}"), style="yellow") for warning in result.warnings)
    for each in result.without_effect:
        yield Passage(line(f"note: {each.key} changes nothing: {each.reason}"), style="dim")
