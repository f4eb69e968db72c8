"""Serving in blocks of steps is serving token by token, and what holds for any queue holds here."""

from __future__ import annotations

import random
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.engine.compiled import is_available
from podsim.runs.serving import Batching, ContinuousBatching, Requests, Service, StaticBatching, Users, serve
from podsim.runs.serving.server import served_compiled, served_in_python
from podsim.units import PS_PER_S
from tests.serving_examples import OddSteps, TokenByToken

LENGTHS = st.integers(1, 12)
REQUESTS = st.lists(st.tuples(st.integers(0, 30), LENGTHS, LENGTHS), min_size=1, max_size=25)
SIZES = st.integers(1, 5)
BATCHINGS: st.SearchStrategy[Batching] = st.one_of(
    SIZES.map(ContinuousBatching),
    st.builds(StaticBatching, SIZES, st.integers(0, 40).map(lambda wait_ps: wait_ps / PS_PER_S)),
)


def made_of(rows: list[tuple[int, int, int]]) -> Requests:
    gaps, prompts, outputs = zip(*rows, strict=True)
    return Requests(tuple(accumulate(gaps)), prompts, outputs)


@settings(max_examples=400, deadline=None)
@given(
    rows=REQUESTS,
    batching=BATCHINGS,
    replica_count=st.integers(1, 3),
    spreads=st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
def test_blocks_equal_single_tokens(
    rows: list[tuple[int, int, int]], batching: Batching, replica_count: int, spreads: list[int]
) -> None:
    """Also with several batches in flight in a replica, whose steps take another time for each number of them.

    The compiled core and Python agree in all, the working time of each batch included.
    """
    requests = made_of(rows)
    alone, *crowded = map(OddSteps, spreads)
    service = Service(alone, batching, replica_count, tuple(crowded))
    timeline = serve(service, requests).timeline
    assert served_in_python(service, requests) == timeline
    if is_available():
        assert served_compiled(service, requests) == timeline
    single = TokenByToken(requests, [OddSteps(spread) for spread in spreads], batching, replica_count)
    start, first, last = single.run()
    assert (list(timeline.start_ps), list(timeline.first_token_ps), list(timeline.last_token_ps)) == (
        start,
        first,
        last,
    )
    assert timeline.present.area_ps == single.present_area


@settings(max_examples=200, deadline=None)
@given(rows=REQUESTS, batching=BATCHINGS, replica_count=st.integers(1, 3))
def test_laws_of_any_queue(rows: list[tuple[int, int, int]], batching: Batching, replica_count: int) -> None:
    """Little's law L·T = Σ W in whole picoseconds, order of arrival, and nobody lost or served twice."""
    requests = made_of(rows)
    outcome = serve(Service(OddSteps(7), batching, replica_count), requests)
    line = outcome.timeline
    assert line.present.area_ps == sum(line.last_token_ps) - sum(requests.arrival_ps)
    assert line.waiting.area_ps == sum(line.start_ps) - sum(requests.arrival_ps)
    assert list(line.start_ps) == sorted(line.start_ps)
    for arrival, start, first, last, tokens in zip(
        requests.arrival_ps, line.start_ps, line.first_token_ps, line.last_token_ps, requests.output_tokens, strict=True
    ):
        assert arrival <= start < first and last - first >= tokens - 1
    assert line.waiting.count.min() >= 0
    assert line.present.count[-1] == line.waiting.count[-1] == 0
    assert line.present.count.max() <= batching.size * replica_count + line.waiting.count.max()
    assert 0 < outcome.utilization <= 1
    assert 0 < outcome.mean_batch <= batching.size


@settings(max_examples=200, deadline=None)
@given(
    rows=REQUESTS,
    batching=BATCHINGS,
    replica_count=st.integers(1, 3),
    spreads=st.lists(st.integers(1, 9), min_size=1, max_size=2),
    users=st.integers(1, 6),
    thoughts=st.randoms(use_true_random=False),
)
def test_users_come_again_when_they_have_thought(
    rows: list[tuple[int, int, int]],
    batching: Batching,
    replica_count: int,
    spreads: list[int],
    users: int,
    thoughts: random.Random,
) -> None:
    """In a closed loop every arrival but the first of a user is the end of a request and a thought behind it.

    The same arrivals in an open one make the same timeline, and the compiled core agrees with Python.
    """
    _, prompts, outputs = zip(*rows, strict=True)
    count = min(users, len(rows))
    first = tuple(sorted(thoughts.randrange(40) for _ in range(count)))
    closed = Users(first, tuple(thoughts.randrange(1, 40) for _ in rows), prompts, outputs)
    alone, *crowded = map(OddSteps, spreads)
    service = Service(alone, batching, replica_count, tuple(crowded))
    timeline = served_in_python(service, closed)
    if is_available():
        assert served_compiled(service, closed) == timeline
    assert served_in_python(service, timeline.requests) == timeline
    again = sorted(end + think for end, think in zip(timeline.last_token_ps, closed.think_ps, strict=True))
    assert list(timeline.requests.arrival_ps) == sorted([*first, *again])[: len(rows)]
    assert timeline.present.count.max() <= count


@settings(max_examples=50, deadline=None)
@given(rows=REQUESTS, batching=BATCHINGS, replica_count=st.integers(1, 3))
def test_the_same_again_is_the_same(rows: list[tuple[int, int, int]], batching: Batching, replica_count: int) -> None:
    requests = made_of(rows)
    service = Service(OddSteps(5), batching, replica_count)
    assert serve(service, requests) == serve(service, requests)


@settings(max_examples=50, deadline=None)
@given(rows=REQUESTS, batching=BATCHINGS)
def test_nothing_is_asked_beyond_what_sequences_reach(rows: list[tuple[int, int, int]], batching: Batching) -> None:
    """A model may have no times for longer contexts or larger batches."""
    requests = made_of(rows)
    longest = max(requests.prompt_tokens) + max(requests.output_tokens) - 1
    for run in (served_compiled, served_in_python):
        steps = OddSteps(5)
        run(Service(steps, batching), requests)
        assert len(set(steps.asked)) == len(steps.asked)
        assert all(1 <= batch <= batching.size and 2 <= context <= longest for batch, context in steps.asked)
