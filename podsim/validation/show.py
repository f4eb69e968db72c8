"""Comparisons with published figures, their ranges, and runs with noise, as text, Markdown, JSON or CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

from podsim.draws import SHARE
from podsim.result.reference_data import rows as reference_rows
from podsim.show.table import Block, Cell, Cells, Passage, Table, columns, to_csv, to_markdown, to_text
from podsim.validation.comparison import BEYOND, LimitVerdict, NotRun, RowComparison, Summary, Validation, summarize
from podsim.validation.coverage import TARGET, Coverage, GroupShare, PredictedRange, far_outside
from podsim.validation.freedom import MOST_FITTED, MOST_OF_NOISE, Freedom
from podsim.validation.left_out import FreedomLeft, LeftOutPart, freedom_left, shipped, together
from podsim.validation.noise import RUNS, NoisyRow, mean_factor
from podsim.validation.reference_data import CALIBRATION
from podsim.validation.sensitivity import SCENARIO, Sensitivity, published_rates

_MS_PER_S: Final = 1000
_Row = TypeVar("_Row", bound=RowComparison | NotRun)
_ROLES: Final = {
    "calibration": "Calibration: rows that a constant is fitted to",
    "hold-out": "Hold-out: rows that nothing is fitted to",
}
_NOTE: Final = (
    "data: twice the uncertainty of what was measured. An error within it is explained; a larger one is one of the"
    " model, or of its inputs, which `--coverage` draws."
)


def show(
    found: Validation,
    output_format: str,
    sensitivities: Sequence[Sensitivity] = (),
    verdicts: Sequence[LimitVerdict] = (),
    *,
    summary_only: bool = False,
    chosen: Freedom | None = None,
) -> str:
    """The comparisons as `table`, `markdown`, `json` or `csv`, with a summary per group and role.

    Args:
        found: Predictions beside published figures.
        output_format: `table`, `markdown`, `json`, or `csv`, which has the rows alone.
        sensitivities: What one prediction is at other values of an input that is not published.
        verdicts: Whether limits are kept.
        summary_only: Leave the rows out.
        chosen: What could have been chosen otherwise.
    """
    if output_format == "json":
        return _as_json(found, sensitivities, verdicts, summary_only=summary_only, chosen=chosen)
    if output_format == "csv":
        return to_csv(summary_table(found.comparisons) if summary_only else _rows_table(found.comparisons, roles=True))
    blocks: list[Block] = [] if summary_only else list(_tables(found))
    if not summary_only and any(row.uncertainty is not None for row in found.comparisons):
        blocks.append(Passage(_NOTE))
    blocks.append(summary_table(found.comparisons))
    if chosen is not None:
        blocks += [freedom_table(chosen), _left_table(freedom_left(shipped())), _switch_table()]
    if sensitivities and not summary_only:
        blocks += [Passage(sensitivity_note()), sensitivity_table(sensitivities)]
    return written([*blocks, *(Passage(str(verdict)) for verdict in verdicts)], output_format)


def written(blocks: Iterable[Block], output_format: str) -> str:
    """Blocks with an empty line between them; CSV has the first table alone."""
    if output_format == "csv":
        return to_csv(next(block for block in blocks if isinstance(block, Table)))
    return "\n".join(map(to_markdown if output_format == "markdown" else to_text, blocks))


def figure(value: float) -> Cell:
    """A figure with four digits that count, or all of those before the point."""
    return Cell(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}", value)


def share(value: float, form: str = ".1%") -> Cell:
    """A share in per cent; what is rounded to zero has no sign.

    >>> str(share(0.012, "+.1%")), str(share(-0.0001, "+.1%")), str(share(0.0001, "+.1%"))
    ('+1.2%', '0.0%', '0.0%')
    """
    text = format(value, form)
    return Cell(text if float(text.removesuffix("%")) else text.lstrip("+-"), value)


def _count(value: int) -> Cell:
    return Cell(str(value), value)


def _as_json(
    found: Validation,
    sensitivities: Sequence[Sensitivity],
    verdicts: Sequence[LimitVerdict],
    *,
    summary_only: bool,
    chosen: Freedom | None,
) -> str:
    rows = {
        "comparisons": [asdict(c) | {"error": c.error, "is_beyond_data": c.is_beyond()} for c in found.comparisons],
        "not_run": [asdict(row) for row in found.not_run],
    }
    report: dict[str, Any] = ({} if summary_only else rows) | {
        "summary": [asdict(s) for s in summarize(found.comparisons)]
    }
    if not summary_only:
        report["sensitivity"] = [asdict(s) for s in sensitivities]
    if chosen is not None:
        report["degrees_of_freedom"] = asdict(chosen) | {
            "most_fitted": MOST_FITTED,
            "most_of_noise": MOST_OF_NOISE,
            "left": [asdict(each) | {"left": each.left} for each in freedom_left(shipped())],
            "chosen_switches": [dict(row) for row in reference_rows("switches")],
        }
    if verdicts:
        report["limits"] = [asdict(v) | {"is_kept": v.is_kept} for v in verdicts]
    return json.dumps(report, indent=2) + "\n"


def _tables(found: Validation) -> Iterator[Table]:
    for role, title in _ROLES.items():
        if rows := [row for row in found.comparisons if row.role == role]:
            yield _rows_table(rows, title)
    if blind := [row for row in found.rows if row.blind is not None]:
        heads = columns("row", ">blind", ">now", ">published", "unit", ">blind error", ">error now")
        title = "Blind: what version 0.1.0 predicted before the figure was known, never computed again"
        yield Table(heads, list(_by_group(blind, _blind_row)), title)
    later = [(row, each) for row in found.rows for each in row.later_blind]
    if later:
        heads = columns("row", "described as", ">blind", ">published", "unit", ">blind error")
        title = "Blind: what version 0.6.0 predicted before the figure was known, never computed again"
        cells = [
            (
                *(each.row, each.described_as, figure(each.predicted), figure(row.published), row.unit),
                share(each.predicted / row.published - 1, "+.1%"),
            )
            for row, each in later
        ]
        yield Table(heads, cells, title)
    if found.not_run:
        heads = columns("row", ">published", "unit", "why nothing is predicted")
        rows_of = _by_group(found.not_run, lambda row: (row.name, figure(row.published), row.unit, row.reason))
        yield Table(heads, list(rows_of), "Published figures without a prediction")


def _rows_table(rows: Sequence[RowComparison], title: str = "", *, roles: bool = False) -> Table:
    """Predictions beside published figures, with their role if a table holds several."""

    def cells(c: RowComparison) -> Cells:
        data = "" if c.uncertainty is None else share(BEYOND * c.uncertainty)
        explained = {None: "", True: "no", False: "yes"}[c.is_beyond()]
        known = (c.name, figure(c.predicted), figure(c.published), c.unit, share(c.error, "+.1%"), data, explained)
        return (*known, *[c.role] * roles)

    heads = columns("row", ">predicted", ">published", "unit", ">error", ">data", "explained", *["role"] * roles)
    return Table(heads, list(_by_group(rows, cells)), title)


def _by_group(rows: Sequence[_Row], cells: Callable[[_Row], Cells]) -> Iterator[Cells]:
    """The cells of every row, below the name of its group; groups in order of first appearance."""
    for group in dict.fromkeys(row.group for row in rows):
        yield (group,)
        yield from (cells(row) for row in rows if row.group == group)


def _blind_row(row: RowComparison | NotRun) -> Cells:
    blind = row.blind or math.nan
    now: Cells = (
        (figure(row.predicted), share(row.error, "+.1%")) if isinstance(row, RowComparison) else ("not run", "")
    )
    error = share(blind / row.published - 1, "+.1%")
    return row.name.partition(":")[0], figure(blind), now[0], figure(row.published), row.unit, error, now[1]


def summary_table(comparisons: Sequence[RowComparison], title: str = "Summary") -> Table:
    """Errors by group and role: what is fitted first, then what is not."""

    def cells(s: Summary) -> Cells:
        errors = (share(s.bias, "+.1%"), share(s.mean), share(s.rms), share(s.worst, "+.1%"))
        return s.group, s.role, _count(s.count), _count(s.configurations), *errors, _count(s.beyond)

    counts, errors = (">rows", ">configurations"), (">bias", ">mean error", ">RMS", ">worst", ">beyond data")
    summaries = sorted(summarize(comparisons), key=lambda s: list(_ROLES).index(s.role))
    return Table(columns("group", "role", *counts, *errors), list(map(cells, summaries)), title)


def freedom_table(chosen: Freedom) -> Table:
    """The number of choices of each kind, and of configurations there are to meet."""
    stacks = ", ".join(each.removeprefix("software.") for each in chosen.switches)
    noise = f"at most {MOST_OF_NOISE}, fitted to how much logged runs differ"
    rows = [
        ("fitted constants", _count(len(chosen.fitted)), f"at most {MOST_FITTED} in all of podsim"),
        ("constants of noise", _count(len(chosen.of_noise)), noise),
        ("assumed numbers", _count(len(chosen.assumed)), "of machines and software stacks, each with its range"),
        ("assumed in scenarios", _count(len(chosen.assumed_in_scenarios)), "beside those"),
        ("switches of stacks", _count(len(chosen.switches)), stacks or "none differs between these stacks"),
    ]
    apart = "of whole runs; those that differ in name alone count once"
    rows += [(f"{role} configurations", _count(count), apart) for role, count in chosen.configurations.items()]
    if len(chosen.configurations) > 1:
        rows.append(("in both roles", _count(chosen.shared), "other figures of runs that constants are fitted to"))
    return Table(columns("what", ">count", "which"), rows, "Degrees of freedom")


def _left_table(found: Sequence[FreedomLeft]) -> Table:
    """For the calibration rows of each framework how much was chosen to meet them."""
    rows: list[Cells] = [
        (each.runs, *map(_count, (each.configurations, len(each.constants), len(each.switches), each.left)))
        for each in found
    ]
    heads = columns("fitted to", ">configurations", ">constants", ">switches", ">left")
    return Table(heads, rows, "Configurations left beside what was chosen")


def _switch_table() -> Table:
    """Switches of software stacks that act like fitted constants, with the rows they rest on."""
    switches = reference_rows("switches")
    rows = [(r["key"].removeprefix("software."), r["chosen"], r["otherwise"], r["rows"]) for r in switches]
    heads = columns("switch", "chosen", "otherwise", "after these rows were seen")
    return Table(heads, rows, "Switches that act like fitted constants")


def sensitivity_note() -> str:
    """A note above the table of sensitivities."""
    published = ", ".join(f"{value} ({row})" for row, value in published_rates().items())
    return (
        f"{SCENARIO}: published are {published} tokens/s.\n"
        "Streaming memory sets the pace, at a bandwidth that was measured on one IPU that read alone.\n"
        "Predicted steps/s over its plausible range:"
    )


def sensitivity_table(sensitivities: Sequence[Sensitivity]) -> Table:
    """Predicted steps/s at each bandwidth."""
    rows = [
        (
            f"{s.rate} (committed)" if s.committed else s.rate,
            Cell(f"{s.steps_per_s:.2f}", s.steps_per_s),
            Cell(f"{s.wait_s * _MS_PER_S:.1f} ms", s.wait_s),
        )
        for s in sensitivities
    ]
    return Table(columns("streaming memory of an IPU", ">steps/s", ">waiting for weights"), rows)


# Ranges


def show_coverage(found: Coverage, output_format: str) -> str:
    """Outcome of the draws as `table`, `markdown`, `json` or `csv`.

    Args:
        found: The rows with their ranges.
        output_format: One of those.
    """
    if output_format == "json":
        return json.dumps(_plain_coverage(found), indent=2) + "\n"
    heads = columns("group", ">rows", ">inside", ">share", ">share without model form", ">beyond data and inputs")
    groups = map(_inside, (*found.groups, found.total, found.outside_mlperf))
    blocks: list[Block] = [Table(heads, list(groups), "Rows inside their middle 80 % (P10 to P90)")]
    outside: list[Cells] = [
        (
            f"{each.row.group}, {each.row.name}",
            *map(figure, (each.row.published, each.low, each.high)),
            each.row.unit,
            share(each.beyond, "+.1%"),
        )
        for each in far_outside(found)
    ]
    if outside:
        heads = columns("row", ">published", ">P10", ">P90", "unit", ">beyond")
        blocks.append(Table(heads, outside, "Rows outside of their range, the furthest first"))
    if found.left_out:
        blocks.append(parts_table(found.left_out))
    low, high = TARGET
    should = f"{low:.0%} to {high:.0%} of the rows should be inside"
    notes = [
        f"{found.draws.count:,} draws, seed {found.draws.seed}; {should}",
        "beyond data and inputs: errors of more than twice what both leave open, which are errors of the model",
    ]
    if found.undrawn:
        notes.append(f"without any draw that is possible, and not counted: {', '.join(found.undrawn)}")
    return written([*blocks, *map(Passage, notes)], output_format)


def _inside(each: GroupShare) -> Cells:
    shares = (share(count / each.rows, ".0%") if each.rows else "" for count in (each.inside, each.inside_bare))
    return each.group, _count(each.rows), _count(each.inside), *shares, _count(each.beyond)


def parts_table(parts: Sequence[LeftOutPart], *, with_total: bool = True) -> Table:
    """Errors of each part that was left out, with those inside of ranges that the rest gives.

    Args:
        parts: The parts.
        with_total: Whether the last row has all of them together.
    """
    rows: list[Cells] = [
        (
            each.name,
            *map(_count, (len(each.rows), each.configurations)),
            share(each.sizes.bias, "+.1%"),
            *map(share, (each.sizes.mean, each.sizes.rms)),
            share(each.sizes.worst, "+.1%"),
            share(each.mean_now),
            Cell(f"{each.inside:.3g}", each.inside),
            share(each.inside / each.configurations, ".0%"),
        )
        for each in (*parts, *([together(parts)] if with_total else []))
    ]
    counts, errors = (">rows", ">configurations"), (">bias", ">mean error", ">RMS", ">worst", ">with them")
    note = (
        "with them: mean error with constants fitted to all calibration rows; inside: configurations inside of the"
        f" middle {SHARE * 100:.0f} % of what the rest says"
    )
    heads = columns("left out", *counts, *errors, ">inside", ">share")
    return Table(heads, rows, "Errors of times with constants fitted without the rows", [note])


def plain_parts(parts: Sequence[LeftOutPart]) -> list[dict[str, object]]:
    """The parts as plain data.

    Args:
        parts: What was left out.
    """
    return [
        {
            "left_out": each.name,
            "rows": len(each.rows),
            "configurations": each.configurations,
            "inside": each.inside,
            "bias": each.sizes.bias,
            "mean_error": each.sizes.mean,
            "rms": each.sizes.rms,
            "worst": each.sizes.worst,
            "mean_error_as_fitted": each.mean_now,
            "replaced": list(each.replaced),
        }
        for each in parts
    ]


def _plain_coverage(found: Coverage) -> dict[str, object]:
    return {
        "draws": found.draws.count,
        "seed": found.draws.seed,
        "target": list(TARGET),
        "left_out": plain_parts(found.left_out),
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


# Noise


def show_noisy(rows: Sequence[NoisyRow], seed: int, output_format: str) -> str:
    """How much weight updates differ as `table`, `markdown`, `json` or `csv`.

    Args:
        rows: Submissions.
        seed: What the seeds of the runs were made of.
        output_format: One of those.
    """
    if output_format == "json":
        return json.dumps({"runs": RUNS, "seed": seed, "rows": list(map(_plain_noisy, rows))}, indent=2) + "\n"
    heads = columns(*("submission", ">update", ">bare", ">noisy", ">blocks", ">noisy", ">factor", ">runs", ">noisy"))
    title = "How much weight updates of logged runs differ, and of runs with noise"
    return written([Table(heads, list(map(_noisy_cells, rows)), title, list(_noisy_notes(rows, seed)))], output_format)


def _noisy_cells(row: NoisyRow) -> Cells:
    name = f"{row.logged.scenario} *" if row.logged.role == CALIBRATION else row.logged.scenario
    times = (Cell(f"{1e3 * each:.1f}", each) for each in (row.logged.update_s, row.without_s, row.mean_s))
    blocks = (share(row.logged_blocks, ".2%"), share(row.blocks, ".2%"), Cell(f"{row.factor:.2f}", row.factor))
    return name, *times, *blocks, share(row.logged.between_runs, ".2%"), share(row.runs, ".2%")


def _noisy_notes(rows: Sequence[NoisyRow], seed: int) -> Iterator[str]:
    yield "update: mean [ms], logged, predicted without noise and with it"
    yield "blocks, runs: standard deviation over the mean, logged and with noise; a block is an epoch, or lies between"
    yield f"evaluations; {RUNS} runs of each, seed {seed}; * marks rows that constants of noise were fitted to"
    others = [row for row in rows if row.logged.role != CALIBRATION]
    if others:
        worst = max(others, key=lambda row: max(row.factor, 1 / row.factor))
        yield (
            f"blocks of {len(others)} other rows differ as predicted but for a factor of {mean_factor(others):.1f};"
            f" worst {worst.logged.scenario} with {worst.factor:.2f}"
        )


def _plain_noisy(row: NoisyRow) -> dict[str, object]:
    return {
        "scenario": row.logged.scenario,
        "role": row.logged.role,
        "machines": row.logged.machines,
        "weight_update_s": {"logged": row.logged.update_s, "without_noise": row.without_s, "with_noise": row.mean_s},
        "blocks_differ": {"logged": row.logged_blocks, "predicted": row.blocks},
        "runs_differ": {"logged": row.logged.between_runs, "predicted": row.runs},
    }
