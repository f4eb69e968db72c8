"""Known gaps: published runs that took longer, or less long, than podsim predicts, with the cause as far as known.

`reference_data/known_gaps.csv` has the runs and the features of other runs with the same gap. Sizes of gaps follow from
`reference_data/residuals.json`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from podsim.result.evidence import dimensions_of, features_of, residuals
from podsim.result.reference_data import rows

_CONDITION: Final = re.compile(r"(\w+)(>=|<=|=)(\S+)")
_MOST_NAMED: Final = 4
_COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Gap:
    """Published runs with errors that have, as far as it is known, one cause."""

    name: str
    where: str  # features of the runs that have the gap, for example `family=vit ipu_count>=17`
    rows: tuple[str, ...]  # names of the published runs
    cause: str

    def applies_to(self, names: Mapping[str, str], sizes: Mapping[str, float]) -> bool:
        """Return True if a run with these features has the gap."""
        for key, sign, value in _CONDITION.findall(self.where):
            if key in sizes:
                if not _COMPARED[sign](sizes[key], float(value)):
                    return False
            elif names.get(key) != value:
                return False
        return True

    def excesses(self) -> tuple[float, ...]:
        """Return measured time over predicted time, less 1, of each row; constants are fitted without its origin."""
        return tuple(math.expm1(-run.error) for run in residuals().runs if run.row in self.rows)

    @property
    def size(self) -> str:
        """Least and largest excess, for example `+5% to +6%`."""
        return " to ".join(dict.fromkeys(f"{end:+.0%}" for end in (min(self.excesses()), max(self.excesses()))))

    def text(self) -> str:
        """Return the gap as a line for a reader."""
        rows = f"{self.rows[0]} to {self.rows[-1]}" if len(self.rows) > _MOST_NAMED else ", ".join(self.rows)
        off = f"published times differ by {self.size} from predictions ({rows})"
        return f"known gap: {self.name}: {off}; cause: {self.cause}"


@lru_cache
def known_gaps() -> tuple[Gap, ...]:
    """Return all known gaps."""
    return tuple(Gap(row["name"], row["where"], tuple(row["rows"].split()), row["cause"]) for row in rows("known_gaps"))


def gaps_of(spec: Any) -> Iterator[str]:
    """Yield the text of each known gap of a scenario."""
    names, sizes = features_of(spec), dimensions_of(spec)
    yield from (gap.text() for gap in known_gaps() if gap.applies_to(names, sizes))
