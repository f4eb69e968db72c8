"""Dates as they are written: a year, a month or a day."""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from podsim.errors import BadValueError
from podsim.scenario.wording import shown

DATE_SCHEMA: Final = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"^\d{4}(-\d{2}){0,2}$"}]}
_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_LAST_MONTH: Final = 12


def date_text(raw: Any) -> Any:
    """A date as text, checked; a year may be a number.

    Raises:
        BadValueError: It is no date.
    """
    if raw is not None:
        last_day(raw)
    return None if raw is None else str(raw)


Day = Annotated[str, BeforeValidator(date_text), WithJsonSchema(DATE_SCHEMA)]


def last_day(written: object) -> date:
    """The last day that a date may stand for, so that nothing is called older than it surely is.

    Raises:
        BadValueError: It is no date.

    >>> last_day("2020"), last_day("2024-02"), last_day("2026-10-01")
    (datetime.date(2020, 12, 31), datetime.date(2024, 2, 29), datetime.date(2026, 10, 1))
    """
    match = None if isinstance(written, bool) else _DATE.fullmatch(str(written))
    try:
        year, month, day = (int(part) if part else None for part in match.groups()) if match else (0, None, None)
        month = month or _LAST_MONTH
        return date(year or 0, month, day or calendar.monthrange(year or 0, month)[1])
    except ValueError:
        what = f"{shown(written)} is not a date"
        raise BadValueError(what, "write for example `2026-10-01`, or a year alone") from None
