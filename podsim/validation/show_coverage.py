"""Ranges beside published figures as text: tables for a terminal, Markdown or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from podsim.validation.coverage import TARGET, Coverage, GroupShare, PredictedRange, far_outside
from podsim.validation.show_left_out import TITLE, plain_held, show_held
from podsim.validation.tables import figure, markdown, plain

_SHARES = ("group", "rows", "inside", "share", "share without model form", "beyond data and inputs")
_OUTSIDE = ("row", "published", "P10", "P90", "unit", "beyond")
_TITLE = "Rows inside their middle 80 % (P10 to P90)"


def show_coverage(found: Coverage, output_format: str) -> str:
    """Outcome of the draws as `table`, `markdown` or `json`.

    Args:
        found: The rows with their ranges.
        output_format: `table`, `markdown` or `json`.
    """
    if output_format == "json":
        return json.dumps(_plain(found), indent=2) + "\n"
    is_markdown = output_format == "markdown"
    render, head = (markdown, "## {}\n\n") if is_markdown else (plain, "{}\n\n")
    blocks = [head.format(_TITLE) + render([_SHARES, *map(_share, (*found.groups, found.total, found.outside_mlperf))])]
    if outside := list(_outside(found)):
        blocks.append(head.format("Rows outside of their range, the furthest first") + render([_OUTSIDE, *outside]))
    if found.held:
        blocks.append(head.format(TITLE) + show_held(found.held, render))
    return "\n".join((*blocks, *(f"{line}\n" for line in _notes(found))))


def _share(each: GroupShare) -> tuple[str, ...]:
    shares = (f"{count / each.rows:.0%}" if each.rows else "" for count in (each.inside, each.inside_bare))
    return each.group, str(each.rows), str(each.inside), *shares, str(each.beyond)


def _outside(found: Coverage) -> Iterator[tuple[str, ...]]:
    for each in far_outside(found):
        row = each.row
        ends = figure(row.published), figure(each.low), figure(each.high)
        yield f"{row.group}, {row.name}", *ends, row.unit, f"{each.beyond:+.1%}"


def _notes(found: Coverage) -> Iterator[str]:
    low, high = TARGET
    yield f"{found.draws.count:,} draws, seed {found.draws.seed}; {low:.0%} to {high:.0%} of the rows should be inside"
    yield "beyond data and inputs: errors of more than twice what both leave open, which are errors of the model"
    if found.undrawn:
        yield f"without any draw that is possible, and not counted: {', '.join(found.undrawn)}"


def _plain(found: Coverage) -> dict[str, object]:
    return {
        "draws": found.draws.count,
        "seed": found.draws.seed,
        "target": list(TARGET),
        "left_out": plain_held(found.held),
        "total": _plain_share(found.total),
        "outside_mlperf": _plain_share(found.outside_mlperf),
        "groups": [_plain_share(each) for each in found.groups],
        "rows": [_plain_range(each) for each in found.ranges],
        "undrawn": list(found.undrawn),
    }


def _plain_share(each: GroupShare) -> dict[str, object]:
    return {
        "group": each.group,
        "rows": each.rows,
        "inside": each.inside,
        "inside_without_model_form": each.inside_bare,
        "beyond_data_and_inputs": each.beyond,
    }


def _plain_range(each: PredictedRange) -> dict[str, object]:
    return {
        "group": each.row.group,
        "name": each.row.name,
        "role": each.row.role,
        "unit": each.row.unit,
        "published": each.row.published,
        "predicted": each.row.predicted,
        "p10": each.low,
        "p90": each.high,
        "without_model_form": {"p10": each.bare[0], "p90": each.bare[1]},
        "is_inside": each.is_inside,
        "uncertainty": each.row.uncertainty,
        "of_inputs": each.of_inputs if math.isfinite(each.of_inputs) else None,
        "is_beyond_data_and_inputs": each.is_beyond,
        "beyond": each.beyond,
        "draws": each.draws,
    }
