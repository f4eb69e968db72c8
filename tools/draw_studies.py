"""Draws the charts of the shipped studies that the documentation shows: `python tools/draw_studies.py`.

They are not compared in CI: pixels depend on the versions of fonts and libraries. The numbers in them are checked
where a page runs its study.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

import podsim
from podsim.show.matplotlib_charts import write_sheet
from podsim.study.sweep import sheet_of

PAGES = Path(__file__).resolve().parent.parent / "docs" / "studies"
COLOURS = 64
WIDTH = 1100
CHARTS: dict[str, str | None] = {
    "clock_links_replicas": None,
    "bert_scaling": None,
    "resnet50_scaling": None,
    "hosts_per_pod": None,
    "gw_links": "mfu",
    "memory_or_recomputation": None,
    "llama2_7b_scaling": "mfu",
}
"""Studies to draw, and the metric of each chart."""


def draw(name: str, metric: str | None, folder: Path) -> None:
    """Simulate a study and keep its chart as a small picture."""
    swept = podsim.sweep(name, folder / f"{name}.parquet")
    large = folder / f"{name}.png"
    write_sheet(lambda: sheet_of(swept, swept.report(metric)), large, swept.inputs)
    with Image.open(large) as picture:
        small = picture.convert("RGB").resize(
            (WIDTH, WIDTH * picture.height // picture.width), Image.Resampling.LANCZOS
        )
        small.quantize(COLOURS).save(PAGES / f"{name}.png", optimize=True)
    print(f"drew {name}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for study, figure in CHARTS.items():
            draw(study, figure, Path(place))
