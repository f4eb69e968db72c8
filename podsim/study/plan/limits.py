"""Limits: bounds of figures, with the currency of those that cost something, and what no figure can meet."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from podsim.errors import BadValueError, PodsimError
from podsim.metrics import METRICS, MONEY, SHARE, metric_of
from podsim.scenario.expectations import Expectation, expectation
from podsim.study.plan.figures import figure_named
from podsim.units import parse_price

_SIGNED_PRICE: Final = re.compile(r"\s*(<=|>=|<|>)\s*(.+?[A-Z]{3})\s*")
_SIGN: Final = re.compile(r"\s*[<>]")
_NEAR_NOTHING: Final = 0.0005
_EXAMPLE: Final = "500 USD"


@dataclass(frozen=True, slots=True)
class Limit(Expectation):
    """Bounds of a figure; those of a cost may have a currency."""

    currency: str = ""


def limit(metric: str, text: float | str) -> Limit:
    """The bounds that a text stands for.

    Args:
        metric: A figure, by its key in a result or a short name.
        text: An expectation; one of a cost may have a currency.

    Raises:
        BadValueError: It is none, its unit does not fit, or no or every figure keeps to it.

    >>> limit("deadline", "<= 12 h").high, limit("cost", "< 500 USD").currency
    (43200.0, 'USD')
    """
    key, written, currency = figure_named(metric), str(text), ""
    bounds: float | str = text
    if metric_of(key).unit == MONEY and (priced := _SIGNED_PRICE.fullmatch(written)):
        amount, currency = parse_price(priced[2], {"": 1.0}, _EXAMPLE)
        written, bounds = written.strip(), f"{priced[1]} {amount!r}"
    found = expectation(key, bounds)
    given = [each for each in (found.low, found.high) if not math.isinf(each)]
    if len(given) != 1 + (not _SIGN.match(written)) or any(map(math.isnan, given)):
        raise BadValueError(f"`{written.strip()}` is no finite bound", "give a finite number, for example `< 30 min`")
    return Limit(key, written, found.low, found.high, found.open_ended, currency)


def at_most(metric: str, most: str) -> Limit:
    """A bound that is given without its sign, as `--deadline 12h` has it.

    Raises:
        BadValueError: It is no quantity, or a budget without a currency.
    """
    if metric_of(figure_named(metric)).unit == MONEY:
        parse_price(most, {"": 1.0}, _EXAMPLE)
    return limit(metric, f"<= {most}")


def check_limits(limits: Iterable[Expectation]) -> None:
    """Refuse limits that no figure can meet together.

    Raises:
        PodsimError: Two exclude each other, are in several currencies, or one leaves nothing.
    """
    together: dict[str, Expectation] = {}
    currencies: dict[str, set[str]] = {}
    for each in limits:
        if each.high <= 0 and (figure := METRICS.get(each.metric)) and figure.unit != SHARE:
            raise PodsimError(f"nothing can have {each.metric} {each.text}", do="give a bound above 0")
        known = together.get(each.metric)
        together[each.metric] = each if known is None else _both(known, each)
        currencies.setdefault(each.metric, set()).update(currencies_of([each]))
        if len(own := sorted(currencies[each.metric])) > 1:
            what = f"limits of {each.metric} are in {' and '.join(reversed(own))}"
            raise PodsimError(what, do="give both in the currency of the prices")
    if len(several := sorted(set().union(*currencies.values()))) > 1:
        raise PodsimError(
            f"limits are in several currencies: {', '.join(several)}", do="give all in that of the prices"
        )


def _both(one: Expectation, other: Expectation) -> Expectation:
    low, high, is_open = max(one.low, other.low), min(one.high, other.high), one.open_ended or other.open_ended
    if low > high or (low == high and is_open):
        what = f"limits contradict each other: {one.metric} {one.text} and {other.text}"
        raise PodsimError(what, do="drop or loosen one of them")
    return replace(one, text=f"{one.text} and {other.text}", low=low, high=high, open_ended=is_open)


def currencies_of(limits: Iterable[Expectation]) -> set[str]:
    """Currencies in which bounds of costs are given."""
    return {each.currency for each in limits if isinstance(each, Limit) and each.currency}


def misses(limits: Iterable[Expectation], figures: Mapping[str, Any], whose: str = "") -> Iterator[str]:
    """The limits that figures miss, each with by how much, behind the name of the job whose they are."""
    before = f"{whose}: " if whose else ""
    yield from (f"{before}{text}" for _, text in _missed(limits, figures))


def excess(limits: Iterable[Expectation], figures: Mapping[str, Any]) -> float:
    """How far figures miss limits in all, as shares of their bounds; nothing where they keep to them."""
    return sum(size for size, _ in _missed(limits, figures))


def _missed(limits: Iterable[Expectation], figures: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """How far each limit is missed, as a share of its bound, and in words."""
    for each in limits:
        value = figures.get(each.metric)
        if not isinstance(value, (int, float)):
            yield 1.0, f"no {each.metric}"
        elif not each.holds(value):
            bound = each.high if value >= each.high else each.low
            off = value / bound - 1 if bound else 0.0
            words = f": {off:+.1%}" if abs(off) >= _NEAR_NOTHING else f": {off:+.1e}"
            words = "" if not bound else words if off else ": it is the bound itself"
            yield abs(off) + _NEAR_NOTHING if bound else 1.0, f"{each.metric} {each.text}{words}"
