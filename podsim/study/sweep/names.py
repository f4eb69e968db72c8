"""The names of a study: each has one meaning, and expressions use none that nothing gives a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from podsim.errors import BadValueError, Problem
from podsim.metrics import FULLEST, HIGH, LOW, OWN, SERVING, SPENT
from podsim.scenario.document import Document
from podsim.study.store import STATUS
from podsim.study.sweep.expression import Expression, expressions_in, key_named
from podsim.study.sweep.spec import StudySpec

SCENARIO, VARIANT = "scenario", "variant"
POINT, REASON = "point", "reason"
COLUMNS: Final = (POINT, SCENARIO, VARIANT, STATUS, REASON)
"""What every row begins with, or says of itself."""
_FIGURES: Final = {*(each.key for each in (*OWN, *SPENT) if each.of != (SERVING,)), FULLEST, "warnings"}
_CURES: Final = {
    **dict.fromkeys(COLUMNS, "use another name"),
    SCENARIO: "list several scenarios at the top of the file, `scenario: [a, b]`",
    VARIANT: "write `all_variants: true` at the top of the file",
}


def wrong_names(study: StudySpec, document: Document) -> Iterator[Problem]:
    """Names with two meanings, and expressions that are none or use names without a value."""
    meanings = dict.fromkeys(COLUMNS, "is a column of every table")
    for section in ("keys", "names", "derived"):
        for name in getattr(study, section):
            figure = name.removesuffix(LOW).removesuffix(HIGH)
            if name in meanings:
                do = _CURES.get(name, "leave one of them out")
                yield Problem(document.where((section, name)), section, f"`{name}` {meanings[name]}", do)
            elif {figure, figure.partition(".")[0]} & _FIGURES:
                what = f"`{name}` is a figure of results, which would replace its values"
                yield Problem(document.where((section, name)), section, what, "use another name")
            meanings.setdefault(name, f"has its values under `{section}` already")
    known: dict[str, object] = dict.fromkeys((*study.keys, *study.names))
    for key, text in study.derived.items():
        yield from _wrong(text, ("derived", key), known, study, document)
        known[key] = None
    for number, text in enumerate(study.where):
        yield from _wrong(text, ("where", number), known, study, document)


def _wrong(
    text: str, path: tuple[str | int, ...], known: Mapping[str, object], study: StudySpec, document: Document
) -> Iterator[Problem]:
    place, key = document.where(path), ".".join(map(str, path))
    try:
        expressions = (Expression(text),) if path[0] == "where" else expressions_in(text)
    except BadValueError as error:
        yield Problem(place, key, str(error), error.do)
        return
    for name in sorted(name for each in expressions for name in each.names if not key_named(name, known)):
        if key_named(name, dict.fromkeys(study.derived)):
            what, do = f"`{name}` is derived further down", "write it above the keys that follow from it"
        else:
            what = f"`{name}` is no key of this study, or of several the last part"
            do = f"use one of: {', '.join(known)}" if known else "give it values under `keys` or `names`"
        yield Problem(place, key, what, do)
