"""What a result stands on, for a person at a terminal: the inputs that move it most, and how far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Group
from rich.text import Text

from podsim.metrics import metric_of
from podsim.show.tables import plain_table, titled

_MOST: Final = 8
_KEY_WIDTH: Final = 36
_LEAST_SHOWN: Final = 0.0005
_UNKNOWN: Final = "not measured"
_IMPOSSIBLE: Final = "impossible"


def assumption_table(assumptions: Sequence[Mapping[str, object]]) -> Group | None:
    """The assumptions that move the headline of the result, the most influential first."""
    if not assumptions:
        return None
    counts = Counter(str(each.get("basis", "")) for each in assumptions)
    title = f"Stands on {', '.join(f'{count} {basis}' for basis, count in counts.items())} inputs"
    moving = [each for each in assumptions if _influence(each)]
    table = plain_table("input", "value", "basis", f">{moved_figure(assumptions)}")
    for each in moving[:_MOST]:
        cells = (_broken(str(each["key"])), str(each["value"]), str(each["basis"]), _influence(each))
        table.add_row(*map(Text, cells))
    return titled(title, table, *_lines(assumptions, moving))


def moved_figure(assumptions: Sequence[Mapping[str, object]]) -> str:
    """The headline by which influences are measured, in words."""
    names = [str(found["metric"]) for each in assumptions if isinstance(found := each.get("influence"), Mapping)]
    return metric_of(names[0]).head if names else "influence"


def _influence(assumption: Mapping[str, object]) -> str:
    """How far it moves the headline within its range; empty if it moves other figures alone."""
    influence = assumption.get("influence")
    if not isinstance(influence, Mapping):
        return _UNKNOWN
    ends = [influence["low"], influence["high"]]
    known = sorted(end for end in ends if end is not None)
    texts = [f"{end:+.1%}".replace("%", " %") if abs(end) >= _LEAST_SHOWN else "0" for end in known]
    texts += [_IMPOSSIBLE] * ends.count(None)
    return "" if set(texts) == {"0"} else " to ".join(texts)


def _broken(key: str) -> str:
    """A long key on two lines, cut behind a dot."""
    cut = key.rfind(".", 0, _KEY_WIDTH) + 1
    return key if len(key) <= _KEY_WIDTH or not cut else f"{key[:cut]}\n{key[cut:]}"


def _lines(assumptions: Sequence[Mapping[str, object]], moving: Sequence[Mapping[str, object]]) -> list[str]:
    """Lines about what the table leaves out."""
    lines = ["at the ends of its range, or a tenth either way; products keep their splits"]
    if any(_influence(each) == _UNKNOWN for each in moving):
        lines.append("not measured: what needs new splits of every product; `--influence` measures it")
    if (more := len(moving) - _MOST) > 0:
        lines.append(f"and {more} more; `--format json` lists them all")
    if (others := len(assumptions) - len(moving)) > 0:
        verb = "moves" if others == 1 else "move"
        lines.append(f"{others} of them {verb} {moved_figure(assumptions)} by less than 0.05 %, or other figures alone")
    return lines
