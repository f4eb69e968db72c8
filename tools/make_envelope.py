"""Writes what published rows cover, for the notice outside of it; `--check` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from podsim.report.envelope import FILE
from podsim.validation.envelope import covered

WIDTH = 110
TARGET = Path(__file__).resolve().parent.parent / FILE


def written(value: object, depth: int = 0) -> str:
    """JSON in which what is short stands on one line.

    >>> written({"a": [1, 2], "b": {}})
    '{"a": [1, 2], "b": {}}'
    """
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + 2 * depth <= WIDTH or not isinstance(value, (dict, list)):
        return line
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        parts = [written(each, depth + 1) for each in value]
    else:
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {written(each, depth + 1)}" for key, each in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return opening + "\n" + ",\n".join(f"{inner}{part}" for part in parts) + f"\n{outer}{closing}"


def main() -> int:
    """Write the file, or say that it is out of date."""
    text = f"{written(covered())}\n"
    moved = not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text
    if moved and "--check" in sys.argv[1:]:
        print(f"{FILE}: out of date; run `./dev docs`", file=sys.stderr)
        return 1
    if moved:
        TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
