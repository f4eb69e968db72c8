"""What of the comparisons with published figures is shown, and whether the errors are within limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from podsim.command_line.running import echo
from podsim.errors import PodsimError


class ValidationFormat(StrEnum):
    """How comparisons are printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Role(StrEnum):
    """What a row is used for."""

    CALIBRATION = "calibration"
    HOLD_OUT = "hold_out"

    @property
    def as_written(self) -> str:
        """As the tables have it."""
        return self.value.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the comparisons.

    Attributes:
        output_format: How they are printed.
        role: Only rows of this role.
        groups: Only groups whose name holds one of these texts.
        summary_only: Whether rows are left out.
        max_mean: Limit on the mean of the sizes of the errors. [%]
        max_worst: Limit on the size of the largest error. [%]
    """

    output_format: ValidationFormat
    role: Role | None = None
    groups: Sequence[str] = ()
    summary_only: bool = False
    max_mean: float | None = None
    max_worst: float | None = None


_PERCENT = 100


def _checked(option: str, percent: float | None) -> float | None:
    """A limit as a share; what is no number cannot be kept or broken."""
    if percent is None:
        return None
    if not 0 <= percent < math.inf:
        raise PodsimError(f"`{percent}` is no percentage", where=option, do=f"write `{option} 5` for 5 %")
    return percent / _PERCENT


def validate_as_asked(asked: Asked) -> bool:
    """Compare, print, and tell whether all limits are kept.

    Raises:
        PodsimError: No row is left to look at, or a limit is no number.
    """
    limits = _checked("--max-mean", asked.max_mean), _checked("--max-worst", asked.max_worst)
    from podsim.report.progress import track
    from podsim.validation.compare import validation
    from podsim.validation.limits import verdicts_on
    from podsim.validation.sensitivity import sensitivity
    from podsim.validation.show import show

    everything = validation(lambda names: track(names, "simulating"))
    found = everything.only(asked.role and asked.role.as_written, asked.groups)
    if not found.comparisons:
        groups = ", ".join(dict.fromkeys(row.group for row in everything.comparisons))
        raise PodsimError(
            "no row with a prediction is left", do=f"leave `--role` out, or `--group` with part of: {groups}"
        )
    verdicts = verdicts_on(found.comparisons, *limits)
    is_whole = found == everything and not asked.summary_only
    sensitivities = sensitivity() if is_whole else ()
    text = show(found, asked.output_format.value, sensitivities, verdicts, summary_only=asked.summary_only)
    echo(text, asked.output_format is not ValidationFormat.TABLE)
    return all(verdict.is_kept for verdict in verdicts)
