"""The model card and the accuracy of README: no number is typed by hand, and short tables add up to the long one."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from podsim.result.evidence import residuals
from podsim.validation import RowComparison
from podsim.validation.coverage import coverage
from tools.model_card import accuracy_in_short, blind_table, envelope_table, line_of
from tools.update_readme import ACCURACY, CARD, PAGE, RANGES, README, ROOT, renewed

LEFT_OUT_LINE = "each origin, with constants fitted to the others"
COUNTED = ("fits, or is refused: right", "averages of whole runs: an upper bound that is met")
"""Lines that say how many of their rows are right."""


def compared(group: str, predicted: float, published: float) -> RowComparison:
    """A row that nothing is fitted to."""
    return RowComparison(group, f"{predicted}", predicted, published, "s", "hold-out", "logs")


def test_bounds_and_refusals_are_counted_and_no_errors_in_per_cent() -> None:
    """Two of three are right each: 1 of 1 is, 0 of 1 is not; 4 and 2 are no less than 2, 1 is less."""
    fits = [compared("fits, or is refused", predicted, 1.0) for predicted in (1.0, 1.0, 0.0)]
    bounds = [compared("published averages of whole runs", predicted, 2.0) for predicted in (4.0, 2.0, 1.0)]
    alone = [compared("GEMM fp32", 1.1, 1.0), compared("Mk1 convolution in groups", 3.0, 1.0)]
    shown = {
        name: cells[:3] for name, *cells in rows(accuracy_in_short([*fits, *bounds, *alone], coverage(residuals())))
    }
    assert [shown[name] for name in COUNTED] == [["3", "2 of 3", ""]] * 2
    assert shown["measured alone: products, convolutions, transfers"] == ["1", "10.0 %", "+10.0 %"]
    assert shown["convolutions in groups on Mk1, SDK 1.0"] == ["1", "200.0 %", "+200.0 %"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(name: str, title: str) -> str:
    """What stands between the markers of a section."""
    return text_of(name).partition(f"<!-- {title}: begin -->")[2].partition(f"<!-- {title}: end -->")[0]


def rows(table: str) -> list[list[str]]:
    """Cells of the rows of a table below its ruler."""
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def percent(cell: str) -> float:
    return float(cell.removesuffix("%").strip())


def test_prose_of_the_card_has_no_numbers() -> None:
    """They stand in tables, which are generated and compared by `tools/update_readme.py --check`."""
    prose = re.sub(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", "", text_of(CARD), flags=re.DOTALL)
    prose = re.sub(r"\]\([^)]*\)|`[^`]*`", "", prose)
    assert len(prose) > 1000
    assert re.findall(r"\d+", prose) == []


def test_the_lines_of_readme_are_the_groups_of_the_page_taken_together() -> None:
    """A mean of means weighted by rows is the mean of all rows; the worst of all is the largest of the worst."""
    lines: dict[str, list[tuple[int, float, float]]] = {}
    for group, _, count, _, _, mean, _, worst, _ in (row for row in rows(section(PAGE, ACCURACY)) if row[1]):
        lines.setdefault(line_of(group), []).append((int(count), percent(mean), percent(worst)))
    shown = {name: cells for name, *cells in rows(section(README, ACCURACY))}
    for name in COUNTED:
        assert int(shown.pop(name)[0]) == sum(count for count, _, _ in lines.pop(name))
    short = {name: (int(count), percent(mean), percent(worst)) for name, (count, mean, worst, *_) in shown.items()}
    assert len(short.pop(LEFT_OUT_LINE)) == 3
    assert set(short) == set(lines)
    for name, (count, mean, worst) in short.items():
        parts = lines[name]
        assert count == sum(each for each, _, _ in parts), name
        assert mean == pytest.approx(sum(each * size for each, size, _ in parts) / count, abs=0.1), name
        assert worst == max((each for _, _, each in parts), key=abs), name


def test_the_last_line_of_readme_has_the_runs_of_the_page_of_ranges() -> None:
    (own,) = (cells for cells in rows(section(README, ACCURACY)) if cells[0] == LEFT_OUT_LINE)
    (whole,) = (cells for cells in rows(section(RANGES, "left out")) if cells[0] == "all")
    assert own[1] == whole[1]


def test_readme_and_the_card_say_the_same() -> None:
    assert section(README, ACCURACY) == section(CARD, ACCURACY)


def test_every_group_is_in_the_line_that_it_belongs_to() -> None:
    groups = {cells[0]: line_of(cells[0]).partition(":")[0] for cells in rows(section(PAGE, ACCURACY)) if cells[1]}
    assert groups["BERT time to train"] == groups["ResNet-50 throughput"] == "training in MLPerf"
    assert groups["published graph networks"] == "training elsewhere"
    assert groups["published effect of more IPUs"] == groups["ResNet-50 scaling"] == "effects of a change"
    assert groups["published averages of whole runs"] == "averages of whole runs"
    assert groups["fits, or is refused"] == "fits, or is refused"
    assert groups["Mk1 convolution in groups"] == "convolutions in groups on Mk1, SDK 1.0"
    assert groups["GEMM fp32"] == groups["Mk1 transfer"] == "measured alone"


@pytest.mark.parametrize("version", ["0.1.0", "0.6.0", "0.11.0"])
def test_blind_errors_are_those_of_the_rows_that_were_kept(version: str) -> None:
    with Path(ROOT / "reference_data/blind_predictions.csv").open(encoding="utf-8", newline="") as opened:
        kept = [row for row in csv.DictReader(opened) if row["version"] == version]
    sizes = [abs(float(row["predicted"]) / float(row["measured"]) - 1) * 100 for row in kept]
    (cells,) = (cells for cells in rows(blind_table()) if cells[0] == version)
    assert int(cells[1]) == len(kept)
    assert percent(cells[3]) == pytest.approx(sum(sizes) / len(sizes), abs=0.1)
    assert abs(percent(cells[4])) == pytest.approx(max(sizes), abs=0.1)


def test_cheap_tables_of_the_card_are_fresh() -> None:
    text = text_of(CARD)
    assert renewed(text, "envelope", envelope_table()) == text
    assert renewed(text, "blind", blind_table()) == text


def test_readme_is_short() -> None:
    assert len(text_of(README).split()) <= 900
