"""Where `plan`, `compare`, `sweep` and `check` find what all commands share."""

from __future__ import annotations

from pathlib import Path

from podsim.cli.flags import ReportFile
from podsim.cli.outputs import check_paths, write_report

__all__ = ["ReportFile", "check_report", "write_report"]


def check_report(path: Path | None) -> None:
    """Refuse a page that cannot be written, before anything is read or simulated."""
    check_paths(None, report=path)
