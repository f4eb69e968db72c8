"""A result of text generation for a person at a terminal."""

from __future__ import annotations

from rich.console import Console, Group

from podsim.report.assumption_table import assumption_table
from podsim.report.choice_table import choice_table
from podsim.report.format import format_count, format_duration_s, format_significant
from podsim.report.generation import GenerationResult
from podsim.report.step import StepReport
from podsim.report.table import breakdown_table, memory_lines
from podsim.report.tables import heading, headline, page

_DIGITS = 4


def print_generation(result: GenerationResult, console: Console | None = None) -> None:
    """Print the tables of a result.

    Args:
        result: What to show.
        console: Where; standard output if left out.
    """
    target = console or Console()
    target.print(_page(result, ascii_only=target.options.ascii_only))


def _page(result: GenerationResult, *, ascii_only: bool) -> Group:
    return page(
        [
            heading(result),
            headline(result, _headline(result)),
            choice_table(result.choice) if result.choice else None,
            *(_step(step, ascii_only=ascii_only) for step in (result.prefill, result.decode)),
            memory_lines(result.memory),
            assumption_table(result.assumptions),
        ]
    )


def _headline(result: GenerationResult) -> list[tuple[str, str, str]]:
    sequences = result.batch_size * result.batches_in_flight
    first, later, whole = (
        format_duration_s(time_s, _DIGITS)
        for time_s in (result.time_to_first_token_s, result.time_per_output_token_s, result.latency_s)
    )
    return [
        ("Time to first token", "time_to_first_token_s", first),
        ("Time per output token", "time_per_output_token_s", later),
        ("Steps", "steps_per_s", f"{format_significant(result.steps_per_s, _DIGITS)}/s"),
        ("Throughput", "tokens_per_s", f"{format_significant(result.tokens_per_s, _DIGITS)} tokens/s"),
        ("Latency", "latency_s", f"{whole} for {result.output_tokens} tokens"),
        ("Sequences", "", format_count(sequences)),
    ]


def _step(step: StepReport, *, ascii_only: bool) -> Group:
    title = f"Where a {step.name} step goes: {format_duration_s(step.time_s, _DIGITS)}, bound by {step.bound}"
    return breakdown_table(title, step.breakdown, ascii_only=ascii_only)
