"""The Pareto front of an answer as a chart of characters."""

from __future__ import annotations

from math import log
from typing import Final

from rich.console import Group
from rich.text import Text

from podsim.many.capacity.answer import Answer
from podsim.many.capacity.front import value
from podsim.many.capacity.wording import cell
from podsim.metrics import metric_of

_WIDTH: Final = 56
_HEIGHT: Final = 12
_LABELS: Final = "123456789abcdefghijklmnopqrstuvwxyz"
_OTHER: Final = "·"
_MORE: Final = "+"
_WIDE: Final = 8
"""From this ratio of its ends on, an axis is logarithmic."""


def front_chart(answer: Answer) -> Group:
    """Options by both figures: those of the front by their place in the ranking, the others as dots."""
    figure, second, currency = answer.goal.figure, answer.second or "", answer.currency
    points = []
    for place, option in enumerate(answer.ranked):
        x, y = value(option, figure), value(option, second)
        if x is not None and y is not None:
            is_best = option in answer.front
            label = (_LABELS[place] if place < len(_LABELS) else _MORE) if is_best else _OTHER
            points.append((x, y, label))
    logarithmic = [min(each) > 0 and max(each) / min(each) > _WIDE for each in _axes(points)]
    lows, highs = [min(each) for each in _axes(points)], [max(each) for each in _axes(points)]
    across, up = (log if is_log else float for is_log in logarithmic)
    placed = [(across(x), up(y), label) for x, y, label in points]
    rows = drawn(placed, (across(lows[0]), across(highs[0])), (up(lows[1]), up(highs[1])))
    ends = cell(second, highs[1], currency), cell(second, lows[1], currency)
    margin = max(map(len, ends))
    lines = [f"{ends[0]:>{margin}} ┤{rows[0]}"]
    lines += [f"{'':>{margin}} │{row}" for row in rows[1:-1]]
    lines += [f"{ends[1]:>{margin}} ┤{rows[-1]}", f"{'':>{margin}} └{'─' * _WIDTH}"]
    left, right = cell(figure, lows[0], currency), cell(figure, highs[0], currency)
    lines += [f"{'':>{margin}}  {left}{right:>{_WIDTH - len(left)}}"]
    words = [
        metric_of(name).head + " (logarithmic)" * is_log
        for name, is_log in zip((figure, second), logarithmic, strict=True)
    ]
    title = f"{words[1]} against {words[0]}; numbers: no other beats it in both"
    return Group(Text(title, style="bold"), *(Text(line.rstrip(), no_wrap=True) for line in lines))


def _axes(points: list[tuple[float, float, str]]) -> tuple[list[float], list[float]]:
    return [x for x, _, _ in points], [y for _, y, _ in points]


def drawn(points: list[tuple[float, float, str]], across: tuple[float, float], up: tuple[float, float]) -> list[str]:
    """Points on a grid of characters, the largest of the second figure on top.

    Args:
        points: Both figures and the character of each.
        across: Least and largest of the first figure.
        up: Least and largest of the second.
    """
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for x, y, label in sorted(points, key=lambda point: point[2] != _OTHER):  # numbers cover dots
        row, column = _HEIGHT - 1 - _step(y, up, _HEIGHT), _step(x, across, _WIDTH)
        taken = grid[row][column]
        grid[row][column] = _MORE if taken not in (" ", _OTHER) else label
    return ["".join(row) for row in grid]


def _step(number: float, ends: tuple[float, float], steps: int) -> int:
    low, high = ends
    return round((number - low) / (high - low) * (steps - 1)) if high > low else 0
