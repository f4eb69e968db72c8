"""Writes what published rows cover, for the notice outside of it; `--check` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from podsim.report.envelope import FILE
from podsim.validation.envelope import covered

TARGET = Path(__file__).resolve().parent.parent / FILE


def main() -> int:
    """Write the file, or say that it is out of date."""
    text = json.dumps(covered(), indent=2, ensure_ascii=False) + "\n"
    moved = not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text
    if moved and "--check" in sys.argv[1:]:
        print(f"{FILE}: out of date; run `./dev docs`", file=sys.stderr)
        return 1
    if moved:
        TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
