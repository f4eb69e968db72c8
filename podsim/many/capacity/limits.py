"""Limits: bounds of figures, with the currency of those that cost something, and what no figure can meet."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from podsim.errors import BadValueError, PodsimError
from podsim.many.capacity.figures import figure_named
from podsim.metrics import METRICS, MONEY, SHARE, metric_of
from podsim.scenario.expectations import Expectation, expectation
from podsim.units import parse_price

_SIGNED_PRICE: Final = re.compile(r"\s*(<=|>=|<|>)\s*(.+?[A-Z]{3})\s*")
_SIGN: Final = re.compile(r"\s*[<>]")
_NEAR_NOTHING: Final = 0.0005
_EXAMPLE: Final = "500 USD"


@dataclass(frozen=True, slots=True)
class Limit(Expectation):
    """Bounds of a figure.

    Attributes:
        currency: Of a bound of a cost; empty if it was given without one.
    """

    currency: str = ""


def limit(metric: str, text: float | str) -> Limit:
    """The bounds that a text stands for.

    Args:
        metric: A figure, by its key in a result or a short name.
        text: An expectation; one of a cost may have a currency.

    Raises:
        BadValueError: It is none, or its unit does not fit.

    >>> limit("deadline", "<= 12 h").high, limit("cost", "< 500 USD").currency
    (43200.0, 'USD')
    """
    key, written = figure_named(metric), str(text)
    priced = _SIGNED_PRICE.fullmatch(written) if metric_of(key).unit == MONEY else None
    if priced is None:
        found = _finite(expectation(key, text), written)
        return Limit(key, written, found.low, found.high, found.open_ended)
    amount, currency = parse_price(priced[2], {"": 1.0}, _EXAMPLE)
    found = _finite(expectation(key, f"{priced[1]} {amount!r}"), written)
    return Limit(key, written.strip(), found.low, found.high, found.open_ended, currency)


def _finite(found: Expectation, written: str) -> Expectation:
    """Refuse bounds that no figure or every figure keeps to: those that are no number, or infinite where given."""
    given = [each for each in (found.low, found.high) if not math.isinf(each)]
    around = not _SIGN.match(written)
    if len(given) != 1 + around or any(map(math.isnan, given)):
        raise BadValueError(f"`{written.strip()}` is no finite bound", "give a finite number, for example `< 30 min`")
    return found


def at_most(metric: str, most: str) -> Limit:
    """A bound that is given without its sign, as `--deadline 12h` has it.

    Raises:
        BadValueError: It is no quantity, or a budget without a currency.
    """
    if metric_of(figure_named(metric)).unit == MONEY:
        parse_price(most, {"": 1.0}, _EXAMPLE)
    return limit(metric, f"<= {most}")


def limits_of(given: Mapping[str, Any]) -> Iterator[tuple[str, Limit | BadValueError]]:
    """The limits of a mapping, each figure with one text or several; what is none as its error."""
    for metric, texts in given.items():
        for text in texts if isinstance(texts, (list, tuple)) else [texts]:
            try:
                yield metric, limit(metric, text)
            except BadValueError as error:
                yield metric, error


def check_limits(limits: Iterable[Expectation]) -> None:
    """Refuse limits that no figure can meet together.

    Raises:
        PodsimError: Two exclude each other, are in several currencies, or one leaves nothing.
    """
    together: dict[str, Limit] = {}
    for each in map(_priced, limits):
        if each.high <= 0 and (figure := METRICS.get(each.metric)) and figure.unit != SHARE:
            raise PodsimError(f"nothing can have {each.metric} {each.text}", do="give a bound above 0")
        known = together.get(each.metric)
        together[each.metric] = each if known is None else _both(known, each)
    currencies = {each.currency for each in together.values() if each.currency}
    if len(currencies) > 1:
        raise PodsimError(
            f"limits are in several currencies: {', '.join(sorted(currencies))}", do="give all in that of the prices"
        )


def _priced(bounds: Expectation) -> Limit:
    """Bounds that were given without a currency, as a limit."""
    if isinstance(bounds, Limit):
        return bounds
    return Limit(bounds.metric, bounds.text, bounds.low, bounds.high, bounds.open_ended)


def _both(one: Limit, other: Limit) -> Limit:
    low, high = max(one.low, other.low), min(one.high, other.high)
    if low > high or (low == high and (one.open_ended or other.open_ended)):
        what = f"limits contradict each other: {one.metric} {one.text} and {other.text}"
        raise PodsimError(what, do="drop or loosen one of them")
    if one.currency and other.currency and one.currency != other.currency:
        what = f"limits of {one.metric} are in {one.currency} and {other.currency}"
        raise PodsimError(what, do="give both in the currency of the prices")
    text = f"{one.text} and {other.text}"
    open_ended = one.open_ended or other.open_ended
    return replace(one, text=text, low=low, high=high, open_ended=open_ended, currency=one.currency or other.currency)


def currencies_of(limits: Iterable[Expectation]) -> set[str]:
    """Currencies in which bounds of costs are given."""
    return {each.currency for each in limits if isinstance(each, Limit) and each.currency}


def misses(limits: Iterable[Expectation], figures: Mapping[str, Any], whose: str = "") -> Iterator[str]:
    """The limits that figures miss, each with by how much.

    Args:
        limits: The limits.
        figures: The figures.
        whose: Of which job they are, to be written before each.
    """
    before = f"{whose}: " if whose else ""
    for each in limits:
        value = figures.get(each.metric)
        if not isinstance(value, (int, float)):
            yield f"{before}no {each.metric}"
        elif not each.holds(value):
            yield f"{before}{each.metric} {each.text}{_by(value, each)}"


def _by(value: float, missed: Expectation) -> str:
    bound = missed.high if value >= missed.high else missed.low
    if not bound:
        return ""
    off = value / bound - 1
    if not off:
        return ": it is the bound itself"
    return f": {off:+.1%}" if abs(off) >= _NEAR_NOTHING else f": {off:+.1e}"


def excess(limits: Iterable[Expectation], figures: Mapping[str, Any]) -> float:
    """How far figures miss limits in all, as shares of their bounds; nothing where they keep to them."""
    total = 0.0
    for each in limits:
        value = figures.get(each.metric)
        if not isinstance(value, (int, float)):
            total += 1.0
        elif not each.holds(value):
            bound = each.high if value >= each.high else each.low
            total += abs(value / bound - 1) + _NEAR_NOTHING if bound else 1.0
    return total
