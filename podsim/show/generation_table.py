"""Tables of text generation."""

from __future__ import annotations

from rich.console import Group

from podsim.format import format_count, format_duration_s, format_significant
from podsim.metrics import STEPS, TOKENS
from podsim.result.generation import GenerationResult
from podsim.result.step import StepReport
from podsim.show.choice_table import choice_table
from podsim.show.power_table import spent_rows
from podsim.show.table import breakdown_table, memory_lines
from podsim.show.tables import Tables, headline

_DIGITS = 4


def generation_tables(result: GenerationResult, *, ascii_only: bool) -> Tables:
    """The headline, the division that was chosen, where the time of both steps goes, and memory."""
    return (
        headline(result, generation_headline(result)),
        choice_table(result.choice) if result.choice else None,
        *(_step(step, ascii_only=ascii_only) for step in (result.prefill, result.decode)),
        memory_lines(result.memory),
    )


def generation_headline(result: GenerationResult) -> list[tuple[str, str, str]]:
    """Label, name of the quantity and value of the numbers that matter most."""
    sequences = result.batch_size * result.batches_in_flight
    first, later, whole = (
        format_duration_s(time_s, _DIGITS)
        for time_s in (result.time_to_first_token_s, result.time_per_output_token_s, result.latency_s)
    )
    return [
        ("Time to first token", "time_to_first_token_s", first),
        ("Time per output token", "time_per_output_token_s", later),
        ("Steps", STEPS, f"{format_significant(result.steps_per_s, _DIGITS)}/s"),
        ("Throughput", TOKENS, f"{format_significant(result.tokens_per_s, _DIGITS)} tokens/s"),
        ("Latency", "latency_s", f"{whole} for {result.output_tokens} tokens"),
        ("Sequences", "", format_count(sequences)),
        *spent_rows(result),
    ]


def _step(step: StepReport, *, ascii_only: bool) -> Group:
    title = f"Where a {step.name} step goes: {format_duration_s(step.time_s, _DIGITS)}, bound by {step.bound}"
    return breakdown_table(title, step.breakdown, step.sources, ascii_only=ascii_only)
