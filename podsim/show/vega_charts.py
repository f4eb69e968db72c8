"""Charts in the language of Vega-Lite, for pages.

Fields have short names of their own, since names of keys may hold dots, which that language takes for something else.
Where a reader chooses what is shown, the field is `__column__`, its title `__label__` and its scale `__scale__`, for
which the page puts what is chosen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from podsim.report.chart import (
    INK,
    LOOKS,
    PAPER,
    Axis,
    Bar,
    Bars,
    Chart,
    Curves,
    Fill,
    Key,
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
_TEXT: Final = {"type": "text", "fontSize": 12, "baseline": "middle", "strokeWidth": 3.5, "strokeJoin": "round"}
"""The stroke is a halo in the colour of what is behind, so that a pattern does not make text hard to read."""
_DASHES: Final = ([5, 3], [1, 2])
_DOTTED: Final = (Mark.LINE, Mark.POINTS)
_COLOURS: Final = "viridis"
"""Readable in grey and by the colour-blind."""
_NO_FIGURE, _LEFT_OUT = "#9a4a00", "#dddddd"
_MOST_TEXTS: Final = 150
_TEXT_PIXELS: Final = 42
_MOST_TICKS: Final = 9
_LIGHT_FROM: Final = 0.6
_COLUMN, _LABEL, _SCALE = "__column__", "__label__", "__scale__"
_KNOWN: Final = {"filter": f"isValid(datum.{_COLUMN})"}
_UNKNOWN: Final = {"filter": f"!isValid(datum.{_COLUMN})"}
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


def choices_of(chart: Chart) -> list[tuple[str, str, str]]:
    """The figures a reader can choose from: field, title and scale of each; nothing where there is no choice."""
    figures = chart.drawn.figures if isinstance(chart.drawn, Study) else ()
    return [
        (f"m{number}", each.axis.title, "log" if each.axis.is_log else "linear") for number, each in enumerate(figures)
    ]


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
    encoding = {"x": _across(drawn.x, "start"), "x2": {"field": "end"}, "fill": _plain("fill"), "tooltip": _tips(names)}
    bar = {"mark": {"type": "bar", "height": {"band": 0.8}, "clip": True}, "encoding": encoding}
    sides = {each.side(drawn.ends) for each in drawn.bars}
    texts = [_texts(side, drawn.ends) for side in ("inside", "left", "right") if side in sides]
    values = [_bar(each, names, drawn.ends) for each in drawn.bars]
    layers = [bar, *texts, *_rules(drawn.rules)]
    return _wide(_ROW_PIXELS * len(drawn.rows), values, layers, encoding={"y": _down("row", drawn.rows)})


def _bar(bar: Bar, names: Sequence[str], ends: tuple[float, float]) -> dict[str, Any]:
    values: dict[str, Any] = {"row": bar.row, "start": bar.start, "end": bar.end, "fill": paint(bar.fill)}
    if side := bar.side(ends):
        on_bar = side == "inside"
        values |= {"at": bar.text_at(ends), "text": bar.text, "side": side}
        values |= {"behind": bar.fill.colour if on_bar else PAPER, "ink": bar.fill.ink if on_bar else INK}
    return values | _tipped(names, bar.tip)


def _texts(side: str, ends: tuple[float, float]) -> Spec:
    """The texts on one side of their bars; on bars, those that are short enough."""
    align, shift = {"inside": ("center", 0), "left": ("right", -5), "right": ("left", 5)}[side]
    filtered = f"datum.side === '{side}'"
    if side == "inside":
        pixels = f"abs(datum.end - datum.start) / {ends[1] - ends[0]!r} * width"
        filtered += f" && {pixels} > {_CHARACTER_PIXELS} * length(datum.text)"
    encoding = {"x": {"field": "at", "type": "quantitative"}, "text": {"field": "text"}}
    mark = {**_TEXT, "align": align, "dx": shift}
    encoding |= {"fill": _plain("ink"), "stroke": _plain("behind")}
    return {"transform": [{"filter": filtered}], "mark": mark, "encoding": encoding}


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
        for value, tip in zip(values[len(values) - len(each.y) :], each.tips, strict=False):
            value |= _tipped(tips, tip)

    names = [each.name for each in named]
    colour = _named("name", names, [each.colour for each in named])
    dash = _named("name", names, [list(each.dash) or [1, 0] for each in named])
    shape = _named("name", names, [each.marker if each.mark in _DOTTED else "stroke" for each in named])
    tooltip: Spec = {"tooltip": _tips(tips)}
    line: Spec = {"stroke": colour, "strokeDash": dash}
    looks: dict[Mark, Spec] = {
        Mark.AREA: {"mark": "rect", "encoding": {"y2": {"datum": 0}, "x2": {"field": "end"}, "fill": colour} | tooltip},
        Mark.LEVELS: {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x2": {"field": "end"}, "stroke": colour},
        },
    }
    for mark, how in ((Mark.LINE, "linear"), (Mark.STEPS_AFTER, "step-after"), (Mark.STEPS_BEFORE, "step-before")):
        looks[mark] = {"mark": {"type": "line", "strokeWidth": 2, "interpolate": how}, "encoding": line}
    used = {each.mark for each in drawn.series}
    layers = [
        {"transform": [{"filter": f"datum.mark === '{mark.value}'"}], **look}
        for mark, look in looks.items()
        if mark in used
    ]
    if used & {*_DOTTED}:
        dot = {"type": "point", "filled": True, "size": 80, "opacity": 0.9}
        points = " || ".join(f"datum.mark === '{each.value}'" for each in _DOTTED)
        encoding = {"fill": colour, "shape": shape} | tooltip
        layers.append({"transform": [{"filter": points}], "mark": dot, "encoding": encoding})
    height = _LOW_HEIGHT if used & {Mark.LINE, Mark.AREA} else _HEIGHT
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
    """A figure over keys; of a point, `k0`, … are values of keys, `n0`, … numbers, `p0`, … places, `m0`, … figures."""
    values: list[dict[str, Any]] = []
    for place in drawn.order:
        point: dict[str, Any] = {"point": drawn.points[place], "status": drawn.statuses[place]}
        for key, each in enumerate(drawn.keys):
            point |= {f"k{key}": each.values[each.at[place]], f"p{key}": each.place(place)}
            if each.numbers:
                point[f"n{key}"] = each.numbers[each.at[place]]
        known = {f"m{figure}": each.values[place] for figure, each in enumerate(drawn.figures)}
        values.append(point | {name: value for name, value in known.items() if value is not None})
    tips = [{"field": f"k{key}", "title": each.name + f" [{each.axis.unit}]" * bool(each.axis.unit)}
            for key, each in enumerate(drawn.keys)]  # fmt: skip
    tips += [{"field": _COLUMN, "title": _LABEL, "format": ",.4~r"}, {"field": "point"}]
    match drawn.over:
        case WayOver.LINES:
            return _lines(drawn, values, tips)
        case WayOver.BARS:
            return _bars_of_keys(drawn, values, tips)
        case WayOver.HEAT_MAP:
            return _heat_map(drawn, values, tips)
        case WayOver.DOTS:
            return _dots(drawn, values, tips)
        case WayOver.PARALLEL:
            return _parallel(drawn.keys, values, tips)


def _number_axis(key: Key, field: str, *, is_log: bool) -> Spec:
    scale: Spec = {"type": "log", "base": 2, "nice": False, "padding": 8} if is_log else {"zero": False, "padding": 8}
    few = {"values": sorted(key.numbers)} if len(key.numbers) <= _MOST_TICKS else {"tickCount": 5}
    axis = {**few, "format": ",.6~r"}
    return {"field": field, "type": "quantitative", "title": key.axis.title, "scale": scale, "axis": axis}


def _missing(encoding: Spec) -> Spec:
    """Crosses at the foot for points without a figure."""
    mark = {"type": "point", "shape": "cross", "angle": 45, "size": 70, "filled": True, "fill": _NO_FIGURE}
    tip = [{"field": "status"}, {"field": "point"}]
    return {"transform": [_UNKNOWN], "mark": mark, "encoding": encoding | {"tooltip": tip}}


def _lines(drawn: Study, values: list[dict[str, Any]], tips: list[Spec]) -> Spec:
    key, *of = drawn.keys
    y = {"field": _COLUMN, "type": "quantitative", "title": _LABEL, "scale": {"type": _SCALE}, "axis": {"tickCount": 6}}
    x = _number_axis(key, "n0", is_log=drawn.has_log_places)
    looks: Spec = {"stroke": {"value": LOOKS[0][0]}}
    marks: Spec = {"fill": {"value": LOOKS[0][0]}}
    if of:
        names = list(of[0].values)
        colour, shape, dash = (
            {**_named("k1", names, list(each)), "title": of[0].axis.title}
            for each in zip(*LOOKS[: len(names)], strict=True)
        )
        looks, marks = {"stroke": colour, "strokeDash": dash}, {"fill": colour, "shape": shape}
    measured = [{"n0": at, f"m{number}": value} for number, each in enumerate(drawn.figures)
                for at, value in each.measured]  # fmt: skip
    layers: list[Spec] = [
        {"transform": [_KNOWN], "mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": y, **looks}},
        {
            "transform": [_KNOWN],
            "mark": {"type": "point", "filled": True, "size": 70},
            "encoding": {"y": y, "tooltip": tips, **marks},
        },
    ]
    if any(value is None for each in drawn.figures for value in each.values):
        layers.append(_missing({"y": {"value": "height"}}))
    if measured:
        cross = {"type": "point", "shape": "cross", "size": 160, "filled": True, "fill": INK, "stroke": PAPER}
        tip = [{"field": _COLUMN, "title": "measured", "format": ",.4~r"}]
        of_them = {"data": {"values": measured}, "transform": [_KNOWN], "mark": cross}
        layers.append({**of_them, "encoding": {"y": y, "tooltip": tip}})
    return _wide(_HEIGHT, values, layers, encoding={"x": x})


def _bars_of_keys(drawn: Study, values: list[dict[str, Any]], tips: list[Spec]) -> Spec:
    key = drawn.keys[0]
    x = {"field": _COLUMN, "type": "quantitative", "title": _LABEL}
    text = {"type": "text", "align": "left", "dx": 5, "fontSize": 12}
    layers: list[Spec] = [
        {"transform": [_KNOWN], "mark": {"type": "bar", "fill": LOOKS[0][0]}, "encoding": {"x": x}
         | {"tooltip": tips}},
        {"transform": [_KNOWN], "mark": text, "encoding": {"x": x, "text": {"field": _COLUMN, "format": ",.4~r"}}},
        {"transform": [_UNKNOWN], "mark": text, "encoding": {"x": {"value": 0}, "text": {"field": "status"}}},
    ]  # fmt: skip
    return _wide(_CELL_PIXELS * len(key.values), values, layers, encoding={"y": _down("k0", key.values)})


def _coloured(orient: str) -> Spec:
    legend = {"title": _LABEL, "orient": orient, "gradientLength": 220, "tickCount": 4, "format": ",.4~r"}
    return {
        "field": _COLUMN,
        "type": "quantitative",
        "scale": {"scheme": _COLOURS, "zero": False},
        "legend": legend,
    }


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
        {"mark": {"type": "rect", "fill": _LEFT_OUT}, "encoding": tip},
        {
            "transform": [_KNOWN],
            "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 1},
            "encoding": {"color": _coloured("top"), "tooltip": tips},
        },
    ]
    if len(down.values) * len(across.values) <= _MOST_TEXTS:
        scaled = f"(datum.{_COLUMN} - datum.least) / max(datum.most - datum.least, 1e-300)"
        ends = [{"op": "min", "field": _COLUMN, "as": "least"}, {"op": "max", "field": _COLUMN, "as": "most"}]
        wide = f"width / {len(across.values)} > {_TEXT_PIXELS}"
        ink = {"calculate": f"{scaled} > {_LIGHT_FROM} ? '#000000' : '#ffffff'", "as": "ink"}
        text = {"text": {"field": _COLUMN, "type": "quantitative", "format": ",.4~r"}, "fill": _plain("ink")}
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
    axes = {
        name: _number_axis(key, field, is_log=False) for name, key, field in (("x", across, "n1"), ("y", down, "n0"))
    }
    mark = {"type": "point", "filled": True, "size": 90}
    layers = [
        {"transform": [_KNOWN], "mark": mark, "encoding": {"color": _coloured("top"), "tooltip": tips}},
        _missing({}),
    ]
    return _wide(_HEIGHT, values, layers, encoding=axes)


def _parallel(keys: Sequence[Key], values: list[dict[str, Any]], tips: list[Spec]) -> Spec:
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
            "stroke": _coloured("bottom"),
            "strokeWidth": {"condition": {"param": "pointed", "empty": False, "value": 5}, "value": 1.4},
            "tooltip": tips,
        },
    }
    ticks = {
        "data": {"values": [tick for number, each in enumerate(keys) for tick in _ticks(number, each)]},
        "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 11.5, "stroke": PAPER, "strokeWidth": 3}
        | {"limit": {"expr": f"width / {len(keys)} - 8"}},
        "encoding": {
            "x": {"field": "axis", "type": "nominal", "sort": fields},
            "y": {"field": "at", "type": "quantitative"},
            "text": {"field": "text"},
            "fill": {"value": INK},
        },
    }
    return _wide(_HEIGHT, values, [lines, ticks])


def _ticks(number: int, key: Key) -> list[dict[str, object]]:
    """Some of the values along an axis."""
    most = max(1, len(key.values) - 1)
    shown = list(enumerate(key.values))[:: -(-len(key.values) // _MOST_TICKS)]
    return [{"axis": f"p{number}", "at": round(place / most, 5), "text": text} for place, text in shown]
