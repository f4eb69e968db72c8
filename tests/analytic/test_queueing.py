"""Serving against closed forms of queueing theory."""

from __future__ import annotations

import heapq
import math
import random

import pytest

import podsim
from podsim.runs.serving import (
    ContinuousBatching,
    Load,
    Requests,
    Service,
    ServingOutcome,
    StaticBatching,
    Users,
    saturation,
    serve,
)
from podsim.units import PS_PER_S, seconds_to_ps
from tests.serving_examples import LinearSteps, at_rate

pytestmark = pytest.mark.slow  # tens of thousands of requests each
COUNT = 60_000
MEAN_TOKENS = 10_000
SERVICE_S = 0.1
ONE_BY_ONE = ContinuousBatching(1)
PROMPTS = LinearSteps(prompt_token_s=SERVICE_S / MEAN_TOKENS)
"""A prompt of the mean length takes 0.1 s."""


def exponential_prompts(seed: int) -> list[int]:
    """Lengths of 10,000 tokens in the mean: fine enough for an exponential service time."""
    generator = random.Random(seed)
    return [math.ceil(generator.expovariate(1 / MEAN_TOKENS)) for _ in range(COUNT)]


def queue_of(load: float, *, exponential: bool, servers: int = 1) -> ServingOutcome:
    prompts = exponential_prompts(11) if exponential else [MEAN_TOKENS] * COUNT
    return serve(Service(PROMPTS, ONE_BY_ONE, servers), at_rate(load * servers / SERVICE_S, prompts, seed=23))


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_one_server_with_exponential_service(load: float) -> None:
    """M/M/1: a wait of ρ/(μ(1-ρ)) in the mean; it exceeds t with probability ρ·exp(-μ(1-ρ)t); L = ρ/(1-ρ)."""
    outcome = queue_of(load, exponential=True)
    assert outcome.queueing.mean_s == pytest.approx(load * SERVICE_S / (1 - load), rel=0.05)
    p95 = math.log(load / 0.05) * SERVICE_S / (1 - load)
    assert outcome.queueing.p95_s == pytest.approx(p95, rel=0.05)
    assert outcome.mean_present == pytest.approx(load / (1 - load), rel=0.05)
    assert outcome.utilization == pytest.approx(load, rel=0.02)
    assert outcome.queue_grows is False


def test_latency_of_exponential_service_is_exponential() -> None:
    """M/M/1: the share exp(-μ(1-ρ)t) stays longer than t, so percentiles are logarithms."""
    latency = queue_of(0.5, exponential=True).latency
    scale = SERVICE_S / (1 - 0.5)
    assert latency.p50_s == pytest.approx(scale * math.log(2), rel=0.04)
    assert latency.p95_s == pytest.approx(scale * math.log(20), rel=0.04)
    assert latency.p99_s == pytest.approx(scale * math.log(100), rel=0.06)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7, 0.85])
def test_one_server_with_constant_service(load: float) -> None:
    """M/D/1: a wait of ρ/(2μ(1-ρ)) in the mean; the share 1 - ρ does not wait at all."""
    outcome = queue_of(load, exponential=False)
    assert outcome.queueing.mean_s == pytest.approx(load * SERVICE_S / (2 * (1 - load)), rel=0.05)
    line = outcome.timeline
    at_once = sum(start == arrival for start, arrival in zip(line.start_ps, line.requests.arrival_ps, strict=True))
    assert at_once / COUNT == pytest.approx(1 - load, rel=0.03)


def test_decode_steps_serve_as_prefills_do() -> None:
    """M/D/1 again, with the service time in 100 tokens after the first: 100 steps of 1 ms."""
    steps, load = LinearSteps(step_s=0.001), Load(((1, 101),), COUNT, seed=5)
    wait = serve(Service(steps, ONE_BY_ONE), load.at_rate(7.0)).queueing
    assert wait.mean_s == pytest.approx(0.7 * 0.1 / (2 * 0.3), rel=0.05)


