"""How sure a result is, for a person at a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from podsim.draws import Uncertainty
from podsim.format import format_duration_s, format_error, format_significant
from podsim.metrics import SECONDS, metric_of
from podsim.show.tables import plain_table, titled


def uncertainty_table(found: Uncertainty | None) -> Group | None:
    """Percentiles of each metric over the draws; the width is that of the middle 80 %."""
    if found is None:
        return None
    table = plain_table("metric", ">P10", ">P50", ">P90", ">P10 to P90")
    for name, values in found.metrics.items():
        metric = metric_of(name)
        low, middle, high = (values[each] for each in ("p10", "p50", "p90"))
        width = " to ".join(format_error(each / middle - 1) for each in (low, high))
        cells = (
            metric.head,
            *map(format_duration_s if metric.unit == SECONDS else format_significant, (low, middle, high)),
            width,
        )
        table.add_row(*map(Text, cells))
    title = f"How sure: {found.draws:,} draws of {len(found.drawn)} inputs, seed {found.seed}"
    return titled(title, table, *_lines(found))


def _lines(found: Uncertainty) -> list[str]:
    inputs = "inputs lie anywhere in their ranges, most often near their values"
    if found.model_scatter is None:
        lines = [f"{inputs}; the model itself may be wrong, too"]
    else:
        form = f"model form: one factor on all times of a draw, {found.model_scatter:.1%} (one standard deviation)"
        lines = [inputs, form]
    if found.impossible:
        lines.append(f"{found.impossible:,} draws had no run that is possible")
    return lines
