"""Arrivals, batches and figures of serving, by hand; and what a user gets for wrong ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from podsim.engine.compiled import is_available
from podsim.errors import PodsimError, SpecError
from podsim.runs.serving import (
    Batching,
    ContinuousBatching,
    Load,
    Requests,
    Service,
    ServingOutcome,
    StaticBatching,
    load_curve,
    read_arrivals,
    saturation,
    serve,
)
from podsim.runs.serving import arrivals as reader
from podsim.runs.serving.outcome import DRAWN_INTERVALS, count_path, draw, grows, percentiles_of
from podsim.runs.serving.server import StepTable, served_compiled, served_in_python
from podsim.scenario import csv_file
from podsim.units import PS_PER_S
from tests.cases import every_case
from tests.serving_examples import LinearSteps, OddSteps

STEPS = LinearSteps(prompt_token_s=0.01, step_s=1.0)
"""A prompt of 100 tokens takes 1 s, times the size of its batch; a step takes 1 s."""


def requests(*rows: tuple[float, int, int]) -> Requests:
    arrivals, prompts, outputs = zip(*rows, strict=True)
    return Requests(tuple(round(arrival * PS_PER_S) for arrival in arrivals), prompts, outputs)


def served(batching: Batching, *rows: tuple[float, int, int], replicas: int = 1) -> ServingOutcome:
    return serve(Service(STEPS, batching, replicas), requests(*rows))


def seconds(times_ps: tuple[int, ...]) -> list[float]:
    return [time_ps / PS_PER_S for time_ps in times_ps]


def times(outcome: ServingOutcome) -> list[list[float]]:
    """Starts, first and last tokens. [s]"""
    line = outcome.timeline
    return [seconds(each) for each in (line.start_ps, line.first_token_ps, line.last_token_ps)]


# Arrivals


def test_even_arrivals_do_not_drift() -> None:
    arrivals = Load(((1, 1),), 300_001, pattern="fixed").at_rate(3.0).arrival_ps
    assert arrivals[:4] == (0, 333_333_333_333, 666_666_666_667, PS_PER_S)
    assert arrivals[-1] == 100_000 * PS_PER_S


def test_gaps_of_random_arrivals_are_exponential() -> None:
    """Mean 1/λ, and the share exp(-1) of gaps is longer than that; 20,000 gaps tell to about 2 %."""
    gaps = np.diff(Load(((1, 1),), 20_001, seed=7).at_rate(4.0).arrival_ps) / PS_PER_S
    assert gaps.mean() == pytest.approx(0.25, rel=0.02)
    assert gaps.std() == pytest.approx(0.25, rel=0.03)
    assert (gaps > 0.25).mean() == pytest.approx(math.exp(-1), rel=0.03)


def test_a_seed_fixes_all_and_another_changes_it() -> None:
    def load(seed: int) -> Load:
        return Load(((1, 1), (2, 2), (3, 3)), 50, seed)

    assert load(1).at_rate(2.0) == load(1).at_rate(2.0)
    assert load(1).at_rate(2.0).arrival_ps != load(2).at_rate(2.0).arrival_ps
    assert load(1).at_rate(2.0).prompt_tokens != load(2).at_rate(2.0).prompt_tokens


def test_seeded_arrivals_stay_the_same_over_versions() -> None:
    """-ln(1 - u) of the first numbers of Python's generator, seeded with this text."""
    assert Load(((1, 1),), 3, seed=1).at_rate(1.0).arrival_ps == (0, 883_432_250_652, 2_300_371_769_436)


def test_another_rate_keeps_rhythm_and_lengths() -> None:
    load = Load(((1, 1), (200, 30)), 50, seed=3)
    slow, fast = load.at_rate(1.0), load.at_rate(4.0)
    assert (slow.prompt_tokens, slow.output_tokens) == (fast.prompt_tokens, fast.output_tokens)
    assert all(abs(one - 4 * other) <= 2 for one, other in zip(slow.arrival_ps, fast.arrival_ps, strict=True))


def test_lengths_are_drawn_in_pairs_and_evenly() -> None:
    drawn = Load(((1, 10), (2, 20)), 10_000).at_rate(1.0)
    assert set(zip(drawn.prompt_tokens, drawn.output_tokens, strict=True)) == {(1, 10), (2, 20)}
    assert drawn.prompt_tokens.count(1) == pytest.approx(5_000, rel=0.03)


