"""Charts in the language of Vega-Lite, for pages.

Fields have short names of their own, since names of keys may hold dots, which that language takes for something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from podsim.report.chart import (
    COLOURS,
    INK,
    LEFT_OUT,
    NO_FIGURE,
    PAPER,
    Axis,
    Bars,
    Chart,
    Curves,
    Fill,
    Mark,
    Shape,
    Study,
    TimelineChart,
    WayOver,
)

Spec = dict[str, Any]
"""A chart in the language of Vega-Lite."""

_ROW_PIXELS: Final = 27
_TIMELINE_ROW_PIXELS: Final = 30
_CELL_PIXELS: Final = 34
_HEIGHT: Final = 320
_LOW_HEIGHT: Final = 220
_CHARACTER_PIXELS: Final = 7.5
_TEXT: Final = {"type": "text", "fontSize": 12, "baseline": "middle"}
_DASHES: Final = ([5, 3], [1, 2])
_DOTTED: Final = (Mark.LINE, Mark.POINTS)
_MOST_TEXTS: Final = 150
_TEXT_PIXELS: Final = 42
_MOST_TICKS: Final = 9
_LIGHT_FROM: Final = 0.6
_KNOWN: Final = {"filter": "isValid(datum.figure)"}
_PATTERN: Final = re.compile(r"url\(#([a-z]+)-([0-9a-f]{6})\)")
_SHAPES: Final = {
    Shape.RISING: '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4" {pen}/>',
    Shape.FALLING: '<path d="M-2 6l4 4M0 0l8 8M6-2l4 4" {pen}/>',
    Shape.DOTS: '<circle cx="2" cy="2" r="1.3" {ink}/><circle cx="6" cy="6" r="1.3" {ink}/>',
    Shape.LINES: '<path d="M0 2h8M0 6h8" {pen}/>',
    Shape.CROSSED: '<path d="M0 0l8 8M0 8l8-8" {pen}/>',
}


def definitions(drawn: str) -> str:
    """The patterns that a text of HTML or Vega paints with, as SVG."""
    fills = {Fill(f"#{colour}", Shape(shape)) for shape, colour in _PATTERN.findall(drawn)}
    return "".join(_pattern(fill) for fill in sorted(fills))


def _pattern(fill: Fill) -> str:
    ink = "#000" if fill.ink == INK else "#fff"
    pen = f'stroke="{ink}" stroke-opacity=".38" stroke-width="1.2"'
    strokes = _SHAPES[fill.shape].format(pen=pen, ink=f'fill="{ink}" fill-opacity=".5"')
    size, name = 'width="8" height="8"', paint(fill)[5:-1]
    ground = f'<rect {size} fill="{fill.colour}"/>'
    return f'<pattern id="{name}" {size} patternUnits="userSpaceOnUse">{ground}{strokes}</pattern>'


def paint(fill: Fill) -> str:
    """A fill as SVG names it: a colour, or a pattern of `definitions`.

    >>> paint(Fill("#08306b")), paint(Fill("#e6750f", Shape.RISING))
    ('#08306b', 'url(#rising-e6750f)')
    """
    return fill.colour if fill.shape is Shape.SOLID else f"url(#{fill.shape}-{fill.colour[1:]})"


def vega_spec(chart: Chart) -> Spec:
    """A chart in the language of Vega-Lite."""
    match chart.drawn:
        case Bars():
            return _bars(chart.drawn)
        case Curves():
            return _curves(chart.drawn)
        case TimelineChart():
            return _timeline(chart.drawn)
        case Study():
            return _study(chart.drawn)


def _wide(height: int, values: Sequence[Mapping[str, Any]], layers: Sequence[Spec], **more: Any) -> Spec:
    """A chart as wide as the page, of some layers over the same values."""
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**size, "data": {"values": list(values)}, **more, "layer": list(layers)}


def _across(axis: Axis, name: str, **more: Any) -> Spec:
    """An encoding with numbers along an axis."""
    scale: Spec = {"zero": axis.from_zero}
    if axis.ends is not None:
        scale = {"domain": list(axis.ends), "nice": False, "zero": False}
    elif axis.is_log:
        scale = {"type": "log", "base": 2, "nice": False, "padding": 24} if axis.ticks else {"type": "log"}
    ticks: Spec = {"values": list(axis.ticks)} if axis.ticks else {"tickCount": 5}
    return {"field": name, "type": "quantitative", "scale": scale, "axis": {"title": axis.title, **ticks}} | more


def _down(name: str, rows: Sequence[str]) -> Spec:
    axis = {"title": None, "domain": False, "ticks": False}
    return {"field": name, "type": "nominal", "sort": list(rows), "axis": axis}


def _plain(name: str) -> Spec:
    """A field that holds colours itself."""
    return {"field": name, "type": "nominal", "scale": None}


def _named(field: str, names: Sequence[str], looks: list[Any]) -> Spec:
    """A field of names, each with a look of its own."""
    return {"field": field, "type": "nominal", "title": None, "scale": {"domain": list(names), "range": looks}}


def _tips(names: Sequence[str]) -> list[Spec]:
    return [{"field": f"t{number}", "title": name} for number, name in enumerate(names)]


def _tipped(names: Sequence[str], tip: Mapping[str, str]) -> dict[str, str]:
    return {f"t{number}": tip.get(name, "") for number, name in enumerate(names)}


def _rules(rules: Mapping[str, float]) -> list[Spec]:
    """Upright lines, the second of them dotted."""
    return [
        {
            "data": {"values": [{"at": at, "name": name}]},
            "mark": {"type": "rule", "stroke": INK, "strokeDash": dash, "strokeWidth": 1.5},
            "encoding": {"x": {"field": "at", "type": "quantitative"}, "y": {"value": 0}, "y2": {"value": "height"}}
            | {"tooltip": {"field": "name"}},
        }
        for (name, at), dash in zip(rules.items(), _DASHES, strict=False)
    ]


def _bars(drawn: Bars) -> Spec:
    names = list(dict.fromkeys(name for each in drawn.bars for name in each.tip))
    values: list[dict[str, Any]] = []
    for each in drawn.bars:
        values.append({"row": each.row, "start": each.start, "end": each.end, "fill": paint(each.fill)})
        if side := each.side(drawn.ends):
            ink = each.fill.ink if side == "inside" else INK
            values[-1] |= {"at": each.text_at(drawn.ends), "text": each.text, "side": side, "ink": ink}
        values[-1] |= _tipped(names, each.tip)
    encoding = {"x": _across(drawn.x, "start"), "x2": {"field": "end"}, "fill": _plain("fill"), "tooltip": _tips(names)}
    bar = {"mark": {"type": "bar", "height": {"band": 0.8}, "clip": True}, "encoding": encoding}
    sides = {each.get("side") for each in values}
    texts = [_texts(side, drawn.ends) for side in ("inside", "left", "right") if side in sides]
    layers = [bar, *texts, *_rules(drawn.rules)]
    return _wide(_ROW_PIXELS * len(drawn.rows), values, layers, encoding={"y": _down("row", drawn.rows)})


def _texts(side: str, ends: tuple[float, float]) -> Spec:
    """The texts on one side of their bars; on bars, those that are short enough."""
    align, shift = {"inside": ("center", 0), "left": ("right", -5), "right": ("left", 5)}[side]
    filtered = f"datum.side === '{side}'"
    if side == "inside":
        pixels = f"abs(datum.end - datum.start) / {ends[1] - ends[0]!r} * width"
        filtered += f" && {pixels} > {_CHARACTER_PIXELS} * length(datum.text)"
    encoding = {"x": {"field": "at", "type": "quantitative"}, "text": {"field": "text"}}
    mark = {**_TEXT, "align": align, "dx": shift}
    return {"transform": [{"filter": filtered}], "mark": mark, "encoding": encoding | {"fill": _plain("ink")}}


def _curves(drawn: Curves) -> Spec:
    named = [each for each in drawn.series if each.name]
    tips = list(dict.fromkeys(name for each in named for tip in each.tips for name in tip))
    values: list[dict[str, Any]] = []
    for each in drawn.series:
        shared = {"name": each.name, "mark": each.mark.value}
        if each.mark in (Mark.AREA, Mark.LEVELS):
            pairs = zip(each.x, each.x[1:], each.y, strict=False)
            values += [shared | {"x": start, "end": end, "y": y} for start, end, y in pairs]
        else:
            values += [shared | {"x": x, "y": y} for x, y in zip(each.x, each.y, strict=True)]
        for value, to in zip(values[len(values) - len(each.y) :], each.to, strict=False):
            value["to"] = to
        for value, tip in zip(values[len(values) - len(each.y) :], each.tips, strict=False):
            value |= _tipped(tips, tip)

    names = [each.name for each in named]
    colour = _named("name", names, [each.colour for each in named])
    dash = _named("name", names, [list(each.dash) or [1, 0] for each in named])
    shape = _named("name", names, [each.marker if each.mark in _DOTTED else "stroke" for each in named])
    tooltip: Spec = {"tooltip": _tips(tips)}
    line: Spec = {"stroke": colour, "strokeDash": dash}
    end: Spec = {"x2": {"field": "end"}}
    looks: dict[Mark, Spec] = {
        Mark.AREA: {"mark": "rect", "encoding": {"y2": {"datum": 0}, **end, "fill": colour} | tooltip},
        Mark.LEVELS: {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {**end, "stroke": colour}},
        Mark.BAND: {"mark": {"type": "area", "opacity": 0.2}, "encoding": {"y2": {"field": "to"}, "fill": colour}},
    }
    for mark, how in ((Mark.LINE, "linear"), (Mark.STEPS_AFTER, "step-after"), (Mark.STEPS_BEFORE, "step-before")):
        looks[mark] = {"mark": {"type": "line", "strokeWidth": 2, "interpolate": how}, "encoding": line}
    used = {each.mark for each in drawn.series}
    shown = {mark: look for mark, look in looks.items() if mark in used}
    layers = [{"transform": [{"filter": f"datum.mark === '{mark.value}'"}], **look} for mark, look in shown.items()]
    if used & {*_DOTTED}:
        dot = {"type": "point", "filled": True, "size": 80, "opacity": 0.9}
        points = " || ".join(f"datum.mark === '{each.value}'" for each in _DOTTED)
        encoding = {"fill": colour, "shape": shape} | tooltip
        layers.append({"transform": [{"filter": points}], "mark": dot, "encoding": encoding})
    height = _LOW_HEIGHT if Mark.AREA in used else _HEIGHT
    axes = {"x": _across(drawn.x, "x"), "y": _across(drawn.y, "y")}
    return _wide(height, values, [*layers, *_rules(drawn.rules)], encoding=axes)


def _timeline(drawn: TimelineChart) -> Spec:
    length = "(datum.end - datum.start) / (shown_to - shown_from) * width"
    seen = "(min(datum.end, shown_to) - max(datum.start, shown_from)) / (shown_to - shown_from) * width"
    scale = {"domain": [{"expr": "shown_from"}, {"expr": "shown_to"}], "nice": False, "zero": False}
    mark = {"type": "bar", "clip": True, "height": {"band": 0.84}, "stroke": PAPER}
    bars = {
        "mark": mark | {"strokeWidth": {"expr": f"{length} > 5 ? 0.7 : 0"}},
        "encoding": {
            "x": _across(drawn.x, "start", scale=scale),
            "x2": {"field": "end"},
            "fill": _plain("fill"),
            "tooltip": [
                *({"field": name} for name in ("what", "kind", "time")),
                {"field": "start", "title": f"from [{drawn.x.unit}]", "format": ",.6~f"},
            ],
        },
    }
    texts = {
        "transform": [{"filter": f"{seen} > 60"}],
        "mark": {"type": "text", "clip": True, "fontSize": 11, "limit": {"expr": f"{seen} - 8"}},
        "encoding": {
            "x": {"field": "middle", "type": "quantitative"},
            "text": {"field": "what"},
            "fill": _plain("ink"),
        },
    }
    middle = "(max(datum.start, shown_from) + min(datum.end, shown_to)) / 2"
    values = [
        {"lane": each.row, "start": each.start, "end": each.end, "fill": paint(each.fill), "ink": each.fill.ink}
        | {"what": each.what, "kind": each.kind, "time": each.time}
        for each in drawn.pieces
    ]
    whole = drawn.stretches[0]
    return _wide(
        _TIMELINE_ROW_PIXELS * len(drawn.rows),
        values,
        [bars, texts],
        params=[{"name": "shown_from", "value": whole.start}, {"name": "shown_to", "value": whole.end}],
        transform=[{"calculate": middle, "as": "middle"}],
        encoding={"y": _down("lane", drawn.rows)},
    )


def _study(drawn: Study) -> Spec:
    """A figure over keys; of a point, `k0`, … are values of keys, `n0`, … numbers, `p0`, … places on axes."""
    values: list[dict[str, Any]] = []
    for place in drawn.order:
        point: dict[str, Any] = {"point": drawn.points[place], "status": drawn.statuses[place]}
        for key, each in enumerate(drawn.keys):
            point |= {f"k{key}": each.values[each.at[place]], f"p{key}": each.place(place)}
            if each.numbers:
                point[f"n{key}"] = each.numbers[each.at[place]]
        if (value := drawn.values[place]) is not None:
            point["figure"] = value
        values.append(point)
    tips = [{"field": f"k{key}", "title": each.name + f" [{each.axis.unit}]" * bool(each.axis.unit)}
            for key, each in enumerate(drawn.keys)]  # fmt: skip
    tips += [{"field": "figure", "title": drawn.figure.title, "format": ",.4~r"}, {"field": "point"}]
    match drawn.over:
        case WayOver.HEAT_MAP:
            return _heat_map(drawn, values, tips)
        case WayOver.DOTS:
            return _dots(drawn, values, tips)
        case WayOver.PARALLEL:
            return _parallel(drawn, values, tips)


def _coloured(drawn: Study, orient: str) -> Spec:
    legend = {"title": drawn.figure.title, "orient": orient, "gradientLength": 220, "tickCount": 4, "format": ",.4~r"}
    scale = {"scheme": COLOURS, "zero": False}
    return {"field": "figure", "type": "quantitative", "scale": scale, "legend": legend}


def _heat_map(drawn: Study, values: list[dict[str, Any]], tips: list[Spec]) -> Spec:
    """Of three keys, rows of the first stand together for each value of the third."""
    down, across, *split = drawn.keys
    rows, title = [*reversed(down.values)], down.axis.title
    if split:
        rows = [f"{outer} · {inner}" for outer in split[0].values for inner in rows]
        title = f"{split[0].axis.title} · {down.axis.title}"
        values = [each | {"row": f"{each['k2']} · {each['k0']}"} for each in values]
    tip = {"tooltip": [*tips, {"field": "status"}]}
    layers: list[Spec] = [
        {"mark": {"type": "rect", "fill": LEFT_OUT}, "encoding": tip},
        {
            "transform": [_KNOWN],
            "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 1},
            "encoding": {"color": _coloured(drawn, "top"), "tooltip": tips},
        },
    ]
    if len(down.values) * len(across.values) <= _MOST_TEXTS:
        scaled = "(datum.figure - datum.least) / max(datum.most - datum.least, 1e-300)"
        ends = [{"op": "min", "field": "figure", "as": "least"}, {"op": "max", "field": "figure", "as": "most"}]
        wide = f"width / {len(across.values)} > {_TEXT_PIXELS}"
        ink = {"calculate": f"{scaled} > {_LIGHT_FROM} ? '#000000' : '#ffffff'", "as": "ink"}
        text = {"text": {"field": "figure", "type": "quantitative", "format": ",.4~r"}, "fill": _plain("ink")}
        layers.append(
            {
                "transform": [_KNOWN, {"filter": wide}, {"joinaggregate": ends}, ink],
                "mark": {"type": "text", "fontSize": 12},
                "encoding": text,
            }
        )
    angle = -30 if len(across.values) > _MOST_TICKS else 0
    axes = {
        "x": {"field": "k1", "type": "nominal", "sort": list(across.values), "title": across.axis.title}
        | {"axis": {"labelAngle": angle}},
        "y": {"field": "row" if split else "k0", "type": "nominal", "sort": rows, "title": title},
    }
    return _wide(_CELL_PIXELS * len(rows), values, layers, encoding=axes)


def _dots(drawn: Study, values: list[dict[str, Any]], tips: list[Spec]) -> Spec:
    down, across = drawn.keys
    axes = {name: _across(key.axis, field) | {"scale": {"zero": False, "padding": 8}}
            for name, key, field in (("x", across, "n1"), ("y", down, "n0"))}  # fmt: skip
    cross = {"type": "point", "shape": "cross", "angle": 45, "size": 70, "filled": True, "fill": NO_FIGURE}
    tip = {"tooltip": [{"field": "status"}, {"field": "point"}]}
    layers = [
        {
            "transform": [_KNOWN],
            "mark": {"type": "point", "filled": True, "size": 90},
            "encoding": {"color": _coloured(drawn, "top"), "tooltip": tips},
        },
        {"transform": [{"filter": "!isValid(datum.figure)"}], "mark": cross, "encoding": tip},
    ]
    return _wide(_HEIGHT, values, layers, encoding=axes)


def _parallel(drawn: Study, values: list[dict[str, Any]], tips: list[Spec]) -> Spec:
    keys = drawn.keys
    fields = [f"p{number}" for number in range(len(keys))]
    names = json.dumps([each.axis.title for each in keys])
    x = {
        "field": "axis",
        "type": "nominal",
        "sort": fields,
        "title": None,
        "scale": {"padding": 0.1},
        "axis": {"labelExpr": f"{names}[+slice(datum.value, 1)]", "grid": True, "labelAngle": 0, "orient": "top"}
        | {"labelOverlap": False, "labelLimit": {"expr": f"width / {len(keys)} - 4"}, "domain": False},
    }
    when = {"type": "point", "on": "pointerover", "clear": "pointerout", "fields": ["point"]}
    lines = {
        "transform": [_KNOWN, {"fold": fields, "as": ["axis", "at"]}],
        "params": [{"name": "pointed", "select": when}],
        "mark": {"type": "line", "strokeJoin": "round", "opacity": 0.75},
        "encoding": {
            "x": x,
            "y": {"field": "at", "type": "quantitative", "axis": None},
            "detail": {"field": "point"},
            "stroke": _coloured(drawn, "bottom"),
            "strokeWidth": {"condition": {"param": "pointed", "empty": False, "value": 5}, "value": 1.4},
            "tooltip": tips,
        },
    }
    told = [
        {"axis": f"p{number}", "at": round(place / max(1, len(key.values) - 1), 5), "text": text}
        for number, key in enumerate(keys)
        for place, text in list(enumerate(key.values))[:: -(-len(key.values) // _MOST_TICKS)]
    ]
    ticks = {
        "data": {"values": told},
        "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 11.5}
        | {"limit": {"expr": f"width / {len(keys)} - 8"}},
        "encoding": {
            "x": {"field": "axis", "type": "nominal", "sort": fields},
            "y": {"field": "at", "type": "quantitative"},
            "text": {"field": "text"},
            "fill": {"value": INK},
        },
    }
    return _wide(_HEIGHT, values, [lines, ticks])
