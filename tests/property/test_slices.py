"""Operations inside a pass add up to it, exactly, whatever their cycles are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from podsim.engine.trace import Record
from podsim.models.op import Elementwise
from podsim.program.passes_in_order import Repeat
from podsim.result.timeline import Slice, slices_of
from podsim.tiles.account import Account
from podsim.tiles.model import OpCost
from podsim.units import cycles_to_ps

cycles = st.one_of(st.just(0.0), st.floats(0.25, 1e9))
accounts = st.builds(Account, cycles, cycles, cycles, cycles, cycles, cycles)
repeats = st.builds(
    Repeat,
    st.integers(1, 50),
    st.lists(accounts, min_size=1, max_size=6).map(
        lambda given: tuple(
            ("block", OpCost(Elementwise(name=f"op{number}", shape=(1,), function="add"), account))
            for number, account in enumerate(given)
        )
    ),
)
passes = st.lists(repeats, min_size=1, max_size=4).map(tuple)


def recorded(repeats: tuple[Repeat, ...], start_ps: int) -> list[Record]:
    """The pass as the engine leaves it: one stretch per kind of time."""
    whole = Account()
    for repeat in repeats:
        for _, cost in repeat.operations:
            whole += cost.account.times(repeat.count)
    records = []
    for kind, count in whole.parts():
        end_ps = start_ps + cycles_to_ps(count, 1.33e9)
        records.append(Record("ipu0", kind, "forward 0", start_ps, end_ps))
        start_ps = end_ps
    return records


@given(passes, st.integers(0, 10**12))
def test_operations_fill_their_pass_to_the_picosecond(repeats: tuple[Repeat, ...], start_ps: int) -> None:
    records = [each for each in recorded(repeats, start_ps) if each.end_ps > each.start_ps]
    if not records:
        return
    (whole,) = slices_of(records, {"forward 0": repeats})
    assert (whole.start_ps, whole.end_ps) == (records[0].start_ps, records[-1].end_ps)
    check_nested(whole)
    times: dict[str, int] = {}
    for leaf in whole.leaves:
        times[leaf.category] = times.get(leaf.category, 0) + leaf.end_ps - leaf.start_ps
    assert times == {record.kind: record.end_ps - record.start_ps for record in records}


def check_nested(each: Slice) -> None:
    """What is inside follows one another without gaps, from its begin to its end."""
    if each.inside:
        assert (each.inside[0].start_ps, each.inside[-1].end_ps) == (each.start_ps, each.end_ps)
        assert all(before.end_ps == after.start_ps for before, after in pairwise(each.inside))
    for part in each.inside:
        check_nested(part)
