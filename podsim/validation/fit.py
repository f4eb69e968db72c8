"""A constant that has been fitted again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fit:
    """A refitted constant.

    Attributes:
        key: Its key path.
        committed: The value in the specification.
        fitted: The value that fits best.
        unit: Unit of both.
        rows: What it was fitted to.
        standard_error: Of the fitted value; None where there are as many constants as rows.
    """

    key: str
    committed: float
    fitted: float
    unit: str
    rows: str
    standard_error: float | None = None
