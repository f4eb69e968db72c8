"""The tables of a comparison as cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podsim.many.compare.difference import Differing, Row, Step, Waterfall
from podsim.many.compare.wording import change_of_row, duration_of_ps, value_of, verdict_of, why
from podsim.result.kinds import kind_of
from podsim.validation.tables import Cells

_BAR: Final = 16
_MOST_INPUTS: Final = 20
_LONGEST_VALUE = _LONGEST_KEY = 60
_BEFORE: Final = 12
"""Characters of a long value that are shown before it differs."""


def metric_cells(rows: Sequence[Row], letter: str, precision: int) -> Cells:
    """Metrics: both values, the change, whether it is better, and why.

    Args:
        rows: The metrics that are shown.
        letter: Of the other side.
        precision: Significant digits.
    """
    header = ["metric", "A", letter, "change", f"{letter} is", "why"]
    body = [
        [
            row.metric.figure.label,
            *(value_of(row.metric, value, precision) for value in (row.a, row.b)),
            change_of_row(row, precision),
            verdict_of(row),
            why(row),
        ]
        for row in rows
    ]
    return [header, *body]


def waterfall_cells(waterfall: Waterfall, letter: str, precision: int, *, unchanged: bool) -> Cells:
    """Kinds of time, those that moved most first; the last column is a bar.

    Args:
        waterfall: What is shown.
        letter: Of the other side.
        precision: Significant digits.
        unchanged: Show kinds apart that are the same.
    """
    header = ["kind", "A", letter, "change", "change [ps]", ""]
    steps = sorted(waterfall.steps, key=lambda step: -abs(step.change_ps))
    largest_ps = abs(steps[0].change_ps) if steps else 0
    shown = [step for step in steps if step.change_ps or unchanged]
    rest = [step for step in steps if step not in shown]
    body = [_step(kind_of(step.kind).label, step, largest_ps, precision) for step in shown]
    if rest:
        rest_ps = sum(step.a_ps for step in rest)
        body.append(_step("others, the same", Step("", rest_ps, rest_ps), largest_ps, precision))
    total = _step("total", Step("", waterfall.a_ps, waterfall.b_ps), 0, precision)
    return [header, *body, total]


def _step(label: str, step: Step, largest_ps: int, precision: int) -> list[str]:
    change_ps = step.change_ps
    times = [duration_of_ps(each, precision) for each in (step.a_ps, step.b_ps)]
    sign = "-" if change_ps < 0 else "+"
    change = f"{sign}{duration_of_ps(abs(change_ps), precision)}" if change_ps else ""
    length = max(1, round(_BAR * abs(change_ps) / largest_ps)) if largest_ps and change_ps else 0
    return [label, *times, change, f"{change_ps:+,}" if change_ps else "0", sign * length]


def input_cells(inputs: Sequence[Differing], letter: str, *, everything: bool) -> tuple[Cells, int]:
    """Inputs that differ, and how many are left out.

    Args:
        inputs: All of them.
        letter: Of the other side.
        everything: Show them all.
    """
    shown = inputs if everything else inputs[:_MOST_INPUTS]
    body = [[_end_of(each.key), *_texts(each.before, each.after)] for each in shown]
    return [["key", "A", letter], *body], len(inputs) - len(shown)


def _end_of(key: str) -> str:
    """A key, or the end of one that is too long; of paths that tells most."""
    return key if len(key) <= _LONGEST_KEY else f"…{key[1 - _LONGEST_KEY :]}"


def _texts(*values: str | None) -> list[str]:
    """Two values; of long ones, the part in which they differ."""
    texts = ["not given" if value is None else " ".join(value.split()) for value in values]
    if max(map(len, texts)) <= _LONGEST_VALUE:
        return texts
    first = next((at for at, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), 0)
    start = max(0, first - _BEFORE)
    parts = [f"…{text[start:]}" if start else text for text in texts]
    return [part if len(part) <= _LONGEST_VALUE else f"{part[: _LONGEST_VALUE - 1]}…" for part in parts]