@pytest.mark.parametrize(("servers", "load"), [(2, 0.7), (3, 0.7), (8, 0.6)])
def test_several_servers_behind_one_queue(servers: int, load: float) -> None:
    """M/M/c: the share C of Erlang's formula waits, 1/(cμ - λ) in the mean; so a request waits C/(cμ - λ)."""
    offered = servers * load
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1 - load)
    share = last / (sum(terms) + last)
    outcome = queue_of(load, exponential=True, servers=servers)
    assert outcome.queueing.mean_s == pytest.approx(share * SERVICE_S / (servers * (1 - load)), rel=0.07)
    assert outcome.utilization == pytest.approx(load, rel=0.02)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.9), (2, 0.95), (5, 1.1)])
def test_waits_follow_the_recursion(servers: int, load: float) -> None:
    """G/G/c: whoever comes next goes to the server that is free first, at the later of that and its arrival."""
    outcome = queue_of(load, exponential=True, servers=servers)
    requests, free, starts = outcome.timeline.requests, [0] * servers, []
    for arrival, prompt in zip(requests.arrival_ps, requests.prompt_tokens, strict=True):
        starts.append(max(arrival, heapq.heappop(free)))
        heapq.heappush(free, starts[-1] + seconds_to_ps(PROMPTS.prefill_s(1, prompt)))
    assert list(outcome.timeline.start_ps) == starts


def test_sequences_that_never_wait_for_places() -> None:
    """M/D/∞: 200 steps of 1 ms, whatever the batch; who comes during a step joins at its end, 0.5 ms later."""
    outcome = serve(
        Service(LinearSteps(step_s=0.001), ContinuousBatching(1_000)), Load(((1, 201),), 20_000, seed=3).at_rate(500.0)
    )
    assert outcome.queueing.mean_s == pytest.approx(0.0005, rel=0.02)
    assert outcome.latency.mean_s == pytest.approx(0.2005, rel=0.001)
    assert outcome.mean_present == pytest.approx(500 * 0.2005, rel=0.02)
    assert outcome.time_per_output_token is not None
    assert outcome.time_per_output_token.p99_s == pytest.approx(0.001, rel=1e-6)


@pytest.mark.parametrize("rate", [1.0, 5.0, 9.99, 10.0])
def test_even_arrivals_below_saturation_do_not_wait(rate: float) -> None:
    """D/D/1 up to and at ρ = 1."""
    outcome = serve(Service(PROMPTS, ONE_BY_ONE), Load(((MEAN_TOKENS, 1),), 1_000, pattern="fixed").at_rate(rate))
    assert (outcome.queueing.p99_s, outcome.queueing.mean_s, outcome.mean_waiting) == (0, 0, 0)
    assert (outcome.latency.p50_s, outcome.latency.p99_s) == (SERVICE_S, SERVICE_S)
    assert outcome.queue_grows is False


@pytest.mark.parametrize("rate", [10.1, 12.5, 40.0])
def test_even_arrivals_above_saturation_wait_longer_and_longer(rate: float) -> None:
    """D/D/1 with ρ > 1: request k waits k·(S - 1/λ), and requests leave at the rate of the server."""
    outcome = serve(Service(PROMPTS, ONE_BY_ONE), Load(((MEAN_TOKENS, 1),), 1_000, pattern="fixed").at_rate(rate))
    line = outcome.timeline
    for number in (0, 1, 500, 999):
        waited = line.start_ps[number] - line.requests.arrival_ps[number]
        assert waited == number * seconds_to_ps(SERVICE_S) - seconds_to_ps(number / rate)
    assert outcome.queue_grows is True
    assert outcome.throughput_requests_per_s == pytest.approx(10.0)
    assert outcome.utilization == 1.0


