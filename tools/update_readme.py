"""Rewrites tables of accuracy: in README.md, on their own page, on the model card; `--check` only compares."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from podsim.result.evidence import residuals
from podsim.show.markdown import to_markdown
from podsim.validation import RowComparison, validate
from podsim.validation.coverage import coverage
from podsim.validation.reference_data import HOLD_OUT
from podsim.validation.show import coverage_table, summary_table
from tools.model_card import accuracy_in_short, blind_table, envelope_table, faults_table, fitted_table, gaps_table
from tools.page_tables import epochs_table

ROOT = Path(__file__).resolve().parent.parent
README, PAGE, CARD = "README.md", "docs/background/accuracy.md", "docs/model-card.md"
ACCURACY, LEFT_OUT = "accuracy", "left out"
GAPS = "docs/background/weak-spots.md"
RANGES = "docs/background/ranges.md"
GRAPHS = "docs/guides/graph-networks.md"


def accuracy(comparisons: tuple[RowComparison, ...]) -> str:
    """Return the summary of the rows without fitted constants."""
    return to_markdown(summary_table([row for row in comparisons if row.role == HOLD_OUT], title=""))


def renewed(text: str, section: str, table: str) -> str:
    """Replace the text between the markers of a section."""
    begin, end = f"<!-- {section}: begin -->\n", f"<!-- {section}: end -->"
    head, found, rest = text.partition(begin)
    _, ended, tail = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"no section between `{begin.strip()}` and `{end}`")
    return f"{head}{begin}\n{table}\n{end}{tail}"


def generated_texts() -> tuple[tuple[str, str, str], ...]:
    """Return file, section and text of everything to write."""
    ranges, comparisons = coverage(residuals()), validate()
    in_short = accuracy_in_short(comparisons, ranges)
    return (
        (README, ACCURACY, in_short),
        (PAGE, ACCURACY, accuracy(comparisons)),
        (RANGES, LEFT_OUT, to_markdown(replace(coverage_table(ranges), title="", notes=[]))),
        (CARD, ACCURACY, in_short),
        (CARD, "envelope", envelope_table()),
        (CARD, "faults", faults_table(comparisons)),
        (CARD, "fitted", fitted_table(comparisons)),
        (CARD, "blind", blind_table()),
        (GAPS, "gaps", gaps_table()),
        (GRAPHS, "epochs", epochs_table(comparisons)),
    )


def main() -> int:
    """Write the files, or say that one is out of date."""
    sections = generated_texts()
    is_old = False
    for name, section, table in sections:
        old = (ROOT / name).read_text(encoding="utf-8")
        new = renewed(old, section, table)
        if "--check" not in sys.argv[1:]:
            (ROOT / name).write_text(new, encoding="utf-8")
        elif new != old:
            print(f"{name}: the tables of `{section}` are out of date; run `./dev docs`", file=sys.stderr)
            is_old = True
    return int(is_old)


if __name__ == "__main__":
    sys.exit(main())