# Batches


def test_a_prompt_takes_its_own_time_whatever_was_taken_in_before() -> None:
    """Of 1, 4,097 and 8,193 tokens, one after the other on an idle replica: 0.01 s for each token."""
    outcome = served(ContinuousBatching(1), (0, 1, 1), (100, 4097, 1), (200, 8193, 1))
    assert times(outcome) == [[0, 100, 200], *2 * [[0.01, 140.97, 281.93]]]


def test_static_batch_starts_when_it_is_full() -> None:
    """The second comes at 1.5 and fills the batch: prefill of 2 · 1 s to 3.5, then 1 and 3 steps of 1 s."""
    outcome = served(StaticBatching(2, 10.0), (0, 100, 2), (1.5, 100, 4))
    assert times(outcome) == [[1.5, 1.5], [3.5, 3.5], [4.5, 6.5]]


def test_static_batch_starts_when_the_oldest_has_waited() -> None:
    """The first waits from 0 to 2; who comes at 2 is just in time; who comes later waits for the replica."""
    outcome = served(StaticBatching(3, 2.0), (0, 100, 1), (2, 50, 2), (2.5, 100, 1))
    assert times(outcome) == [[0 + 2, 2, 5], [4, 4, 6], [4, 5, 6]]


def test_static_batch_is_padded_to_the_longest_prompt() -> None:
    """Steps of 0.01 s per token of context: 301 of the padded batch, then 302."""
    service = Service(LinearSteps(prompt_token_s=0.01, context_s=0.01), StaticBatching(2))
    line = serve(service, requests((0, 100, 2), (0, 300, 3))).timeline
    assert seconds(line.first_token_ps) == [6.0, 6.0]
    assert seconds(line.last_token_ps) == [9.01, 12.03]


def test_sequences_that_are_done_keep_their_place_in_a_static_batch() -> None:
    """All three steps take the time of two sequences, and no one else gets in before the last ends."""
    service = Service(LinearSteps(sequence_s=1.0), StaticBatching(2))
    line = serve(service, requests((0, 1, 2), (0, 1, 4), (0, 1, 1))).timeline
    assert seconds(line.last_token_ps) == pytest.approx([2.0, 6.0, 6.0])
    assert line.start_ps[2] == line.last_token_ps[1]


def test_continuous_batch_lets_others_join_between_steps() -> None:
    """Prefill 0-1, steps from 1 on; who comes at 2.5 is prefilled 3-4 while the first pauses."""
    outcome = served(ContinuousBatching(2), (0, 100, 5), (2.5, 100, 2))
    assert times(outcome) == [[0, 3], [1, 4], [6, 5]]


def test_continuous_batch_is_left_by_those_who_are_done() -> None:
    """Two run; the short one leaves at 3 and the third is prefilled 3-4 in its place."""
    outcome = served(ContinuousBatching(2), (0, 100, 3), (0, 100, 2), (0, 100, 1))
    assert times(outcome) == [[0, 0, 3], [2, 2, 4], [5, 3, 4]]


def test_continuous_step_takes_the_time_of_the_longest_context() -> None:
    """Contexts 101 and 301, then 102 alone: 3.01 s and 1.02 s after a prefill of 6 s."""
    service = Service(LinearSteps(prompt_token_s=0.01, context_s=0.01), ContinuousBatching(2))
    line = serve(service, requests((0, 100, 3), (0, 300, 2))).timeline
    assert seconds(line.last_token_ps) == [10.03, 9.01]


def test_arrival_at_the_end_of_a_step_joins_there() -> None:
    outcome = served(ContinuousBatching(2), (0, 100, 5), (3, 100, 1))
    assert times(outcome)[0] == [0, 3]


def test_replicas_take_from_one_queue() -> None:
    """Three of 1 s on two replicas: the third goes to whichever is free first."""
    outcome = served(ContinuousBatching(1), (0, 100, 1), (0, 150, 1), (0.5, 100, 1), replicas=2)
    assert times(outcome)[0] == [0, 0, 1]
    assert outcome.timeline.busy_ps == (2 * PS_PER_S, 1.5 * PS_PER_S)
    assert outcome.utilization == 3.5 / 4


