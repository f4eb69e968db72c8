"""Charts in the language of Vega-Lite that pages of several kinds have in common.

Fields have short names of their own, since names of keys may hold dots, which that language takes for something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from podsim.pages.parts import Spec
from podsim.pages.patterns import colour_of, is_light

_ROW_PIXELS: Final = 27
_CHARACTER_PIXELS: Final = 7.5
_INK, _PAPER = "#1a1a1a", "#ffffff"
_RIGHT_HALF: Final = 0.62
_TEXT: Final = {"type": "text", "fontSize": 12, "baseline": "middle", "strokeWidth": 3.5, "strokeJoin": "round"}
"""The stroke is a halo in the colour of what is behind, so that a pattern does not make text hard to read."""


@dataclass(frozen=True, slots=True)
class Span:
    """A bar from one number to another.

    Attributes:
        row: The line it is drawn on.
        start: Where it begins, in the unit of the axis.
        end: Where it ends.
        fill: What it is filled with.
        text: What is written at it.
        inside: Whether that is written on it, if it is wide enough, or beside it.
        tip: What is shown when it is pointed at.
    """

    row: str
    start: float
    end: float
    fill: str
    text: str = ""
    inside: bool = False
    tip: Mapping[str, str] = field(default_factory=dict)


def spans_chart(
    spans: Sequence[Span], axis: str, domain: tuple[float, float], marks: Mapping[str, float] | None = None
) -> Spec:
    """Horizontal bars from one number to another.

    Args:
        spans: The bars; rows are drawn in the order in which they appear, all with the same tips.
        axis: Title of the axis of numbers, with its unit.
        domain: Ends of that axis.
        marks: Upright lines with what they mean.
    """
    rows = list(dict.fromkeys(each.row for each in spans))
    tips = list(dict.fromkeys(tip for each in spans for tip in each.tip))
    scale = {"domain": list(domain), "nice": False, "zero": False}
    y = {"field": "row", "type": "nominal", "sort": rows, "axis": {"title": None, "domain": False, "ticks": False}}
    x = {"field": "start", "type": "quantitative", "scale": scale, "axis": {"title": axis, "tickCount": 5}}
    bar = {
        "mark": {"type": "bar", "height": {"band": 0.8}, "clip": True},
        "encoding": {
            "x": x,
            "x2": {"field": "end"},
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "tooltip": [{"field": f"t{number}", "title": tip} for number, tip in enumerate(tips)],
        },
    }
    sides = {_side(each, domain) for each in spans}
    texts = [_text(side, domain) for side in ("inside", "left", "right") if side in sides]
    return {
        "width": "container",
        "height": _ROW_PIXELS * len(rows),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": [_span(each, tips, domain) for each in spans]},
        "encoding": {"y": y},
        "layer": [bar, *texts, *(_mark(name, at) for name, at in (marks or {}).items())],
    }


def _span(span: Span, tips: Sequence[str], domain: tuple[float, float]) -> dict[str, Any]:
    low, high = sorted((span.start, span.end))
    side = _side(span, domain)
    values = {"row": span.row, "start": span.start, "end": span.end, "fill": span.fill}
    if side:
        at = {"inside": (low + high) / 2, "left": max(low, domain[0]), "right": min(high, domain[1])}[side]
        behind = colour_of(span.fill) if side == "inside" else _PAPER
        values |= {"at": at, "text": span.text, "side": side, "behind": behind}
        values |= {"ink": _INK if is_light(behind) else _PAPER}
    return values | {f"t{number}": span.tip.get(tip, "") for number, tip in enumerate(tips)}


def _side(span: Span, domain: tuple[float, float]) -> str:
    """Where the text of a bar is: on it, or on the side of it where there is room."""
    whole = (domain[1] - domain[0]) or 1.0
    low, high = ((end - domain[0]) / whole for end in sorted((span.start, span.end)))
    if not span.text:
        return ""
    if span.inside or (high > _RIGHT_HALF and low < 1 - _RIGHT_HALF):
        return "inside"
    return "left" if high > _RIGHT_HALF else "right"


def _text(side: str, domain: tuple[float, float]) -> Spec:
    """The texts on one side of their bars; on bars, those that are short enough."""
    align, shift = {"inside": ("center", 0), "left": ("right", -5), "right": ("left", 5)}[side]
    filtered = f"datum.side === '{side}'"
    if side == "inside":
        pixels = f"abs(datum.end - datum.start) / {domain[1] - domain[0]!r} * width"
        filtered += f" && {pixels} > {_CHARACTER_PIXELS} * length(datum.text)"
    encoding = {"x": {"field": "at", "type": "quantitative"}, "text": {"field": "text"}} | {
        channel: {"field": name, "type": "nominal", "scale": None}
        for channel, name in (("fill", "ink"), ("stroke", "behind"))
    }
    mark = {**_TEXT, "align": align, "dx": shift}
    return {"transform": [{"filter": filtered}], "mark": mark, "encoding": encoding}


def _mark(name: str, at: float) -> Spec:
    return {
        "data": {"values": [{"at": at, "name": name}]},
        "mark": {"type": "rule", "stroke": "#1a1a1a", "strokeDash": [5, 3], "strokeWidth": 1.5},
        "encoding": {"x": {"field": "at", "type": "quantitative"}, "y": {"value": 0}, "y2": {"value": "height"}}
        | {"tooltip": {"field": "name"}},
    }
