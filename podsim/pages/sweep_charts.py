"""Charts of a figure over keys: a line for one key, a heat map for two, parallel axes for more.

The field of the figure is `__column__` and its title `__label__`, for which the page puts what a reader chooses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podsim.pages.parts import Chart, Spec

_COLOURS: Final = "viridis"
"""Readable in grey and by the colour-blind."""
_HEIGHT: Final = 320
_ROW_PIXELS: Final = 34
_MOST_TEXTS: Final = 150
_TEXT_PIXELS: Final = 42
_FILLED: Final = 0.25
_MOST_TICKS: Final = 9
_LIGHT_FROM: Final = 0.6
_LARGE: Final = 1e4
_COLUMN, _LABEL = "__column__", "__label__"
Values = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Varied:
    """A key that varies.

    Attributes:
        field: Where its values are.
        key: Its name.
        short: The last part of that.
        unit: Of the numbers, where all values share one; empty otherwise.
        ordered: Its values, in order.
        places: Where on an axis from 0 to 1 each of them is.
        numbers: The values as numbers; empty if one of them is none.
    """

    field: str
    key: str
    short: str
    unit: str
    ordered: Sequence[str]
    places: Mapping[str, float]
    numbers: Mapping[str, float]


def chart_over(keys: Sequence[Varied], values: Values, choices: Mapping[str, str]) -> Chart:
    """A figure over keys.

    Args:
        keys: What varies.
        values: The points: `k0`, `k1`, … are values of keys as text, `n0`, … as numbers, `p0`, … their places.
        choices: Columns that can be shown, by their field in the points.
    """
    tips = [{"field": each.field, "title": each.key} for each in keys]
    tips += [{"field": _COLUMN, "title": _LABEL, "format": ",.4~r"}, {"field": "point"}]
    names = [each.key for each in keys]
    if len(keys) == 1:
        return _chart("Line of the figure", names, _line(keys[0], values, tips), choices, [])
    if len(keys) == 2 and _is_full(keys, values):
        notes = ["Grey: could not be simulated, or has no such figure; empty: not part of the study."]
        return _chart("Heat map of the figure", names, _heat_map(keys, values, tips), choices, notes)
    notes = ["A line is a point of the study, its colour the figure; point at it to see its values."]
    return _chart(
        "Parallel axes, a line for each point coloured by the figure,",
        names,
        _parallel(keys, values, tips),
        choices,
        notes,
    )


def _chart(what: str, keys: Sequence[str], spec: Spec, choices: Mapping[str, str], notes: Sequence[str]) -> Chart:
    over = f"{', '.join(keys[:-1])} and {keys[-1]}" if len(keys) > 1 else keys[0]
    return Chart(f"Over {over}", f"{what} over {over}.", spec, notes=notes, choices=choices)


def _is_full(keys: Sequence[Varied], values: Values) -> bool:
    """Whether most combinations of two keys are there, so that cells have neighbours."""
    return len(values) >= _FILLED * len(keys[0].ordered) * len(keys[1].ordered)


def _line(key: Varied, values: Values, tips: list[dict[str, str]]) -> Spec:
    if key.numbers:
        x: Spec = {"field": "n0", "type": "quantitative", "scale": {"zero": False, "padding": 8}}
        x["title"] = f"{key.short} [{key.unit}]" if key.unit else key.short
        x["axis"] = {"tickCount": 5, "format": "~s" if max(key.numbers.values()) >= _LARGE else "~g"}
    else:
        x = {
            "field": "k0",
            "type": "nominal",
            "sort": list(key.ordered),
            "title": key.short,
            "axis": {"labelAngle": -30},
        }
    marks: list[Spec] = [
        {"mark": {"type": "point", "filled": True, "size": 70, "fill": "#1b5e92"}, "encoding": {"tooltip": tips}}
    ]
    if key.numbers:
        marks.insert(0, {"mark": {"type": "line", "strokeWidth": 2, "stroke": "#1b5e92"}})
    return {
        "width": "container",
        "height": _HEIGHT,
        "data": {"values": values},
        "transform": [{"filter": f"isValid(datum.{_COLUMN})"}],
        "encoding": {"x": x, "y": {"field": _COLUMN, "type": "quantitative", "title": _LABEL, "scale": {"zero": True}}},
        "layer": marks,
    }


def _heat_map(keys: Sequence[Varied], values: Values, tips: list[dict[str, str]]) -> Spec:
    down, across = keys
    scaled = f"(datum.{_COLUMN} - datum.least) / max(datum.most - datum.least, 1e-300)"
    known = [{"filter": f"isValid(datum.{_COLUMN})"}]
    colour = {
        "field": _COLUMN,
        "type": "quantitative",
        "scale": {"scheme": _COLOURS, "zero": False},
        "legend": {"title": _LABEL, "orient": "top", "gradientLength": 220, "tickCount": 4, "format": ",.4~r"},
    }
    layers: list[Spec] = [
        {"mark": {"type": "rect", "fill": "#dddddd"}, "encoding": {"tooltip": [*tips, {"field": "status"}]}},
        {
            "transform": known,
            "mark": {"type": "rect", "stroke": "#ffffff", "strokeWidth": 1},
            "encoding": {"color": colour, "tooltip": tips},
        },
    ]
    if len(down.ordered) * len(across.ordered) <= _MOST_TEXTS:
        ends = [{"op": "min", "field": _COLUMN, "as": "least"}, {"op": "max", "field": _COLUMN, "as": "most"}]
        wide = f"width / {len(across.ordered)} > {_TEXT_PIXELS}"
        ink = {"calculate": f"{scaled} > {_LIGHT_FROM} ? '#000000' : '#ffffff'", "as": "ink"}
        layers.append(
            {
                "transform": [*known, {"filter": wide}, {"joinaggregate": ends}, ink],
                "mark": {"type": "text", "fontSize": 12},
                "encoding": {
                    "text": {"field": _COLUMN, "type": "quantitative", "format": ",.4~r"},
                    "fill": {"field": "ink", "type": "nominal", "scale": None},
                },
            }
        )
    return {
        "width": "container",
        "height": _ROW_PIXELS * len(down.ordered),
        "data": {"values": values},
        "encoding": {
            "x": {"field": across.field, "type": "nominal", "sort": list(across.ordered), "title": across.short}
            | {"axis": {"labelAngle": -30 if len(across.ordered) > _MOST_TICKS else 0}},
            "y": {"field": down.field, "type": "nominal", "sort": list(reversed(down.ordered)), "title": down.short},
        },
        "layer": layers,
    }


def _parallel(keys: Sequence[Varied], values: Values, tips: list[dict[str, str]]) -> Spec:
    fields = [f"p{number}" for number in range(len(keys))]
    names = json.dumps([each.short for each in keys])
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
    colour = {
        "field": _COLUMN,
        "type": "quantitative",
        "scale": {"scheme": _COLOURS, "zero": False},
        "legend": {"title": _LABEL, "orient": "bottom", "gradientLength": 220, "tickCount": 4, "format": ",.4~r"},
    }
    lines = {
        "transform": [{"filter": f"isValid(datum.{_COLUMN})"}, {"fold": fields, "as": ["axis", "at"]}],
        "params": [{"name": "pointed", "select": when}],
        "mark": {"type": "line", "strokeJoin": "round", "opacity": 0.75},
        "encoding": {
            "x": x,
            "y": {"field": "at", "type": "quantitative", "axis": None},
            "detail": {"field": "point"},
            "stroke": colour,
            "strokeWidth": {"condition": {"param": "pointed", "empty": False, "value": 5}, "value": 1.4},
            "tooltip": tips,
        },
    }
    ticks = {
        "data": {"values": [tick for number, each in enumerate(keys) for tick in _ticks(number, each)]},
        "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 11.5, "stroke": "#ffffff", "strokeWidth": 3}
        | {"limit": {"expr": f"width / {len(keys)} - 8"}},
        "encoding": {
            "x": {"field": "axis", "type": "nominal", "sort": fields},
            "y": {"field": "at", "type": "quantitative"},
            "text": {"field": "text"},
            "fill": {"value": "#1a1a1a"},
        },
    }
    return {"width": "container", "height": _HEIGHT, "data": {"values": values}, "layer": [lines, ticks]}


def _ticks(number: int, key: Varied) -> list[dict[str, object]]:
    """Some of the values along an axis."""
    shown = key.ordered[:: -(-len(key.ordered) // _MOST_TICKS)]
    return [{"axis": f"p{number}", "at": key.places[text], "text": text} for text in shown]