def test_two_replicas_may_start_batches_at_one_instant() -> None:
    outcome = served(StaticBatching(2), *[(0, 100, 1)] * 5, replicas=2)
    assert times(outcome)[0] == [0, 0, 0, 0, 2]


# Batches in flight

ALONE, CROWDED = LinearSteps(prompt_token_s=0.01, step_s=1.0), LinearSteps(prompt_token_s=0.02, step_s=3.0)
"""A prompt of 100 tokens takes 1 s or 2 s, a step 1 s or 3 s."""


@pytest.mark.parametrize("batching", [ContinuousBatching(1), StaticBatching(1)])
def test_a_batch_pays_for_others_only_while_they_are_in_flight(batching: Batching) -> None:
    """Alone until 2.5 s; then the step under way ends at 3 s, and the next takes 3 s as two are in flight.

    The other one has its prompt taken in from 2.5 s to 4.5 s and leaves; the last step is alone again.
    """
    service = Service(ALONE, batching, 1, (CROWDED,))
    line = serve(service, requests((0, 100, 5), (2.5, 100, 1))).timeline
    assert seconds(line.first_token_ps) == [1.0, 4.5]
    assert seconds(line.last_token_ps) == [7.0, 4.5]
    assert seconds(line.busy_ps) == [7.0, 2.0]


@pytest.mark.parametrize("batching", [ContinuousBatching(1), StaticBatching(1)])
def test_one_request_on_an_idle_service_takes_the_steps_of_a_lone_batch(batching: Batching) -> None:
    """1 s of prefill, 4 steps of 1 s, however many could be in flight."""
    for crowded in ((), (CROWDED,), (CROWDED,) * 7):
        assert seconds(serve(Service(ALONE, batching, 1, crowded), requests((0, 100, 5))).timeline.last_token_ps) == [5]


def test_an_idle_replica_is_taken_before_a_second_batch_goes_in_flight() -> None:
    """Two requests share nothing on two replicas; a third joins one of them, and both of that one slow down."""
    service = Service(ALONE, ContinuousBatching(1), 2, (CROWDED,))
    assert service.place_count == 4
    two = serve(service, requests((0, 100, 3), (0.5, 100, 3))).timeline
    assert seconds(two.last_token_ps) == [3.0, 3.5]
    three = serve(service, requests((0, 100, 3), (0, 100, 3), (0, 100, 3))).timeline
    assert seconds(three.last_token_ps) == [8.0, 3.0, 8.0]


# Step times


def test_sums_of_steps_in_any_order_of_asking() -> None:
    """Contexts 10, then below, then far above: each step is asked for once and rounded by itself."""
    steps = OddSteps(97)
    table, single = StepTable(steps), StepTable(OddSteps(97))
    for context, count in ((10, 5), (4, 3), (30, 2), (1, 40), (12, 0)):
        expected = sum(round(OddSteps(97).decode_s(3, each) * PS_PER_S) for each in range(context, context + count))
        assert table.decode_ps(3, context, count) == expected
    assert len(steps.asked) == len(set(steps.asked))
    assert single.decode_ps(3, 1, 40) == table.decode_ps(3, 1, 40)


@pytest.mark.parametrize(("elapsed", "steps"), [(0.0, 0), (0.5, 1), (1.0, 1), (1.001, 2), (3.0, 3), (9.0, 3)])
def test_steps_until_an_instant(elapsed: float, steps: int) -> None:
    table = StepTable(LinearSteps(step_s=1.0))
    assert table.steps_until(1, 7, 3, round(elapsed * PS_PER_S)) == steps


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan, 1e-13])
def test_a_step_that_takes_no_time_or_for_ever(wrong: float) -> None:
    service = Service(LinearSteps(step_s=wrong), ContinuousBatching(1))
    with pytest.raises(PodsimError) as caught:
        serve(service, requests((0, 1, 2)))
    assert str(caught.value) == (
        f"a decode step of 1 sequences at 2 tokens takes {wrong:g} s\n"
        "  do: give every step a finite time of 1 ps or more"
    )


