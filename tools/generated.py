"""Files that tools write, or with `--check` only compare."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def renewed(made: Mapping[Path, str]) -> int:
    """Write what is not as it was made, or with `--check` name it."""
    moved = [path for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in moved:
            print(f"{path.relative_to(ROOT).as_posix()}: out of date; run `./dev docs`", file=sys.stderr)
        return int(bool(moved))
    for path in moved:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[path], encoding="utf-8")
    return 0
