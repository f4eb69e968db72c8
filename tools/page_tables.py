"""Tables of guides that are written from the rows of `podsim validate`; `tools/update_readme.py` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podsim.format import format_significant
from podsim.report.table import Table, columns
from podsim.scenario import load_scenario
from podsim.show.markdown import to_markdown
from podsim.validation import RowComparison

_SCHNET = "schnet_qm9_bow_pod64"
_LOADERS = ("asynchronous", "synchronous", "synthetic")
_LARGEST = "asynchronous_64"  # the scenario itself


def epochs_table(comparisons: Sequence[RowComparison]) -> str:
    """Return seconds of an epoch of SchNet on QM9, predicted and published, by replicas and by kind of loader."""
    spec: Any = load_scenario(_SCHNET).spec
    graphs = spec.data.samples_per_epoch
    epochs: dict[tuple[int, str], tuple[str, str]] = {}
    for row in comparisons:
        name, _, variant = row.name.partition(": ")[2].partition("@")
        loader, _, replicas = (variant or _LARGEST).partition("_")
        if name == _SCHNET and loader in _LOADERS:
            epochs[int(replicas), loader] = _seconds(graphs / row.predicted), _seconds(graphs / row.published)
    counts = sorted({replicas for replicas, _ in epochs})
    cells = [(str(count), *(cell for loader in _LOADERS for cell in epochs[count, loader])) for count in counts]
    heads = columns(">replicas", *(f">{head}" for loader in _LOADERS for head in (loader, "published")))
    return to_markdown(Table(heads, cells, ""))


def _seconds(time_s: float) -> str:
    return format_significant(time_s, 3)
