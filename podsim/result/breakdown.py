"""Breakdowns that add up exactly, in picoseconds and in seconds."""

from collections import Counter
from collections.abc import Mapping
from math import ulp

from podsim.engine.trace import CONTENTION, Trace
from podsim.result.kinds import in_kind_order
from podsim.units import ps_to_seconds


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide a whole number in proportion to weights, so that the parts add up to it exactly.

    Each part is its exact share rounded down; the units left over go to the largest remainders, and among
    equal remainders to the first (Hamilton's method of largest remainders). Each part differs from its exact share by
    less than one unit.

    >>> apportion(10, {"a": 1, "b": 1, "c": 1})
    {'a': 4, 'b': 3, 'c': 3}
    """
    weight_sum = sum(weights.values())
    if weight_sum == 0:
        if total:
            raise ValueError(f"{total} cannot be divided among weights that are all zero")
        return dict.fromkeys(weights, 0)
    shares = {name: divmod(total * weight, weight_sum) for name, weight in weights.items()}
    parts = {name: whole for name, (whole, _) in shares.items()}
    left_over = total - sum(parts.values())
    for name in sorted(shares, key=lambda name: shares[name][1], reverse=True)[:left_over]:
        parts[name] += 1
    return parts


def mean_account(lanes: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the mean over the lanes of the time spent on each kind. [ps]

    Every lane's account must add up to the same makespan; the mean then adds up to it too, exactly.

    >>> mean_account({"ipu0": {"matmul": 7, "bubble": 3}, "ipu1": {"matmul": 10}})
    {'matmul': 9, 'bubble': 1}
    """
    makespans_ps = {sum(account.values()) for account in lanes.values()}
    if len(makespans_ps) != 1:
        raise ValueError(f"accounts must add up to one makespan, these add up to {sorted(makespans_ps)}")
    totals: Counter[str] = Counter()
    for account in lanes.values():
        totals.update(account)
    return apportion(makespans_ps.pop(), {kind: totals[kind] for kind in in_kind_order(totals)})


def shared_account(trace: Trace) -> dict[str, dict[str, int]]:
    """Return the mean contention of the lanes by kind, and by the kind with which it shared a channel. [ps]

    The times add up to the contention of `mean_account`, exactly.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    for lane in trace.lanes:
        pairs.update(trace.shared.get(lane, {}))
    mean_ps = mean_account(trace.lanes).get(CONTENTION, 0)
    names = {f"{kind}/{rival}": (kind, rival) for kind, rival in sorted(pairs)}
    found: dict[str, dict[str, int]] = {}
    for name, time_ps in apportion(mean_ps, {name: pairs[pair] for name, pair in names.items()}).items():
        kind, rival = names[name]
        found.setdefault(kind, {})[rival] = time_ps
    return found


def exact_seconds(account_ps: Mapping[str, int]) -> dict[str, float]:
    """Return the times of an account in seconds; they add up exactly to its total. [s]

    Every value is a multiple of the spacing of floating-point numbers at the total, so that sums are exact in any
    order. The spacing is below a picosecond for totals under an hour.

    >>> parts = exact_seconds({"matmul": 100_000_000_000, "bubble": 200_000_000_000})
    >>> sum(parts.values()) == 0.3, 0.1 + 0.2 == 0.3
    (True, False)
    """
    total_s = ps_to_seconds(sum(account_ps.values()))
    spacing_s = ulp(total_s)
    return {kind: part * spacing_s for kind, part in apportion(int(total_s / spacing_s), account_ps).items()}
