"""Published figures by their ids, which are those of `reference_data/published_throughput.csv`."""

from __future__ import annotations

from podsim.report.reference_data import rows


def figure_row(identity: str) -> dict[str, str]:
    """The row of a published figure."""
    return next(row for row in rows("published_throughput") if row["id"] == identity)


def figure(identity: str) -> float:
    """A published figure in its own unit."""
    return float(figure_row(identity)["value"])
