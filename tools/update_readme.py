"""Rewrites the accuracy tables of README.md from the validation; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from podsim.validation import Comparison, validate
from podsim.validation.show import markdown_summary

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- accuracy: begin -->\n", "<!-- accuracy: end -->"
_ROWS = ("BERT weight update", "ResNet-50 weight update")


def accuracy(comparisons: tuple[Comparison, ...]) -> str:
    """The summary of all comparisons, then every weight update that was predicted before it was known."""
    lines = ["| MLPerf submission | predicted blind | predicted now | measured | error now |", "|---|--:|--:|--:|--:|"]
    for c in comparisons:
        if c.group in _ROWS and c.blind is not None:
            times = " | ".join(f"{time:,.1f} ms" for time in (c.blind, c.predicted, c.published))
            lines.append(f"| {c.name.replace('_', ' ')} | {times} | {c.error:+.1%} |")
    return markdown_summary(comparisons) + "\n" + "\n".join(lines) + "\n"


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
