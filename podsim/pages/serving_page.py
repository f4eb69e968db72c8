"""What a page says of serving: percentiles against load, and the queue over time."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.pages.parts import Section, Tile
from podsim.pages.rich_tables import blocks_of
from podsim.pages.tiles import tiles_of
from podsim.result.serving import ServingResult
from podsim.show.power_table import spent_rows
from podsim.show.run_charts import waterfall
from podsim.show.serving_charts import percentile_charts, queue_chart
from podsim.show.serving_table import serving_headline, serving_tables


def serving_tiles(result: ServingResult) -> list[Tile]:
    """The numbers that matter most."""
    tiles = [Tile(label, value, (remark,) if remark else ()) for label, value, remark in serving_headline(result)]
    return [*tiles, *tiles_of(result, spent_rows(result))]


def serving_sections(result: ServingResult) -> Iterator[Section]:
    """What requests see, how it changes with load, and what waits."""
    tables = [block for table in serving_tables(result, ascii_only=False)[1:2] for block in blocks_of(table)]
    yield Section("What requests see", [*tables, *percentile_charts(result)])
    yield Section("Queue", [queue_chart(result)])
    if result.decode:
        step = result.decode[0]
        yield Section("Where time goes", [waterfall("decode step of a full batch", step.breakdown, step.sources)])
