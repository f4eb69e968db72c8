"""How much a run differs from one time to the next, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group
from rich.text import Text

from podsim.draws import Noisy
from podsim.format import format_count, format_duration_s, format_error
from podsim.show.tables import plain_table, titled

_DIGITS = 4


def noise_table(found: Noisy | None) -> Group | None:
    """Percentiles over the runs with noise."""
    if found is None:
        return None
    table = plain_table("", ">P10", ">P50", ">P90", ">P10 to P90")
    for label, values in _rows(found):
        low, middle, high = (values[each] for each in ("p10", "p50", "p90"))
        width = " to ".join(format_error(each / middle - 1) for each in (low, high))
        cells = (format_duration_s(each, _DIGITS) for each in (low, middle, high))
        table.add_row(*map(Text, (label, *cells, width)))
    runs = "1 run" if found.seeds == 1 else f"{format_count(found.seeds)} runs"
    return titled(f"Noise: {runs}, seed {found.seed}", table, *_lines(found))


def _rows(found: Noisy) -> Iterator[tuple[str, Mapping[str, float]]]:
    yield "weight update", found.weight_update_s
    if found.epoch_s:
        yield "epoch, its weight updates", found.epoch_s
    if found.time_to_train_s:
        yield "time to train", found.time_to_train_s


def _lines(found: Noisy) -> Iterator[str]:
    yield f"weight updates of a run differ by {format_duration_s(found.jitter_s)} (standard deviation)"
    longer = (
        f"{format_duration_s(abs(found.longer_s), 2)} {'less' if found.longer_s < 0 else 'more'} than without noise"
    )
    yield f"they take {format_duration_s(found.mean_weight_update_s, _DIGITS)} on average, {longer}"
    if found.waiting_s:
        yield f"waiting for the slowest machine: {format_duration_s(found.waiting_s, 2)} per update"
    if found.run_updates:
        count = format_count(found.run_updates)
        yield f"each run has {count} weight updates, counting evaluations in the training program"
    if found.simulated_updates < (found.run_updates or 0):
        simulated = format_count(found.simulated_updates)
        yield f"of each run {simulated} were simulated, and the rest drawn from those of all runs"
