"""Writes the errors of left-out runs and what scatter follows from them; `--check` derives the scatter alone again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from podsim.result.scatter import FILE
from podsim.validation.compare import validate
from podsim.validation.left_out import LeftOut, as_plain, committed_values, points_of, products_of, shipped

TARGET = Path(__file__).resolve().parent.parent / FILE


def main() -> int:
    """Write the file, which takes minutes, or say that its table does not follow from its rows."""
    if "--check" in sys.argv[1:]:
        if as_plain(shipped())["table"] == json.loads(TARGET.read_text(encoding="utf-8"))["table"]:
            return 0
        print(f"{FILE}: out of date; run `python tools/make_scatter.py`", file=sys.stderr)
        return 1
    rows = validate()
    points = LeftOut(points_of(rows, list), committed_values(), products_of(rows))
    write(points)
    write(shipped())  # whose table follows from rows with as many digits as the file has
    return 0


def write(points: LeftOut) -> None:
    """Write the rows and what follows from them."""
    TARGET.write_text(json.dumps(as_plain(points), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
