"""Serving a scenario: step times from plans, requests from files and keys, results and their errors."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import podsim
from podsim.cli.app import app
from podsim.draws import Draws
from podsim.errors import DoesNotFitError, PodsimError, SpecError
from podsim.placement.generation import Generation, generation_job, plan_generation
from podsim.placement.memory import fit_verdict
from podsim.runs.step_times import PlannedSteps, service_steps
from podsim.scenario import GenerationScenario, load_scenario
from podsim.show.matplotlib_charts import write_sheet
from podsim.units import PS_PER_S
from tests.unit.bad_input_cases import Run

SMALL: dict[str, Any] = {
    "system": "ipu_pod4",
    "software": "popxl_sdk_3.3",
    "model": {"kind": "decoder", "size": "gpt2_small"},
    "generation": {"batch_size": 4, "prompt_tokens": 96, "output_tokens": 32},
    "serving": {"request_count": 200},
}
LAYOUTS = {
    "one IPU": [],
    "shards and stages": ["parallelism.tensor_parallel=2", "parallelism.pipeline_stages=2"],
    "streamed weights": ["memory.weights=streamed"],
    "streamed under computation": ["memory.weights=streamed", "memory.io_tiles=64"],
    "stages streamed under computation": [
        *("memory.weights=streamed", "memory.io_tiles=64"),
        "parallelism.pipeline_stages=2",  # whose two slots are full before their turn comes
    ],
    "streamed cache": ["generation.kv_cache=streaming_memory"],
    "packed weights": ["precision.weights=int4"],
}
HEADER = "arrival_s,prompt_tokens,output_tokens\n"


def asked(*overrides: str) -> Generation:
    spec = load_scenario(SMALL, overrides=overrides).spec
    assert isinstance(spec, GenerationScenario)
    return generation_job(spec)


def exact_s(batch: int, prompt: int, *overrides: str) -> tuple[float, float]:
    """Prefill, and the first decode step behind it, as text generation has them."""
    lengths = (f"generation.batch_size={batch}", f"generation.prompt_tokens={prompt}", "generation.output_tokens=1")
    result = podsim.generate(SMALL, overrides=[*overrides, *lengths])
    return result.prefill.time_s, result.decode.time_s


def served(*overrides: str, **arguments: Any) -> podsim.ServingResult:
    return podsim.serve(SMALL, overrides=overrides, **arguments)


def generated(*overrides: str) -> podsim.GenerationResult:
    return podsim.generate(SMALL, overrides=overrides)


# Step times


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_step_takes_as_long_as_in_text_generation(layout: str) -> None:
    steps = PlannedSteps(asked(*LAYOUTS[layout]))
    for batch, prompt in ((1, 1), (1, 64), (4, 32)):
        prefill_s, decode_s = exact_s(batch, prompt, *LAYOUTS[layout])
        assert steps.prefill_s(batch, prompt) == prefill_s
        assert steps.decode_s(batch, prompt + 1) == decode_s


@pytest.mark.parametrize("layout", ["one IPU", "streamed cache"])
def test_between_the_points_of_the_grid_a_step_is_less_than_one_percent_off(layout: str) -> None:
    steps, generator = PlannedSteps(asked(*LAYOUTS[layout])), random.Random(5)
    for _ in range(12):
        batch, prompt = generator.randint(1, 4), generator.randint(1, 127)
        prefill_s, decode_s = exact_s(batch, prompt, *LAYOUTS[layout])
        assert steps.prefill_s(batch, prompt) == pytest.approx(prefill_s, rel=0.01)
        assert steps.decode_s(batch, prompt + 1) == pytest.approx(decode_s, rel=0.01)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_more_sequences_and_more_tokens_never_take_less_time(layout: str) -> None:
    steps = PlannedSteps(asked(*LAYOUTS[layout]))
    for time_s in (steps.prefill_s, steps.decode_s):
        for batch in (1, 2, 3):
            times = [time_s(batch, tokens) for tokens in (2, 9, 33, 64, 90, 128)]
            more = [time_s(batch + 1, tokens) for tokens in (2, 9, 33, 64, 90, 128)]
            assert times == sorted(times)
            assert all(one <= other for one, other in zip(times, more, strict=True))


def test_a_batch_that_goes_on_behind_its_longest_sequence_takes_no_longer() -> None:
    """A static batch pads all prompts to the longest, and goes on for the sequence with the most output."""
    steps = PlannedSteps(asked(*LAYOUTS["one IPU"]))
    assert steps.decode_s(2, 500) == steps.decode_s(2, 129)


def test_without_a_cache_every_step_is_the_whole_sequence() -> None:
    steps = PlannedSteps(asked("generation.kv_cache=none"))
    whole_s = podsim.generate(SMALL, overrides=["generation.kv_cache=none"]).decode.time_s
    assert steps.prefill_s(4, 5) == steps.decode_s(4, 6) == steps.decode_s(4, 127) == whole_s


def test_one_sequence_more_than_the_largest_batch_does_not_fit() -> None:
    largest = PlannedSteps(asked()).max_batch
    assert largest >= asked().layout.micro_batch_size
    assert plan_generation(asked(f"generation.batch_size={largest}")).memory
    assert fit_verdict(plan_generation(asked(f"generation.batch_size={largest + 1}")).memory) == "cannot tell"


def test_a_prefill_too_large_to_be_planned_does_not_fit() -> None:
    huge = replace(asked("generation.kv_cache=streaming_memory"), prompt_tokens=1 << 20)
    assert PlannedSteps(huge).max_batch == huge.layout.micro_batch_size


def test_batches_in_flight_take_the_longer_of_latency_and_turns() -> None:
    """Alone a batch takes its latency; with others the slowest stage takes one turn for each."""
    pipeline = ["parallelism.pipeline_stages=4", "generation.batch_size=2", "generation.prompt_tokens=64"]
    step = podsim.generate(SMALL, overrides=[*pipeline, "generation.output_tokens=1"]).decode
    times_s = [
        service_step.decode_s(2, 65)
        for service_step in service_steps(asked(*pipeline, "parallelism.batches_in_flight=4"))
    ]
    turn_s = step.longest_stage_ps / PS_PER_S
    assert times_s == pytest.approx([max(step.time_s, count * turn_s) for count in (1, 2, 3, 4)])
    assert times_s[0] == step.time_s < times_s[-1]


# Results


def test_one_request_pays_for_no_batches_that_do_not_exist() -> None:
    pipeline = ["parallelism.pipeline_stages=2", "serving.request_count=1"]
    one, two = (served(*pipeline, f"parallelism.batches_in_flight={count}") for count in (1, 2))
    assert one.outcome.time_per_output_token == two.outcome.time_per_output_token
    assert one.outcome.latency == two.outcome.latency


def test_one_request_takes_the_time_of_its_steps() -> None:
    result = served("serving.request_count=1")
    prefill_s, _ = exact_s(1, 96)
    steps = PlannedSteps(asked())
    decode_s = sum(steps.decode_s(1, context) for context in range(97, 97 + 31))
    assert result.outcome.time_to_first_token.p50_s == prefill_s
    assert result.outcome.latency.p99_s == pytest.approx(prefill_s + decode_s)


def test_left_out_keys() -> None:
    result = served()
    assert (result.copy_count, result.batch_size, result.request_count) == (4, 4, 200)
    assert result.load == pytest.approx(0.8)
    assert [result.load_of(point.rate_per_s) for point in result.points] == pytest.approx(
        [0.2, 0.4, 0.6, 0.8, 0.9, 0.95]
    )


def test_a_scenario_without_the_section_is_served_too() -> None:
    plain = {key: value for key, value in SMALL.items() if key != "serving"}
    assert podsim.serve(plain, rate=1.0, loads=[0.5]).request_count == 2000


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    first, again, other = served(rate=50.0), served(rate=50.0), served("serving.seed=1", rate=50.0)
    assert first.to_json() == again.to_json()
    assert first.outcome.latency != other.outcome.latency


def test_what_the_json_says_adds_up() -> None:
    result = json.loads(served("serving.replicas=1", rate=10.0).to_json())
    span_s = result["queue"]["time_s"][-1]
    assert result["throughput_tokens_per_s"] == pytest.approx(32 * result["throughput_requests_per_s"])
    assert result["throughput_requests_per_s"] == pytest.approx(200 / span_s)
    assert result["queue"]["most"] == max(result["queue"]["peak"])
    assert result["load"] == pytest.approx(10 / result["saturation"]["rate_per_s"])
    assert len(result["load_curve"]) == 6


def test_every_field_of_the_json_is_explained() -> None:
    page = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "serving_result.md"
    rows = re.findall(r"^\| `([\w.]+)(?:\[\])?` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    result = served(rate=20.0).to_dict()
    named = {f"{key}.{each}" for key in ("queue", "saturation") for each in result[key]}  # type: ignore[attr-defined]
    above = {"name", "description", "version", "schema_version", "simulated", "references", "assumptions", "inputs"}
    above |= {"scenario", "hardware", "envelope", "without_effect", "energy", "cost", "verdict"}
    assert set(rows) == named | set(result) - above - {"queue", "saturation"}


def test_users_are_told_in_place_of_a_rate() -> None:
    """40 requests of 4 users who think 1 s: the law N = X·(R + Z), within the cycles cut at both ends."""
    result = served("serving.request_count=400", "serving.arrivals=fixed_rate", users=4, think="1 s", uncertainty=None)
    outcome = result.outcome
    assert outcome.throughput_requests_per_s * (outcome.latency.mean_s + 1.0) == pytest.approx(4, rel=2 * 4 / 400)
    assert result.to_dict()["service"]["users"] == 4  # type: ignore[index]
    assert result.to_dict()["service"]["think_s"] == 1.0  # type: ignore[index]
    assert result.rate_per_s == outcome.offered_per_s
    (tile,) = (tile for tile in result.headline() if tile.label == "Requests")
    assert tile.notes[0].startswith("of 4 users who think 1 s each time; ")
    assert not result.is_saturated
    few = served("serving.request_count=30", users=4, think=1.0, uncertainty=None)
    assert any("raise serving.request_count to 40 or more" in warning for warning in few.warnings)


def test_users_do_not_go_with_a_rate() -> None:
    with pytest.raises(PodsimError, match="users and a rate or a file of arrivals are given"):
        served(users=3, rate=2.0)
    asked = served("serving.users=4", "serving.think=1 s", rate=5.0, uncertainty=None)  # a rate takes their place
    assert asked.users is None
    assert asked.rate_per_s == 5.0


def test_twice_the_copies_serve_twice_the_load() -> None:
    one, two = (served(f"serving.replicas={count}", "serving.request_count=1000", loads=[0.5]) for count in (1, 2))
    assert two.saturation.rate_per_s == pytest.approx(2 * one.saturation.rate_per_s, rel=0.02)


@pytest.mark.slow
def test_batches_in_flight_take_turns_at_the_slowest_stage() -> None:
    """Two serve as much more as they generate more; less than twice, since both need the stage with the host call."""
    stages = ["parallelism.pipeline_stages=2", "serving.request_count=1000"]
    counts = [f"parallelism.batches_in_flight={count}" for count in (1, 2)]
    one, two = (served(*stages, count, loads=[0.5]) for count in counts)
    before, after = (generated(*stages, count) for count in counts)
    gain = two.saturation.rate_per_s / one.saturation.rate_per_s
    assert 1 < gain < 2
    assert gain == pytest.approx(after.tokens_per_s / before.tokens_per_s, rel=0.05)


def test_more_than_can_be_served_is_a_warning() -> None:
    limit = served(loads=[0.5]).saturation.rate_per_s
    warning, *_ = served(rate=2 * limit, loads=[0.5]).warnings
    assert f"{2 * limit:.4g} requests/s come, {limit:.4g}/s can be served: the queue grows without bound" in warning


def test_lengths_are_drawn_by_their_weights() -> None:
    lengths = "[{prompt_tokens: 10, output_tokens: 1, weight: 3}, {prompt_tokens: 90, output_tokens: 2}]"
    result = served(f"serving.lengths={lengths}", "serving.request_count=4000", loads=[0.5])
    short = result.outcome.timeline.requests.prompt_tokens.count(10)
    assert short / 4000 == pytest.approx(3 / 4, abs=0.03)


def test_static_batches_wait_for_others() -> None:
    static = ["serving.batching=static", "serving.arrivals=fixed_rate", "serving.replicas=1"]
    result = served(*static, "serving.longest_wait=10 s", rate=2.0, loads=[0.5])
    assert result.outcome.queueing.p99_s == pytest.approx(3 * 0.5, abs=1e-9)


# Requests of a file


def test_a_file_beside_the_scenario_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HEADER + "5,10,3\n5.5,20,4\n7,30,1\n")
    scenario = tmp_path / "mine.yaml"
    scenario.write_text(json.dumps(SMALL | {"serving": {"file": "log.csv"}}))
    result = podsim.serve(scenario, loads=[0.5])
    assert result.rate_per_s == 2 / 2.0
    assert result.outcome.timeline.requests.prompt_tokens == (10, 20, 30)
    assert str(tmp_path / "log.csv") in dict(result.inputs)
    assert podsim.serve(scenario, rate=3.0, loads=[0.5]).rate_per_s == 3.0


def test_requests_that_all_come_at_once_have_no_rate(tmp_path: Path) -> None:
    (tmp_path / "burst.csv").write_text(HEADER + "0,10,3\n" * 9)
    result = served(arrivals=tmp_path / "burst.csv", loads=[0.5])
    assert (result.rate_per_s, result.load, result.request_count) == (None, None, 9)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,100,29", "log.csv:3:2 [prompt_tokens]: 100 + 29 tokens of prompt and output; a sequence has room for 128"),
        ("1,x,2", "log.csv:3:2 [prompt_tokens]: needs a whole number from 1 to 1048576, not `x`"),
        ("-1,1,2", "log.csv:3:1 [arrival_s]: needs a time of 0 to 1e+10 seconds, not `-1`"),
        ("0.1,1,2", "log.csv:3:1 [arrival_s]: 0.1 comes before 0.5, above"),
        ("1,1", "log.csv:3:1: has 2 values, not 3"),
    ],
)
def test_a_wrong_row(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "log.csv").write_text(f"{HEADER}0.5,1,1\n{row}\n")
    with pytest.raises(SpecError) as error:
        served(arrivals=tmp_path / "log.csv")
    assert message in str(error.value)
    assert "\n  do: " in str(error.value)


# Errors


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["serving.rate=0"], "[serving.rate]: `0` is too small"),
        (["serving.rate=.nan"], "[serving.rate]: `nan` is not a finite number"),
        (["serving.users=5"], "[serving]: `users` is there without `think`\n  do: add for example `think: 30 s`"),
        (["serving.think=1 s"], "[serving]: `think` is there without `users`\n  do: add for example `users: 50`"),
        (["serving.users=5", "serving.think=1 s", "serving.rate=2"], "[serving]: `rate` and `users` are both there"),
        (["serving.users=201", "serving.think=1 s"], "[serving]: 201 users send 200 requests"),
        (["serving.lengths=[]"], "[serving]: `lengths` is empty"),
        (["serving.loads=[]"], "[serving]: `loads` is empty"),
        (["serving.replicas=5"], "[serving.replicas]: 5 copies of 1 IPUs; IPU-POD4 has room for 4"),
        (["serving.batchsize=3"], "[serving]: unknown key `batchsize`\n  do: did you mean `batch_size`?"),
        (["serving.file=a.csv", "serving.rate=1"], "[serving]: `rate` and `file` are both there"),
        (["serving.longest_wait=1 s"], "[serving]: continuous batching never waits for a batch to fill"),
        (
            ["serving.lengths=[{prompt_tokens: 100, output_tokens: 29}]"],
            "[serving.lengths.0]: 100 + 29 tokens; generation makes room for 128 per sequence",
        ),
        (["generation.output_tokens=1000"], "[generation.output_tokens]: 1096 tokens, the model has 1024 positions"),
        (["serving.file=none.csv"], "none.csv:1:1: the file cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_scenario(overrides: list[str], message: str) -> None:
    with pytest.raises(SpecError) as error:
        served(*overrides)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 0.0}, "a rate of 0 requests/s cannot be served"),
        ({"rate": float("nan")}, "a rate of nan requests/s cannot be served"),
        ({"loads": [-1.0]}, "a load of -1 cannot be served"),
        ({"loads": [float("nan")]}, "a load of nan cannot be served"),
        ({"rate": 1.0, "arrivals": "log.csv"}, "both a rate and a file of arrivals are given"),
    ],
)
def test_a_wrong_argument(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PodsimError, match=message):
        served(**arguments)


def test_training_is_not_served() -> None:
    with pytest.raises(PodsimError, match=r"bert_v1\.1_pod16_open describes training"):
        podsim.serve("bert_v1.1_pod16_open")


def test_a_batch_that_does_not_fit_is_refused_with_a_cure_that_names_its_key() -> None:
    with pytest.raises(DoesNotFitError) as error:
        served("serving.batch_size=80")
    assert error.value.where == "--set serving.batch_size=80 [serving]"
    assert "serving.batch_size: 40" in str(error.value.do)
    assert served("serving.batch_size=40", loads=[0.5]).batch_size == 40


# The command


@pytest.fixture
def small(tmp_path: Path) -> str:
    (tmp_path / "small.yaml").write_text(json.dumps(SMALL))
    return "small.yaml"


@pytest.mark.usefixtures("podsim")
def test_the_command_prints_tables(small: str) -> None:
    output = CliRunner().invoke(app, ["serve", small, "--rate", "5", "--load", "0.5"]).output
    for line in ("Saturation", "time to first token", "time per output token", "latency", "requests on average"):
        assert line in output
    assert "50 %" in output


def test_the_command_ends_with_the_codes_of_its_errors(podsim: Run, small: str) -> None:
    assert podsim("serve", small, "--rate", "nan")[0] == 2
    assert podsim("serve", small, "--arrivals", "none.csv")[0] == 2
    assert podsim("serve", small, "--plot", "chart.txt")[0] == 2
    assert podsim("serve", small, "--set", "serving.batch_size=64")[0] == 3


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_chart_has_the_same_bytes_each_time(tmp_path: Path, suffix: str) -> None:
    result = served(rate=20.0)
    paths = [tmp_path / f"{number}{suffix}" for number in range(2)]
    for path in paths:
        write_sheet(result.report().sheet, path, ())
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_chart_says_what_it_shows() -> None:
    result = served(rate=20.0)
    assert "at 20/s, P99 is" in result.conclusion()


# Long runs


def test_the_run_is_as_long_as_asked_and_soundings_are_no_longer_than_they_need_to_be() -> None:
    result = served("serving.request_count=20001", rate=1000.0, loads=[0.5])
    assert len(result.outcome.timeline.requests) == result.request_count == 20_001
    (point,) = result.to_dict()["load_curve"]  # type: ignore[misc]
    assert point["request_count"] == 20_000


def test_long_runs_can_be_watched() -> None:
    seen: list[str] = []

    def watch(names: Sequence[str]) -> Iterator[str]:
        for name in names:
            seen.append(name)
            yield name

    result = served("serving.request_count=1500", rate=10.0, loads=[0.5], watch=watch)
    rate = f"{result.points[0].rate_per_s:.4g} requests/s"
    assert seen == ["request 1 of 1,500", "request 1,001 of 1,500", rate]


@pytest.mark.parametrize(
    ("draws", "told"),
    [
        (None, "serving 200 requests and the points of the load curve takes about 20 s"),
        (Draws(2), "serving 200 requests, the points of the load curve and 2 draws takes about 110 s"),
    ],
)
def test_an_estimate_counts_requests_at_the_pace_of_steps_that_are_known(
    monkeypatch: pytest.MonkeyPatch, draws: Draws | None, told: str
) -> None:
    """Two runs of 200 requests confirm the saturation in 20 s: 50 ms per request.

    The run and one point of the curve are 400 requests; two draws and the inputs as they are serve 200 requests
    and twice 200 for the saturation, 1,800 in all. The 20 s before go to two runs as well, so that steps take nothing.
    """
    seconds, texts = iter([0.0, 20.0, 40.0]), list[str]()
    monkeypatch.setattr("podsim.runs.service.clock", lambda: next(seconds))
    podsim.serve(SMALL, loads=[0.5], uncertainty=draws, tell=texts.append)
    assert texts == [told]


def test_more_requests_per_second_never_wait_less_and_more_copies_never_serve_fewer() -> None:
    waits = [served(rate=rate, loads=[0.5]).outcome.mean_waiting for rate in (1.0, 10.0, 40.0, 60.0, 100.0)]
    assert waits == sorted(waits)
    served_per_s = [
        served(f"serving.replicas={count}", rate=100.0, loads=[0.5]).outcome.throughput_requests_per_s
        for count in (1, 2, 3, 4)
    ]
    assert served_per_s == sorted(served_per_s)