@pytest.mark.parametrize("exponential", [False, True])
def test_little(exponential: bool) -> None:
    """L = λ·W in whole picoseconds: the area under the path is the sum of what each request stayed."""
    outcome = queue_of(0.7, exponential=exponential, servers=2)
    line, requests = outcome.timeline, outcome.timeline.requests
    assert line.present.area_ps == sum(line.last_token_ps) - sum(requests.arrival_ps)
    assert outcome.mean_present == pytest.approx(outcome.throughput_requests_per_s * outcome.latency.mean_s, rel=1e-12)
    assert outcome.mean_waiting == pytest.approx(outcome.throughput_requests_per_s * outcome.queueing.mean_s, rel=1e-12)


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_a_batch_shares_its_steps(batch: int) -> None:
    """All there at the start: n sequences of 1 + 50 tokens at 10 ms + 1 ms·n a step, batch after batch."""
    steps = LinearSteps(step_s=0.010, sequence_s=0.001)
    outcome = serve(Service(steps, StaticBatching(batch)), Load(((1, 51),), 4 * batch).at_once())
    step_ps = seconds_to_ps(0.010 + batch * 0.001)
    ends = [round_number * (1 + 50 * step_ps) for round_number in range(1, 5)]
    assert list(outcome.timeline.last_token_ps) == [end for end in ends for _ in range(batch)]
    assert outcome.throughput_tokens_per_s == pytest.approx(51 / 50 * batch / (0.010 + batch * 0.001), rel=1e-9)
    assert outcome.mean_batch == batch


@pytest.mark.parametrize("batching", [StaticBatching(8), StaticBatching(8, 0.5), ContinuousBatching(8)])
@pytest.mark.parametrize("replicas", [1, 3])
def test_saturation_of_equal_sequences(batching: StaticBatching | ContinuousBatching, replicas: int) -> None:
    """8 sequences of 1 + 99 tokens share steps of 5 ms: 8/(99·5 ms) requests/s of each replica.

    It is measured over 3,000 starts; where they begin and end may cut a batch of 8 in two.
    """
    service = Service(LinearSteps(step_s=0.005), batching, replicas)
    found = saturation(service, Load(((1, 100),), 6_000, seed=2), margin=0.05)
    assert found.rate_per_s == pytest.approx(replicas * 8 / (99 * 0.005), rel=8 / 3_000)
    assert found.confirmed
    assert found.above.outcome.throughput_requests_per_s == pytest.approx(found.rate_per_s, rel=0.01)


def test_saturation_leaves_out_a_last_batch_that_waits_to_be_full() -> None:
    """801 requests in batches of 8: the last one waits a day by itself, which is not what limits the others."""
    service = Service(LinearSteps(step_s=0.005), StaticBatching(8, 86_400.0))
    found = saturation(service, Load(((1, 100),), 801, seed=2), margin=0.05)
    assert found.rate_per_s == pytest.approx(8 / (99 * 0.005), rel=1e-6)


def test_saturation_of_one_server_with_random_service() -> None:
    """M/G/1 saturates at ρ = 1: here service takes 0.05 s or 0.15 s, so at 10 requests/s."""
    service = Service(PROMPTS, ONE_BY_ONE)
    found = saturation(service, Load(((5_000, 1), (15_000, 1)), 20_000, seed=4), margin=0.05)
    assert found.rate_per_s == pytest.approx(10.0, rel=0.02)
    assert found.confirmed


def test_first_come_first_served() -> None:
    """Starts are in the order of arrival, though a short request behind a long one may leave before it."""
    requests = Requests((0, 2, 3, 4), (1, 1, 1, 1), (50, 1, 1, 1))
    line = serve(Service(LinearSteps(step_s=1.0), ContinuousBatching(2)), requests).timeline
    assert list(line.start_ps) == sorted(line.start_ps)
    assert line.last_token_ps[0] == max(line.last_token_ps)
    # One place is taken by the long one: the second joins after one step, and 3 and 4 follow it one by one.
    joined = 1 + PS_PER_S
    assert line.start_ps == (0, joined, joined + 1, joined + 2)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_a_scenario_with_requests_of_one_length_one_by_one(load: float) -> None:
    """M/D/1 from a scenario to its result: every request takes its prefill and its decode steps alone."""
    scenario = {
        "system": "ipu_pod4",
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "size": "gpt2_small"},
        "generation": {"batch_size": 1, "prompt_tokens": 64, "output_tokens": 3},
    }
    alone = podsim.generate(scenario)
    service_s = alone.time_to_first_token_s + 2 * alone.time_per_output_token_s
    overrides = ["serving.replicas=1", "serving.request_count=40000"]
    result = podsim.serve(scenario, overrides=overrides, rate=load / service_s, loads=[0.5])
    assert result.saturation.rate_per_s == pytest.approx(1 / service_s, rel=0.01)
    assert result.outcome.utilization == pytest.approx(load, rel=0.02)
    assert result.outcome.queueing.mean_s == pytest.approx(load * service_s / (2 * (1 - load)), rel=0.05)


