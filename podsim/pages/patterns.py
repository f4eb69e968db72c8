"""What parts of charts are filled with: a colour, and a pattern that tells it apart where there is no colour.

Kinds of time have the colours of `podsim.result.kinds`. A family has a pattern of its own, and its members differ in
lightness, so that both stay apart on paper printed in grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from podsim.pages.parts import Swatch
from podsim.result.kinds import COMPUTE, KINDS, LINKS, OFF_CHIP, ON_CHIP, WAITING, in_kind_order, kind_of

FOLDED, TOTAL, FASTER, SLOWER = "folded", "total", "faster", "slower"
_SOLID, _RISING, _FALLING, _DOTS, _LINES, _CROSSED = "solid", "rising", "falling", "dots", "lines", "crossed"
_SHAPES: Final = {
    _SOLID: "",
    _RISING: '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4" {pen}/>',
    _FALLING: '<path d="M-2 6l4 4M0 0l8 8M6-2l4 4" {pen}/>',
    _DOTS: '<circle cx="2" cy="2" r="1.3" {ink}/><circle cx="6" cy="6" r="1.3" {ink}/>',
    _LINES: '<path d="M0 2h8M0 6h8" {pen}/>',
    _CROSSED: '<path d="M0 0l8 8M0 8l8-8" {pen}/>',
}
_OF_FAMILY: Final = {COMPUTE: _SOLID, ON_CHIP: _RISING, LINKS: _CROSSED, OFF_CHIP: _DOTS, WAITING: _LINES}
_UNKNOWN: Final = kind_of("").colour
_PALETTE: Final = (
    ("#1f4e79", _SOLID),
    ("#e08214", _RISING),
    ("#7fb3d5", _DOTS),
    ("#5b3a8e", _FALLING),
    ("#1f9e80", _LINES),
    ("#f0c75e", _SOLID),
    ("#8c2d04", _CROSSED),
    ("#d9d9d9", _LINES),
)
_MARKED: Final = {
    FOLDED: ("#f2f2f2", _CROSSED),
    TOTAL: ("#4d4d4d", _SOLID),
    FASTER: ("#2171b5", _SOLID),
    SLOWER: ("#e6750f", _RISING),
}
_MIDDLE: Final = 0.179
"""Relative luminance at which black and white have the same contrast: that of WCAG 2, 4.58."""
_LUMINANCE: Final = (0.2126, 0.7152, 0.0722)
_GAMMA: Final = 2.2
_HEX: Final = 16


def fill_of_kind(kind: str) -> str:
    """What a kind of time is filled with."""
    known = any(each.name == kind for each in KINDS)
    return f"url(#kind-{kind})" if known else _UNKNOWN


def fill_of(mark: str) -> str:
    """What `FOLDED`, `TOTAL`, `FASTER` or `SLOWER` is filled with."""
    return f"url(#mark-{mark})"


def colour_of(fill: str) -> str:
    """The colour beneath the pattern of a fill.

    >>> colour_of("url(#kind-matmul)"), colour_of("#aabbcc")
    ('#08306b', '#aabbcc')
    """
    if not fill.startswith("url("):
        return fill
    group, _, name = fill.removeprefix("url(#").removesuffix(")").partition("-")
    if group == "kind":
        return kind_of(name).colour
    return _PALETTE[int(name)][0] if group == "part" else _MARKED[name][0]


def fills_in_turn(names: Iterable[str]) -> dict[str, str]:
    """A fill for each of a few names; the last one for all that are too many."""
    return {name: f"url(#part-{min(number, len(_PALETTE) - 1)})" for number, name in enumerate(names)}


def legend_of_kinds(kinds: Iterable[str]) -> tuple[Swatch, ...]:
    """A legend of kinds of time, in their order."""
    return tuple(Swatch(fill_of_kind(name), kind_of(name).label) for name in in_kind_order(kinds))


def legend_of(fills: Mapping[str, str]) -> tuple[Swatch, ...]:
    """A legend of names with their fills."""
    return tuple(Swatch(fill, name) for name, fill in fills.items())


def definitions() -> str:
    """All patterns, as SVG."""
    return "".join(_definitions())


def _definitions() -> Iterator[str]:
    for kind in KINDS:
        yield _pattern(f"kind-{kind.name}", kind.colour, _OF_FAMILY[kind.family])
    for number, (colour, shape) in enumerate(_PALETTE):
        yield _pattern(f"part-{number}", colour, shape)
    for name, (colour, shape) in _MARKED.items():
        yield _pattern(f"mark-{name}", colour, shape)


def _pattern(name: str, colour: str, shape: str) -> str:
    ink = "#000" if is_light(colour) else "#fff"
    strokes = _SHAPES[shape].format(
        pen=f'stroke="{ink}" stroke-opacity=".38" stroke-width="1.2"', ink=f'fill="{ink}" fill-opacity=".5"'
    )
    size = 'width="8" height="8"'
    return (
        f'<pattern id="{name}" {size} patternUnits="userSpaceOnUse"><rect {size} fill="{colour}"/>{strokes}</pattern>'
    )


def is_light(colour: str) -> bool:
    """Whether black is easier to read than white on a colour `#rrggbb`.

    >>> is_light("#f2f2f2"), is_light("#08306b")
    (True, False)
    """
    parts: Sequence[int] = [int(colour[place : place + 2], _HEX) for place in (1, 3, 5)]
    luminance: float = sum(weight * (part / 0xFF) ** _GAMMA for weight, part in zip(_LUMINANCE, parts, strict=True))
    return luminance > _MIDDLE
