"""Charts as Vega-Lite specifications, for pages.

Fields of values have short names, since keys may contain dots, which Vega-Lite interprets as paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from podsim.report import chart as data
from podsim.report.chart import INK, Axis, Bars, Chart, Curves, Fill, Mark, Shape, Study, StudyPlot, TimelineChart

Spec = dict[str, Any]
"""A Vega-Lite specification of a chart, or a part of one."""

_ROW_PIXELS, _TIMELINE_ROW_PIXELS, _CELL_PIXELS, _HEIGHT, _LOW_HEIGHT = 27, 30, 34, 320, 220
_CHARACTER_PIXELS, _TEXT_PIXELS = 7.5, 42
_DASHES: Final = ([5, 3], [1, 2])
_WITH_MARKERS: Final = (Mark.LINE, Mark.POINTS)
_HAS_VALUE: Final = "isValid(datum.figure)"
_PATTERN: Final = re.compile(r"url\(#([a-z]+)-([0-9a-f]{6})\)")
_SHAPES: Final = {
    Shape.RISING: '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4" {pen}/>',
    Shape.FALLING: '<path d="M-2 6l4 4M0 0l8 8M6-2l4 4" {pen}/>',
    Shape.DOTS: '<circle cx="2" cy="2" r="1.3" {ink}/><circle cx="6" cy="6" r="1.3" {ink}/>',
    Shape.LINES: '<path d="M0 2h8M0 6h8" {pen}/>',
    Shape.CROSSED: '<path d="M0 0l8 8M0 8l8-8" {pen}/>',
}


def definitions(drawn: str) -> str:
    """Return the SVG patterns that a text of HTML or Vega uses."""
    patterns = []
    for fill in sorted({Fill(f"#{colour}", Shape(shape)) for shape, colour in _PATTERN.findall(drawn)}):
        ink = "#000" if fill.ink == INK else "#fff"
        pen = f'stroke="{ink}" stroke-opacity=".38" stroke-width="1.2"'
        strokes = _SHAPES[fill.shape].format(pen=pen, ink=f'fill="{ink}" fill-opacity=".5"')
        size, name = 'width="8" height="8"', paint(fill)[5:-1]
        ground = f'<rect {size} fill="{fill.colour}"/>'
        patterns.append(f'<pattern id="{name}" {size} patternUnits="userSpaceOnUse">{ground}{strokes}</pattern>')
    return "".join(patterns)


def paint(fill: Fill) -> str:
    """Return the SVG name of a fill: a colour, or a pattern of `definitions`.

    >>> paint(Fill("#08306b")), paint(Fill("#e6750f", Shape.RISING))
    ('#08306b', 'url(#rising-e6750f)')
    """
    return fill.colour if fill.shape is Shape.SOLID else f"url(#{fill.shape}-{fill.colour[1:]})"


def vega_spec(chart: Chart) -> Spec:
    """Return the Vega-Lite specification of a chart."""
    match chart.drawn:
        case Bars():
            return _bars(chart.drawn)
        case Curves():
            return _curves(chart.drawn)
        case TimelineChart():
            return _timeline(chart.drawn)
        case Study(plot=StudyPlot.PARALLEL):
            return _parallel(chart.drawn)
        case Study():
            return _heat_map_or_dots(chart.drawn)


def _full_width(height: int, values: Sequence[Mapping[str, Any]], layers: Sequence[Spec], **more: Any) -> Spec:
    """Return a chart as wide as the page; all layers draw the same values."""
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**size, "data": {"values": list(values)}, **more, "layer": list(layers)}


def _layer(mark: str, look: Spec, encoding: Spec, *transform: str | Spec, **more: Any) -> Spec:
    """Return a layer of marks; a transform given as text is a filter."""
    steps = [{"filter": step} if isinstance(step, str) else step for step in transform]
    return {**({"transform": steps} if steps else {}), **more, "mark": {"type": mark, **look}, "encoding": encoding}


def _quantitative(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", **more}


def _nominal(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "nominal", **more}


def _colour_encoding(field: str) -> Spec:
    """Return the encoding of a field whose values are colours."""
    return _nominal(field, scale=None)


def _axis_encoding(axis: Axis, field: str, **more: Any) -> Spec:
    """Return the encoding of a field along an axis of numbers."""
    scale: Spec = {"zero": axis.from_zero}
    if axis.ends is not None:
        scale = {"domain": list(axis.ends), "nice": False, "zero": False}
    elif axis.is_log:
        scale = {"type": "log", "base": 2, "nice": False, "padding": 24} if axis.ticks else {"type": "log"}
    ticks: Spec = {"values": list(axis.ticks)} if axis.ticks else {"tickCount": 5}
    return _quantitative(field, scale=scale, axis={"title": axis.title, **ticks}) | more


def _row_encoding(field: str, rows: Sequence[str]) -> Spec:
    return _nominal(field, sort=list(rows), axis={"title": None, "domain": False, "ticks": False})


def _tip_fields(names: Sequence[str]) -> list[Spec]:
    return [{"field": f"t{number}", "title": name} for number, name in enumerate(names)]


def _tip_values(names: Sequence[str], tip: Mapping[str, str]) -> dict[str, str]:
    return {f"t{number}": tip.get(name, "") for number, name in enumerate(names)}


def _rules(rules: Mapping[str, float]) -> list[Spec]:
    """Return vertical lines, the first dashed and the second dotted."""
    where: Spec = {"x": _quantitative("at"), "y": {"value": 0}, "y2": {"value": "height"}, "tooltip": {"field": "name"}}
    return [
        _layer("rule", {"stroke": INK, "strokeDash": dash, "strokeWidth": 1.5}, where)
        | {"data": {"values": [{"at": at, "name": name}]}}
        for (name, at), dash in zip(rules.items(), _DASHES, strict=False)
    ]


def _bars(drawn: Bars) -> Spec:
    names = list(dict.fromkeys(name for bar in drawn.bars for name in bar.tip))
    values: list[dict[str, Any]] = []
    for bar in drawn.bars:
        values.append({"row": bar.row, "start": bar.start, "end": bar.end, "fill": paint(bar.fill)})
        if bar.text:
            side, at = bar.text_place(drawn.ends)
            ink = bar.fill.ink if side == "inside" else INK
            values[-1] |= {"at": at, "text": bar.text, "side": side, "ink": ink}
        values[-1] |= _tip_values(names, bar.tip)
    encoding = {
        "x": _axis_encoding(drawn.x, "start"),
        "x2": {"field": "end"},
        "fill": _colour_encoding("fill"),
        "tooltip": _tip_fields(names),
    }
    layers = [_layer("bar", {"height": {"band": 0.8}, "clip": True}, encoding)]
    written = {"x": _quantitative("at"), "text": {"field": "text"}, "fill": _colour_encoding("ink")}
    for side, align, shift in (("inside", "center", 0), ("left", "right", -5), ("right", "left", 5)):
        if side in {value.get("side") for value in values}:
            look = {"fontSize": 12, "baseline": "middle", "align": align, "dx": shift}
            where = f"datum.side === '{side}'"
            if side == "inside":  # where the bar is wide enough
                pixels = f"abs(datum.end - datum.start) / {drawn.ends[1] - drawn.ends[0]!r} * width"
                where += f" && {pixels} > {_CHARACTER_PIXELS} * length(datum.text)"
            layers.append(_layer("text", look, written, where))
    rows = {"y": _row_encoding("row", drawn.rows)}
    return _full_width(_ROW_PIXELS * len(drawn.rows), values, [*layers, *_rules(drawn.rules)], encoding=rows)


def _curves(drawn: Curves) -> Spec:
    named = [series for series in drawn.series if series.name]
    tips = list(dict.fromkeys(name for series in named for tip in series.tips for name in tip))
    values: list[dict[str, Any]] = []
    for series in drawn.series:
        points = [{"name": series.name, "mark": series.mark.value, "x": x} for x in series.x[: len(series.y)]]
        for place, (point, y) in enumerate(zip(points, series.y, strict=True)):
            point |= {"y": y}
            if series.mark in (Mark.AREA, Mark.LEVELS):
                point |= {"end": series.x[place + 1]}
            if series.to:
                point |= {"to": series.to[place]}
            if series.tips:
                point |= _tip_values(tips, series.tips[place])
        values += points

    def look(looks: list[Any]) -> Spec:
        """Return an encoding that gives each named series its look, in the order of the series."""
        return _nominal("name", title=None, scale={"domain": [series.name for series in named], "range": looks})

    colour = look([series.colour for series in named])
    line: Spec = {"stroke": colour, "strokeDash": look([list(series.dash) or [1, 0] for series in named])}
    shape = look([series.marker if series.mark in _WITH_MARKERS else "stroke" for series in named])
    tooltip, end = {"tooltip": _tip_fields(tips)}, {"x2": {"field": "end"}}
    looks: dict[Mark, tuple[str, Spec, Spec]] = {
        Mark.AREA: ("rect", {}, {"y2": {"datum": 0}, **end, "fill": colour, **tooltip}),
        Mark.LEVELS: ("rule", {"strokeWidth": 2}, {**end, "stroke": colour}),
        Mark.BAND: ("area", {"opacity": 0.2}, {"y2": {"field": "to"}, "fill": colour}),
    }
    for mark, how in ((Mark.LINE, "linear"), (Mark.STEPS_AFTER, "step-after"), (Mark.STEPS_BEFORE, "step-before")):
        looks[mark] = ("line", {"strokeWidth": 2, "interpolate": how}, line)
    used = {series.mark for series in drawn.series}
    layers = [_layer(*drawing, f"datum.mark === '{mark.value}'") for mark, drawing in looks.items() if mark in used]
    if used & {*_WITH_MARKERS}:
        dotted = " || ".join(f"datum.mark === '{mark.value}'" for mark in _WITH_MARKERS)
        dot = {"filled": True, "size": 80, "opacity": 0.9}
        layers.append(_layer("point", dot, {"fill": colour, "shape": shape, **tooltip}, dotted))
    height = _LOW_HEIGHT if Mark.AREA in used else _HEIGHT
    axes = {"x": _axis_encoding(drawn.x, "x"), "y": _axis_encoding(drawn.y, "y")}
    return _full_width(height, values, [*layers, *_rules(drawn.rules)], encoding=axes)


def _timeline(drawn: TimelineChart) -> Spec:
    length = "(datum.end - datum.start) / (shown_to - shown_from) * width"
    seen = "(min(datum.end, shown_to) - max(datum.start, shown_from)) / (shown_to - shown_from) * width"
    scale = {"domain": [{"expr": "shown_from"}, {"expr": "shown_to"}], "nice": False, "zero": False}
    stroke = {"stroke": data.PAPER, "strokeWidth": {"expr": f"{length} > 5 ? 0.7 : 0"}}
    tips: list[Spec] = [{"field": name} for name in ("what", "kind", "time")]
    tips.append({"field": "start", "title": f"from [{drawn.x.unit}]", "format": ",.6~f"})
    where = {"x": _axis_encoding(drawn.x, "start", scale=scale), "x2": {"field": "end"}}
    bars = _layer(
        "bar",
        {"clip": True, "height": {"band": 0.84}, **stroke},
        where | {"fill": _colour_encoding("fill"), "tooltip": tips},
    )
    written = {"x": _quantitative("middle"), "text": {"field": "what"}, "fill": _colour_encoding("ink")}
    texts = _layer("text", {"clip": True, "fontSize": 11, "limit": {"expr": f"{seen} - 8"}}, written, f"{seen} > 60")
    values = [
        {"lane": bar.row, "start": bar.start, "end": bar.end, "fill": paint(bar.fill), "ink": bar.fill.ink}
        | {"what": bar.what, "kind": bar.kind, "time": bar.time}
        for bar in drawn.bars
    ]
    whole = drawn.stretches[0]
    return _full_width(
        _TIMELINE_ROW_PIXELS * len(drawn.rows),
        values,
        [bars, texts],
        params=[{"name": "shown_from", "value": whole.start}, {"name": "shown_to", "value": whole.end}],
        transform=[
            {"calculate": "(max(datum.start, shown_from) + min(datum.end, shown_to)) / 2", "as": "middle"},
        ],
        encoding={"y": _row_encoding("lane", drawn.rows)},
    )


def _point_values(drawn: Study) -> list[dict[str, Any]]:
    """Return the fields of each point: `k0`, … are texts of its values, `n0`, … numbers, `p0`, … places on axes."""
    values: list[dict[str, Any]] = []
    for index in drawn.order:
        point: dict[str, Any] = {"point": drawn.points[index], "status": drawn.statuses[index]}
        for number, key in enumerate(drawn.keys):
            point |= {f"k{number}": key.values[key.at[index]], f"p{number}": key.place(index)}
            if key.numbers:
                point[f"n{number}"] = key.numbers[key.at[index]]
        if (value := drawn.values[index]) is not None:
            point["figure"] = value
        values.append(point)
    return values


def _study_tips(drawn: Study) -> list[Spec]:
    keys = ({"field": f"k{number}", "title": Axis(key.name, key.axis.unit).title}
            for number, key in enumerate(drawn.keys))  # fmt: skip
    return [*keys, {"field": "figure", "title": drawn.figure.title, "format": ",.4~r"}, {"field": "point"}]


def _metric_colour(drawn: Study, orient: str) -> Spec:
    legend = {"title": drawn.figure.title, "orient": orient, "gradientLength": 220, "tickCount": 4, "format": ",.4~r"}
    return _quantitative("figure", scale={"scheme": data.COLOURS, "zero": False}, legend=legend)


def _heat_map_or_dots(drawn: Study) -> Spec:
    """Return a heat map, with a group of rows for each value of a third key, or a chart of dots."""
    down, across, *split = drawn.keys
    values, tips = _point_values(drawn), _study_tips(drawn)
    known = {"color": _metric_colour(drawn, "top"), "tooltip": tips}
    if drawn.plot is StudyPlot.DOTS:
        axes = {name: _axis_encoding(key.axis, field, scale={"zero": False, "padding": 8})
                for name, key, field in (("x", across, "n1"), ("y", down, "n0"))}  # fmt: skip
        cross = {"shape": "cross", "angle": 45, "size": 70, "filled": True, "fill": data.NO_FIGURE}
        layers = [
            _layer("point", {"filled": True, "size": 90}, known, _HAS_VALUE),
            _layer("point", cross, {"tooltip": [{"field": "status"}, {"field": "point"}]}, f"!{_HAS_VALUE}"),
        ]
        return _full_width(_HEIGHT, values, layers, encoding=axes)
    rows, title = [*reversed(down.values)], down.axis.title
    if split:
        rows = [f"{outer} · {inner}" for outer in split[0].values for inner in rows]
        title = f"{split[0].axis.title} · {title}"
    for point in values:
        point["row"] = f"{point['k2']} · {point['k0']}" if split else point["k0"]
        if "figure" in point and drawn.has_texts:
            point["text"], point["ink"] = drawn.text(point["figure"])
    layers = [
        _layer("rect", {"fill": data.LEFT_OUT}, {"tooltip": [*tips, {"field": "status"}]}),
        _layer("rect", {"stroke": data.PAPER, "strokeWidth": 1}, known, _HAS_VALUE),
    ]
    if drawn.has_texts:
        wide = f"width / {len(across.values)} > {_TEXT_PIXELS}"
        layers.append(
            _layer(
                "text", {"fontSize": 12}, {"text": {"field": "text"}, "fill": _colour_encoding("ink")}, _HAS_VALUE, wide
            )
        )
    angle = {"labelAngle": -30 if across.is_crowded else 0}
    axes = {
        "x": _nominal("k1", sort=list(across.values), title=across.axis.title, axis=angle),
        "y": _nominal("row", sort=rows, title=title),
    }
    return _full_width(_CELL_PIXELS * len(rows), values, layers, encoding=axes)


def _parallel(drawn: Study) -> Spec:
    keys = drawn.keys
    fields = [f"p{number}" for number in range(len(keys))]
    names = json.dumps([key.axis.title for key in keys])
    along = _nominal("axis", sort=fields)
    heads: Spec = {"labelExpr": f"{names}[+slice(datum.value, 1)]", "labelLimit": {"expr": f"width / {len(keys)} - 4"}}
    heads |= {"grid": True, "labelAngle": 0, "orient": "top", "labelOverlap": False, "domain": False}
    encoding = {
        "x": along | {"title": None, "scale": {"padding": 0.1}, "axis": heads},
        "y": _quantitative("at", axis=None),
        "detail": {"field": "point"},
        "stroke": _metric_colour(drawn, "bottom"),
        "strokeWidth": {"condition": {"param": "pointed", "empty": False, "value": 5}, "value": 1.4},
        "tooltip": _study_tips(drawn),
    }
    when = {"type": "point", "on": "pointerover", "clear": "pointerout", "fields": ["point"]}
    fold = {"fold": fields, "as": ["axis", "at"]}
    look = {"strokeJoin": "round", "opacity": 0.75}
    lines = _layer("line", look, encoding, _HAS_VALUE, fold, params=[{"name": "pointed", "select": when}])
    ticks_of_keys = [
        {"axis": field, "at": place, "text": text}
        for field, key in zip(fields, keys, strict=True)
        for place, text in key.ticks.items()
    ]
    limit = {"expr": f"width / {len(keys)} - 8"}
    written = {"x": along, "y": _quantitative("at"), "text": {"field": "text"}, "fill": {"value": INK}}
    ticks = _layer("text", {"align": "left", "dx": 5, "fontSize": 11.5, "limit": limit}, written)
    return _full_width(_HEIGHT, _point_values(drawn), [lines, ticks | {"data": {"values": ticks_of_keys}}])
