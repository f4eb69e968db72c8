"""Keys and figures as a chart names them, in units that keep numbers short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podsim.format import format_bytes, format_figure, format_significant
from podsim.metrics import BYTES, JOULES, PER_SECOND, SECONDS, WATTS, find_metric, metric_of
from podsim.study.sweep.axes import NUMBER_AND_UNIT
from podsim.study.sweep.expression import number_of

_TIMES: Final = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"), (1.0, 1.0, "s"), (1e-3, 1e-3, "ms"), (0.0, 1e-6, "µs"))
_SIZES: Final = ((2.0**30, 2.0**30, "GiB"), (0.0, 2.0**20, "MiB"))
_THOUSANDS_FROM: Final = 1e5
_SHORT: Final = {"ipu": "IPU", "ipus": "IPUs", "gw": "GW", "mfu": "MFU", "llama": "LLaMa"}
_PARTS_SHOWN: Final = 2
_DIGITS: Final = 4
_LEAST, _MOST = 1e-7, 1e15
"""Numbers that are written out; others are rare, and shorter with a power of ten."""
_MOST_LISTED: Final = 6


@dataclass(frozen=True, slots=True)
class AxisFigure:
    """A figure on an axis, with the unit of its numbers and what they are divided by for it."""

    name: str
    unit: str = ""
    divisor: float = 1.0

    @property
    def label(self) -> str:
        """Name and unit."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


def quantity(metric: str, most: float) -> AxisFigure:
    """How a figure is shown whose largest value is given.

    >>> quantity("time_to_train_s", 1200.0)
    AxisFigure(name='time to train', unit='min', divisor=60.0)
    >>> quantity("throughput_samples_per_s", 250_000.0).label
    'throughput [1,000 samples/s]'
    """
    known = find_metric(metric)
    if known is None:
        return AxisFigure(words(metric))
    if known.unit == PER_SECOND:
        large = most >= _THOUSANDS_FROM
        name = "rate" if known.label == known.counted else known.label
        return AxisFigure(name, f"{'1,000 ' * large}{known.counted}/s", 1000.0 if large else 1.0)
    if known.unit in (SECONDS, BYTES):
        choices = _TIMES if known.unit == SECONDS else _SIZES
        divisor, shown = next((size, text) for least, size, text in choices if most >= least)
        return AxisFigure(known.label, shown, divisor)
    return AxisFigure(known.label, known.unit if known.unit in (WATTS, JOULES) else "")


def told(metric: str, value: float) -> str:
    """A figure with its unit, as all commands write it.

    >>> told("throughput_samples_per_s", 250_000.0), told("time_to_train_s", 90.0), told("mfu", 0.153)
    ('250,000 samples/s', '90 s', '15.3 %')
    """
    known = metric_of(metric)
    if known.unit == BYTES:
        return format_bytes(value)
    return f"{format_figure(known, value)} {f'{known.counted}/s' * (known.unit == PER_SECOND)}".rstrip()


def listed(texts: Sequence[str]) -> str:
    """Texts in a sentence, the middle of many left out.

    >>> listed(["a", "b", "c"]), listed([str(each) for each in range(10)])
    ('a, b and c', '0 to 9, 10 values')
    """
    if len(texts) > _MOST_LISTED:
        return f"{texts[0]} to {texts[-1]}, {len(texts):,} values"
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]


def words(name: str) -> str:
    """A key or figure without underscores, by its last parts.

    >>> words("system.machine.ipu_link.bandwidth_per_direction"), words("parallelism.replication_factor")
    ('IPU link: bandwidth per direction', 'replication factor')
    """
    parts = name.split(".")
    kept = parts[-_PARTS_SHOWN:] if len(parts) > _PARTS_SHOWN else parts[-1:]
    return ": ".join(" ".join(_SHORT.get(each, each) for each in part.split("_")) for part in kept)


def numbers_and_unit(values: Iterable[Any]) -> tuple[list[float], str] | None:
    """Numbers of values in the unit that they share, or in the base unit; None if some are words.

    >>> numbers_and_unit(["8 GB/s", "12.5 GB/s"]), numbers_and_unit([4, 16]), numbers_and_unit(["a", 2])
    (([8.0, 12.5], 'GB/s'), ([4.0, 16.0], ''), None)
    """
    given = list(values)
    matches = [NUMBER_AND_UNIT.fullmatch(each) if isinstance(each, str) else None for each in given]
    units = {(match[2] or "").strip() if match else "" for match in matches}
    if all(matches) and len(units) == 1:
        return [float(match[1]) for match in matches if match], units.pop()
    numbers = [number_of(each) for each in given]
    if any(isinstance(each, bool) or not isinstance(each, (int, float)) for each in numbers):
        return None
    return [float(each) for each in numbers], ""


def short(value: object) -> str:
    """A value with few digits, nothing as a dash.

    >>> short(1 / 3), short("5.44331 GB/s"), short("bert_v2.0_pod64"), short(None)
    ('0.3333', '5.443 GB/s', 'bert_v2.0_pod64', '–')
    >>> short(13020.4), short(0.00002), short("13021.5 GB/s")
    ('13,020', '0.00002', '13,022 GB/s')
    """
    if value is None or value != value:  # not a number
        return "–"
    if isinstance(value, float):
        return format_significant(value, _DIGITS) if _LEAST <= abs(value) < _MOST or not value else f"{value:.4g}"
    match = NUMBER_AND_UNIT.fullmatch(str(value))
    return f"{short(float(match[1]))} {match[2] or ''}".rstrip() if match else str(value)