# Closed loops: users who wait for the answer, think, and send the next request


def test_a_user_alone_takes_turns_with_the_service() -> None:
    """A prompt of 3 s and two more tokens of 1 s are R = 5 s; with Z = 2 s, requests come at 0, 7 and 14 s."""
    steps = LinearSteps(prompt_token_s=3.0, step_s=1.0)
    alone = Users((0,), (2 * PS_PER_S,) * 3, (1,) * 3, (3,) * 3)
    line = serve(Service(steps, ONE_BY_ONE), alone).timeline
    assert line.requests.arrival_ps == (0, 7 * PS_PER_S, 14 * PS_PER_S)
    assert line.last_token_ps == (5 * PS_PER_S, 12 * PS_PER_S, 19 * PS_PER_S)


def test_two_users_share_one_place() -> None:
    """Requests of 2 s one by one, Z = 1 s: first 0 and 0.5 s, then 2 + 1 and 4 + 1, served at 0, 2, 4 and 6 s.

    From the third on each waits 1 s: R = 3 s, X = 1/2 per second, and N = X·(R + Z) = 2.
    """
    half = PS_PER_S // 2
    two = Users((0, half), (2 * half,) * 6, (1,) * 6, (1,) * 6)
    line = serve(Service(LinearSteps(prompt_token_s=2.0), ONE_BY_ONE), two).timeline
    assert [arrival_ps / half for arrival_ps in line.requests.arrival_ps] == [0, 1, 6, 10, 14, 18]
    assert [start_ps / half for start_ps in line.start_ps] == [0, 4, 8, 12, 16, 20]
    assert {
        (last - came) / half for came, last in zip(line.requests.arrival_ps[2:], line.last_token_ps[2:], strict=True)
    } == {6}


@pytest.mark.parametrize(("users", "think_s"), [(50, 30.0), (8, 0.0), (200, 5.0)])
def test_the_interactive_response_time_law(users: int, think_s: float) -> None:
    """N = X·(R + Z) for the measured rate X, latency R and thought Z of any closed loop [denning1978].

    At either end of the run a cycle of each user is cut, of `count` ÷ `users` that it has: so much is the tolerance.
    """
    count = 20_000
    loop = Load(((128, 96), (512, 64)), count, seed=5).of_users(users, think_s)
    outcome = serve(Service(LinearSteps(1e-5, 0.01, 0.001), ContinuousBatching(8)), loop)
    thought_s = math.fsum(loop.think_ps) / count / PS_PER_S
    found = outcome.throughput_requests_per_s * (outcome.latency.mean_s + thought_s)
    assert found == pytest.approx(users, rel=2 * users / count)
    assert outcome.queue_grows is False


def test_few_users_see_an_idle_service_and_many_its_capacity() -> None:
    """Bounds of a closed loop: X is N/(R₁ + Z) while nobody waits, and the capacity once all places are taken."""
    steps, place = LinearSteps(prompt_token_s=0.1), ContinuousBatching(1)
    thinking = Load(((1, 1),), 1_000, pattern="fixed").of_users(4, 10.0)  # 0.1 s each, 2.5 s apart: nobody meets
    lonely = serve(Service(steps, place), thinking)
    assert lonely.latency.p99_s == pytest.approx(0.1)
    assert lonely.throughput_requests_per_s == pytest.approx(4 / 10.1, rel=0.01)
    crowded = serve(Service(steps, place), Load(((1, 1),), 1_000).of_users(40, 1.0))  # 40/1.1 would be 36 per second
    assert crowded.throughput_requests_per_s == pytest.approx(10.0, rel=0.01)
    assert crowded.mean_waiting <= 40