def test_times_beyond_64_bits_are_served_in_python() -> None:
    """A prefill of 10^8 s is 10^20 ps, which 64 bits do not hold: 10^8 s is more than 100 days, and is told so."""
    service = Service(LinearSteps(prompt_token_s=1e8), ContinuousBatching(1))
    assert served_compiled(service, requests((0, 1, 1))) is None
    assert served_in_python(service, requests((0, 1, 1))).last_token_ps == (10**20,)


@pytest.mark.skipif(not is_available(), reason="built without a C compiler")
def test_an_error_of_a_step_passes_through_the_compiled_core() -> None:
    """The second request finds a step that is not known; a watch that is interrupted ends the run as well."""

    class Unknown(LinearSteps):
        def prefill_s(self, batch: int, prompt_tokens: int) -> float:
            if prompt_tokens == 2:
                raise KeyError(prompt_tokens)
            return 1.0

    with pytest.raises(KeyError):
        served_compiled(Service(Unknown(step_s=1.0), ContinuousBatching(1)), requests((0, 1, 3), (1, 2, 1)))

    def interrupted(names: Sequence[str]) -> Iterator[str]:
        yield names[0]
        raise KeyboardInterrupt

    many = Load(((1, 1),), 1_001).at_rate(1.0)
    with pytest.raises(KeyboardInterrupt):
        served_compiled(Service(STEPS, ContinuousBatching(1)), many, interrupted)


# Figures


def test_figures_by_hand() -> None:
    """Two at once and one at 4, one by one: 0-1-3 (2 steps), 3-4 (none), 4-5-6 (1 step)."""
    outcome = served(ContinuousBatching(1), (0, 100, 3), (0, 100, 1), (4, 100, 2))
    assert times(outcome) == [[0, 3, 4], [1, 4, 5], [3, 4, 6]]
    assert outcome.time_to_first_token.p50_s == 1.0
    assert outcome.time_to_first_token.p95_s == outcome.time_to_first_token.p99_s == 4.0
    assert outcome.time_to_first_token.mean_s == 2.0
    assert (outcome.latency.p50_s, outcome.latency.p99_s, outcome.latency.mean_s) == (3.0, 4.0, 3.0)
    assert outcome.time_per_output_token is not None
    assert outcome.time_per_output_token.mean_s == 1.0
    assert outcome.offered_per_s == 2 / 4
    assert outcome.throughput_requests_per_s == 3 / 6
    assert outcome.throughput_tokens_per_s == 6 / 6
    assert outcome.utilization == 1.0
    assert outcome.mean_batch == 1.0
    assert outcome.mean_waiting == 3 / 6
    assert outcome.mean_present == (3 + 4 + 2) / 6
    assert outcome.queue_grows is None
    assert outcome.warning is None


def test_time_counts_from_the_first_arrival() -> None:
    early, late = (served(ContinuousBatching(1), (at, 100, 3), (at + 1, 100, 1)) for at in (0, 1_000))
    assert late.latency == early.latency
    assert late.utilization == early.utilization == 1.0
    assert late.queue == early.queue


def test_one_token_has_no_time_per_token() -> None:
    assert served(ContinuousBatching(1), (0, 100, 1)).time_per_output_token is None
    assert served(ContinuousBatching(1), (0, 100, 1)).offered_per_s is None


@pytest.mark.parametrize("count", [1, 2, 3, 19, 20, 21, 140, 1_000])
def test_percentiles_are_observed_times(count: int) -> None:
    values = [3 * number * PS_PER_S for number in range(count)]
    found = percentiles_of(values)
    for share, value in ((0.50, found.p50_s), (0.95, found.p95_s), (0.99, found.p99_s)):
        assert value == np.percentile(values, 100 * share, method="inverted_cdf") / PS_PER_S
        assert sum(each / PS_PER_S <= value for each in values) >= share * count - 1e-9
        assert sum(each / PS_PER_S < value for each in values) < share * count


def test_ratios_have_percentiles_too() -> None:
    """10 s over 4 tokens, 9 s over 3, 8 s over 8."""
    found = percentiles_of([each * PS_PER_S for each in (10, 9, 8)], [4, 3, 8])
    assert (found.p50_s, found.p95_s) == (2.5, 3.0)
    assert found.mean_s == pytest.approx(6.5 / 3)


