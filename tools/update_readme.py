"""Rewrites the accuracy tables of README.md from the validation; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from podsim.show.table import to_markdown
from podsim.validation import Comparison, validate
from podsim.validation.reference_data import HOLD_OUT
from podsim.validation.show import summary_table

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- accuracy: begin -->\n", "<!-- accuracy: end -->"


def accuracy(comparisons: tuple[Comparison, ...]) -> str:
    """The summary of the rows that nothing is fitted to."""
    return to_markdown(summary_table([row for row in comparisons if row.role == HOLD_OUT], title=""))


def renewed(text: str, table: str) -> str:
    """The text with what stands between the markers replaced."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table}\n{END}{tail}"


def main() -> int:
    """Write README.md, or say that it is out of date."""
    old = README.read_text(encoding="utf-8")
    new = renewed(old, accuracy(validate()))
    if "--check" in sys.argv[1:]:
        if new != old:
            print("README.md: the accuracy tables are out of date; run `./dev docs`", file=sys.stderr)
        return int(new != old)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