def test_queue_is_drawn_with_its_integral_and_its_peaks() -> None:
    """5,000 ups and downs in 1,000 intervals; a spike of 50 of one picosecond stays in the peaks."""
    ups = [20 * number for number in range(5_000)] + [77_777] * 50
    downs = [20 * number + 10 for number in range(5_000)] + [77_778] * 50
    path = count_path(ups, downs, 100_000)
    drawn = draw(path)
    assert len(drawn.mean) == len(drawn.peak) == len(drawn.time_s) - 1 == DRAWN_INTERVALS
    widths = np.diff(drawn.time_s) * PS_PER_S
    assert sum(widths * drawn.mean) == pytest.approx(path.area_ps) == 50_000 + 50
    assert max(drawn.peak) in (50, 51)
    assert drawn.time_s[0] == 0.0 and drawn.time_s[-1] == 100_000 / PS_PER_S


def test_who_does_not_wait_is_not_in_the_queue() -> None:
    outcome = served(ContinuousBatching(4), (0, 100, 3), (9, 100, 3))
    assert max(outcome.queue.peak) == 0


def test_a_queue_that_swings_does_not_grow() -> None:
    """Up by one at each of ten instants, then all down: for ever. With one more left behind each time, it grows."""
    ups = [number * 100 for number in range(1_000)]
    downs = [(number // 10 * 10 + 9) * 100 + 50 for number in range(1_000)]
    assert grows(count_path(ups, downs, 100_000), 1_000, 99_900) is False
    kept = [down for number, down in enumerate(downs) if number % 10]
    assert grows(count_path(ups, kept, 100_000), 1_000, 99_900) is True
    assert grows(count_path(ups[:50], downs[:50], 5_000), 50, 4_900) is None


@pytest.mark.parametrize(("first", "last", "growing"), [(0, 25, False), (25, 50, True)])
def test_the_first_quarter_of_the_arrivals_is_warm_up(first: int, last: int, growing: bool) -> None:
    """Two of each thousand requests stay for ever, in one quarter of the time alone; a queue may fill up first.

    Seen from the first arrival on, a gain in 7.5 of 30 slices would be more than two standard errors of itself.
    """
    ups = [instant * 10 for instant in range(10_000)]
    stays = range(first * 100, last * 100)
    downs = [up + 5 for number, up in enumerate(ups) if number not in stays]
    assert grows(count_path(ups, downs, 100_000), len(ups), ups[-1]) is growing


# Rates


def test_load_curve_rises_and_ends_above_saturation() -> None:
    service = Service(LinearSteps(prompt_token_s=1e-5, step_s=0.01, sequence_s=0.001), ContinuousBatching(8))
    load = Load(((100, 20), (50, 40)), 3_000, seed=6)
    limit = saturation(service, load, margin=0.1)
    assert limit.confirmed
    points = load_curve(service, load, [share * limit.rate_per_s for share in (0.2, 0.6, 0.9, 1.3)])
    tails = [point.outcome.latency.p99_s for point in points]
    assert tails == sorted(tails)
    assert [point.outcome.queue_grows for point in points] == [False, False, False, True]
    throughputs = [point.outcome.throughput_requests_per_s / point.rate_per_s for point in points]
    assert throughputs[:3] == pytest.approx([1, 1, 1], rel=0.05)
    assert points[-1].outcome.throughput_requests_per_s == pytest.approx(limit.rate_per_s, rel=0.05)


def test_more_than_can_be_served_is_an_answer() -> None:
    """One request/s can be served; 4/s come for 250 s, and the last leaves after 1,000 s."""
    outcome = serve(Service(STEPS, ContinuousBatching(1)), Load(((100, 1),), 1_000, pattern="fixed").at_rate(4.0))
    assert outcome.queue_grows is True
    assert outcome.warning == (
        "the queue grows: 4 requests/s come and 1/s are served; waiting and latency depend on how long the run lasts\n"
        "  do: offer less, or serve with more replicas or a larger batch"
    )


# Files

HEADER = "arrival_s,prompt_tokens,output_tokens\n"


def test_a_file_of_arrivals(tmp_path: Path) -> None:
    """Columns in any order, others ignored, with spaces, quotes, blank lines, a mark of byte order and CRLF."""
    path = tmp_path / "trace.csv"
    path.write_bytes(
        b"\xef\xbb\xbfoutput_tokens, who ,arrival_s,prompt_tokens\r\n"
        b'7,"ann",1000.5,10\r\n\r\n8,,1000.5, 20 \r\n"9",x,1.0025e3,30\r\n'
    )
    read = read_arrivals(path)
    assert read == Requests((0, 0, 2 * PS_PER_S), (10, 20, 30), (7, 8, 9))


def test_times_may_count_from_any_origin() -> None:
    """Unix seconds of a day in 2023: only the days behind the first request are limited, to a hundred."""
    first, last = 1_700_000_000, 1_700_000_000 + 100 * 86_400
    read = reader.parse_arrivals(f"{HEADER}{first},5,5\n{last},5,5\n", "f.csv")
    assert read.arrival_ps == (0, 100 * 86_400 * PS_PER_S)
    with pytest.raises(SpecError, match=r"f\.csv:3:1 \[arrival_s\]: more than 100 days after the first"):
        reader.parse_arrivals(f"{HEADER}{first},5,5\n{last + 1},5,5\n", "f.csv")


def row(place: str, message: str, do: str) -> str:
    return f"f.csv:{place}: {message}\n  do: {do}"


def no_count(place: str, text: str) -> str:
    return row(place, f"needs a whole number from 1 to 1048576, not {text}", "write for example `128`")


def no_time(text: str) -> str:
    return row("2:1 [arrival_s]", f"needs a time of 0 to 1e+10 seconds, not `{text}`", "write for example `0.25`")


PROMPT, OUTPUT, SORT = "2:2 [prompt_tokens]", "2:3 [output_tokens]", "sort the rows by arrival_s"
EVERY = "give one value for every column; quote those with commas"
FIRST = "let the first line be arrival_s,prompt_tokens,output_tokens"
NONE = "columns `arrival_s`, `prompt_tokens`, `output_tokens` not found"
OPEN = row("2:1", "cannot be read: unexpected end of data", "close quotes, or save it as CSV")
BAD_ROWS = {
    "unsorted": (HEADER + "1,5,5\n2.5,5,5\n 2.0,5,5\n", row("4:1 [arrival_s]", "2.0 comes before 2.5, above", SORT)),
    "negative prompt": (HEADER + "1,-5,5\n", no_count(PROMPT, "`-5`")),
    "no output": (HEADER + "1,5,0\n", no_count(OUTPUT, "`0`")),
    "half a token": (HEADER + "1,5,1.5\n", no_count(OUTPUT, "`1.5`")),
    "empty value": (HEADER + "1,,5\n", no_count(PROMPT, "nothing")),
    "too many tokens": (HEADER + "1,9999999999,5\n", no_count(PROMPT, "`9999999999`")),
    "other digits": (HEADER + "1,٣,5\n", no_count(PROMPT, "`٣`")),
    "negative time": (HEADER + "-1,5,5\n", no_time("-1")),
    "no number": (HEADER + "nan,5,5\n", no_time("nan")),
    "time without end": (HEADER + "1e999,5,5\n", no_time("1e999")),
    "milliseconds": (
        HEADER + "0,5,5\n8640001,5,5\n",
        row("3:1 [arrival_s]", "more than 100 days after the first", "cut the file; arrival_s is in seconds"),
    ),
    "too few values": (HEADER + "1,5\n", row("2:1", "has 2 values, not 3", EVERY)),
    "too many values": (HEADER + "1,5,5,5\n", row("2:1", "has 4 values, not 3", EVERY)),
    "open quote": (HEADER + '1,"5,5\n', OPEN),
    "text behind a quote": (
        HEADER + '"1"x,5,5\n',
        OPEN.replace("unexpected end of data", "',' expected after '\"'"),
    ),
    "missing column": (
        "arrival_s,prompt,output_tokens\n1,5,5\n",
        row("1:1", "column `prompt_tokens` not found", FIRST),
    ),
    "no header": ("0,5,5\n", row("1:1", NONE, FIRST)),
    "column twice": (
        "arrival_s," + HEADER + "0,0,5,5\n",
        row("1:2 [arrival_s]", "this column is there twice", "remove one of them"),
    ),
    "open quote in the header": ('arrival_s,"prompt\n1,5,5\n', OPEN.replace(":2:", ":1:")),
    "header only": (HEADER, row("1:1", "there are no rows", "add a line for each")),
    "empty": ("", row("1:1", NONE, FIRST)),
    "blank": (" \n\n,,\n", row("1:1", NONE, FIRST)),
    "all problems together": (
        HEADER + "1,0,5\n2,5,5\n0.5,5,5\n1\n",
        "\n".join(
            [
                no_count(PROMPT, "`0`"),
                row("4:1 [arrival_s]", "0.5 comes before 2.0, above", SORT),
                row("5:1", "has 1 values, not 3", EVERY),
            ]
        ),
    ),
}


@every_case("name", lambda: BAD_ROWS)
def test_a_wrong_file(name: str) -> None:
    text, message = BAD_ROWS[name]
    with pytest.raises(SpecError) as caught:
        reader.parse_arrivals(text, "f.csv")
    assert str(caught.value) == message


def test_what_spreadsheets_write_is_read() -> None:
    """Numbers with a point, rows of commas alone, a value over two lines, and any length of a line."""
    text = f'note,{HEADER}"two\nlines",0.50,128.0,1e1\n,,,\n{"x" * 20_000},+1.5,5,5\n'
    assert reader.parse_arrivals(text, "f.csv") == Requests((0, PS_PER_S), (128, 5), (10, 5))
    with pytest.raises(SpecError, match=r"^f\.csv:4:3 \[prompt_tokens\]: needs"):
        reader.parse_arrivals(f'note,{HEADER}"two\nlines",0.5,1,1\n,0.5,x,1\n', "f.csv")


def test_problems_end_somewhere() -> None:
    with pytest.raises(SpecError) as caught:
        reader.parse_arrivals(HEADER + "x,5,5\n" * 1_000, "f.csv")
    assert len(caught.value.problems) == 21
    assert str(caught.value.problems[-1]) == "f.csv:21:1: the rest was not read\n  do: mend what is above first"


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("latin.csv").write_bytes(HEADER.encode() + b"1,5,5\n2,\xe95,5\n")
    Path("huge.csv").write_bytes(HEADER.encode() + b"1,5,5\n" * 20)
    monkeypatch.setattr(csv_file, "MAX_FILE_BYTES", 1 << 20)
    assert len(read_arrivals(Path("huge.csv"))) == 20
    with Path("huge.csv").open("ab") as file:
        file.truncate(1 << 21)
    unread, path = "the file cannot be read: ", "check the path and its permissions"
    cases = {
        "folder": "folder:1:1: this is a folder, not a file\n  do: name a file in it",
        "none.csv": f"none.csv:1:1: {unread}No such file or directory\n  do: {path}",
        "latin.csv": "latin.csv:3:1: the file is not text in UTF-8\n  do: save it as UTF-8",
        "huge.csv": "huge.csv:1:1: the file has more than 1 MiB\n  do: cut it into parts",
    }
    for name, message in cases.items():
        with pytest.raises(SpecError) as caught:
            read_arrivals(Path(name))
        assert str(caught.value) == message


def test_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_REQUESTS", 3)
    assert len(reader.parse_arrivals(HEADER + "1,5,5\n" * 3, "f.csv")) == 3
    with pytest.raises(SpecError) as caught:
        reader.parse_arrivals(HEADER + "1,5,5\n" * 4, "f.csv")
    assert str(caught.value) == "f.csv:5:1: there are more than 3 rows\n  do: cut the file into parts"


# Arguments

ONE = requests((0, 1, 1))
RATE = "do: give a finite rate above 0, for example 2.5"
BATCH = "do: give a whole number of 1 or more"
BAD_ARGUMENTS = {
    "no rate": (lambda: Load(((1, 1),), 5).at_rate(0.0), f"a rate of 0 requests/s cannot be served\n  {RATE}"),
    "negative rate": (lambda: Load(((1, 1),), 5).at_rate(-2.0), f"a rate of -2 requests/s cannot be served\n  {RATE}"),
    "endless rate": (
        lambda: Load(((1, 1),), 5).at_rate(math.inf),
        f"a rate of inf requests/s cannot be served\n  {RATE}",
    ),
    "a rate of a curve": (
        lambda: load_curve(Service(STEPS, ContinuousBatching(1)), Load(((1, 1),), 5), [1.0, math.nan]),
        f"a rate of nan requests/s cannot be served\n  {RATE}",
    ),
    "a rate too low": (
        lambda: Load(((1, 1),), 5, pattern="fixed").at_rate(1e-9),
        "5 requests at 1e-09/s come over more than 100 days\n  do: give fewer requests, or a higher rate",
    ),
    "a rate next to nothing": (
        lambda: Load(((1, 1),), 5).at_rate(5e-324),
        "5 requests at 4.94066e-324/s come over more than 100 days\n  do: give fewer requests, or a higher rate",
    ),
    "no requests": (lambda: Load(((1, 1),), 0), "`0` requests cannot be served\n  do: give 1 to 1,000,000 requests"),
    "none at all": (lambda: Requests((), (), ()), "`0` requests cannot be served\n  do: give 1 to 1,000,000 requests"),
    "no lengths": (
        lambda: Load((), 5),
        "there are no lengths to draw from\n  do: give at least one pair of prompt and output",
    ),
    "empty prompt": (lambda: Load(((0, 1),), 5), "prompt of `0` tokens\n  do: give 1 to 1,048,576 tokens"),
    "negative output": (lambda: Requests((0,), (1,), (-1,)), "output of `-1` tokens\n  do: give 1 to 1,048,576 tokens"),
    "pattern": (
        lambda: Load(((1, 1),), 5, pattern="bursts"),  # type: ignore[arg-type]
        "`bursts` is not a pattern of arrivals\n  do: use `poisson` or `fixed`",
    ),
    "unequal": (
        lambda: Requests((0, 1), (1,), (1,)),
        "requests have unequal numbers of arrivals, prompts and outputs\n  do: give each request all three",
    ),
    "unsorted": (
        lambda: Requests((0, 5, 3), (1, 1, 1), (1, 1, 1)),
        "request 2 arrives before request 1\n  do: sort requests by arrival",
    ),
    "fractions of picoseconds": (
        lambda: Requests((0.5,), (1,), (1,)),  # type: ignore[arg-type]
        "arrivals are not whole picoseconds from 0 on\n  do: convert them with units.seconds_to_ps",
    ),
    "too long": (
        lambda: Requests((0, 10**20), (1, 1), (1, 1)),
        "requests come over more than 100 days\n  do: give fewer requests, or a higher rate",
    ),
    "no batch": (lambda: StaticBatching(0), f"a batch of `0` requests\n  {BATCH}"),
    "half a batch": (
        lambda: ContinuousBatching(1.5),  # type: ignore[arg-type]
        f"a batch of `1.5` requests\n  {BATCH}",
    ),
    "waiting for ever": (
        lambda: StaticBatching(2, math.inf),
        "a longest wait of inf s\n  do: give a finite number of seconds, 0 or more; the last batch may never be full",
    ),
    "batch too large": (
        lambda: Service(LinearSteps(step_s=1.0, max_batch=4), ContinuousBatching(5)),
        "a batch of 5 does not fit a replica that holds 4\n  do: batch at most 4 requests",
    ),
    "no replicas": (
        lambda: Service(STEPS, ContinuousBatching(1), 0),
        f"`0` replicas cannot serve\n  {BATCH}",
    ),
    "steps of years": (
        lambda: serve(Service(LinearSteps(prompt_token_s=1e9), ContinuousBatching(1)), ONE),
        "serving these requests takes more than 100 days\n  do: give fewer requests, or check the times of the steps",
    ),
    "too few to saturate": (
        lambda: saturation(Service(STEPS, ContinuousBatching(8), 2), Load(((1, 1),), 50), margin=0.1),
        "50 requests do not saturate 16 places\n  do: give 64 requests or more",
    ),
    "no margin": (
        lambda: saturation(Service(STEPS, ContinuousBatching(8)), Load(((1, 1),), 50), margin=0.0),
        "a margin of 0\n  do: give a share between 0 and 1, for example 0.05",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_a_wrong_argument(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(PodsimError) as caught:
        call()
    assert str(caught.value) == message
