"""Runs with noise: means and spreads by hand, seeds, processes, both engines, what is refused."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence

import numpy as np
import pytest

import podsim
from podsim.cli.app import main
from podsim.draws import Draws, Noisy, Seeds, percentiles
from podsim.engine import Engine
from podsim.engine.compiled import flatten, is_available
from podsim.errors import PodsimError
from podsim.program.compile import repeat_program
from podsim.program.task import Jitter, Program
from podsim.result.result import Drift
from podsim.result.standing import noise_table
from podsim.runs.training import noise
from podsim.runs.training.noise import Floats, RunSeries, Updates, all_runs, job_of, run_updates
from podsim.scenario import TrainingScenario, load_scenario
from podsim.show.text import to_text
from tests.examples import plan_of

POD16, RESNET = "bert_v1.1_pod16_open", "resnet50_v1.1_pod16"
MACHINES, SHARE, LATE_S = 4, 0.2, 0.1
"""Of that pod; how often a machine is late in these tests, and by how much."""
EVEN, LATE = (
    f"software.noise={{call_spread: 0 s, late_call_share: {share}, late_call_time: {LATE_S} s, run_spread: 0 s}}"
    for share in (0, SHARE)
)


def job(name: str, *overrides: str, updates: int = 100, explicit: bool = False, engine: Engine = "auto") -> RunSeries:
    spec = load_scenario(name, overrides=overrides).spec.require(TrainingScenario)
    return job_of(spec, plan_of(name, *overrides), updates, seed=7, explicit=explicit, engine=engine)


def times(runs: Sequence[Updates]) -> Floats:
    return np.concatenate([run.times_s for run in runs])


def wait_s(machines: int) -> float:
    """The latest of n machines is later than t unless none is: (1 - q e^(-t/m))^n, whose integral is a sum."""
    return LATE_S * sum((1 - (1 - SHARE) ** count) / count for count in range(1, machines + 1)) - SHARE * LATE_S


@pytest.fixture(scope="module")
def folded() -> Floats:
    return times(all_runs(job(POD16, LATE, updates=400), 2, 1))


@pytest.fixture(scope="module")
def explicit() -> Floats:
    return times(all_runs(job(POD16, LATE, updates=150, explicit=True), 2, 1))


# The engine


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        (POD16, ()),
        (RESNET, ()),
        (RESNET, ("system.host.image_decode_time=4.2 ms",)),  # buffers bridge the weight update
        (RESNET, ("system.host.image_decode_time=4.3 ms",)),  # and now servers set the pace
    ],
)
def test_noise_of_nothing_changes_nothing(name: str, overrides: tuple[str, ...], explicit: bool) -> None:
    found = run_updates(job(name, EVEN, *overrides, updates=3, explicit=explicit), 0)
    assert found.times_s.tolist() == [podsim.simulate(name, overrides=overrides).weight_update_s] * 3


@pytest.mark.skipif(not is_available(), reason="there is one engine alone")
@pytest.mark.parametrize(("explicit", "updates"), [(False, 8), (True, 2)])
def test_both_engines_draw_the_same(explicit: bool, updates: int) -> None:
    simpy, compiled = (
        run_updates(job(POD16, LATE, updates=updates, explicit=explicit, engine=engine), 0)
        for engine in ("simpy", "compiled")
    )
    assert (simpy.engine, compiled.engine) == ("simpy", "compiled")
    assert simpy.times_s.tolist() == compiled.times_s.tolist()
    assert len(set(simpy.times_s)) > 1


def test_all_wait_for_the_latest_machine(folded: Floats) -> None:
    """Each is late by 20 ms on average, and the latest of four by 69 ms: 49 ms more."""
    expected = podsim.simulate(POD16).weight_update_s + wait_s(MACHINES)
    assert wait_s(MACHINES) == pytest.approx(0.049, rel=1e-3)
    assert abs(np.mean(folded) - expected) < 3 * np.std(folded) / math.sqrt(len(folded))
    assert job(POD16, LATE).call.wait_s == pytest.approx(wait_s(MACHINES), rel=1e-3)


def test_machines_that_draw_by_themselves_wait_as_long(explicit: Floats) -> None:
    expected = podsim.simulate(POD16).weight_update_s + wait_s(MACHINES)
    error = np.std(explicit) / math.sqrt(len(explicit))
    assert abs(np.mean(explicit) - expected) < 3 * error
    assert wait_s(MACHINES) > 6 * error


def test_one_lane_for_all_and_each_by_itself_have_one_distribution(folded: Floats, explicit: Floats) -> None:
    """The largest distance of two samples' shares; 1.63 times the root is exceeded by chance in 1 of 100 cases."""
    ranked = [np.sort(each) for each in (folded, explicit)]
    points = np.concatenate(ranked)
    shares = [np.searchsorted(each, points, side="right") / len(each) for each in ranked]
    distance = float(np.max(np.abs(shares[0] - shares[1])))
    assert distance < 1.63 * math.sqrt(sum(1 / len(each) for each in ranked))


def test_the_earliest_update_is_that_in_which_nobody_is_late(folded: Floats) -> None:
    """0.8^4 of all updates, each 20 ms shorter than without noise, which has the mean of every machine in it."""
    shortest = podsim.simulate(POD16).weight_update_s - SHARE * LATE_S
    on_time = np.isclose(folded, shortest, rtol=0, atol=1e-9)
    error = math.sqrt(0.8**MACHINES * (1 - 0.8**MACHINES) / len(folded))
    assert abs(np.mean(on_time) - 0.8**MACHINES) < 3 * error
    assert np.min(folded) == pytest.approx(shortest, abs=1e-9)


def test_updates_of_a_run_bear_its_level() -> None:
    spread = "software.noise={call_spread: 0 s, late_call_share: 0, run_spread: 10 ms}"
    runs = all_runs(job(POD16, spread, updates=2), 60, 1)
    update_s = podsim.simulate(POD16).weight_update_s
    for run in runs:
        assert run.times_s == pytest.approx([update_s + run.level_s] * 2, abs=1e-12)
    # A standard deviation of 60 draws is off by its own 1 / sqrt(120).
    assert np.std([run.level_s for run in runs]) == pytest.approx(0.010, rel=3 / math.sqrt(120))


def test_what_is_drawn_follows_from_seed_and_number_alone() -> None:
    asked = job(POD16, LATE, updates=3)
    alone, together = (all_runs(asked, 5, 1, processes=count) for count in (1, 2))
    assert [each.times_s.tolist() for each in alone] == [each.times_s.tolist() for each in together]
    assert len({tuple(each.times_s) for each in alone}) == 5
    other = all_runs(job_of_seed(8), 1, 1)[0]
    assert other.times_s.tolist() != alone[0].times_s.tolist()


def job_of_seed(seed: int) -> RunSeries:
    spec = load_scenario(POD16, overrides=[LATE]).spec.require(TrainingScenario)
    return job_of(spec, plan_of(POD16, LATE), 3, seed=seed)


def test_machines_share_a_table() -> None:
    """Two machines with the same table take the room of one."""
    table = (0, 1, 2, 3)
    same = {"a": Jitter(1, table), "b": Jitter(2, table), "c": Jitter(3, (0, 5))}
    flat = flatten(repeat_program(Program(()), same, 1, 0))
    assert flat.tables == [0, 1, 2, 3, 0, 5]
    assert flat.noises[0::4] == [0, 0, 4]
    assert flat.noises[2::4] == [1, 2, 3]


def test_progress_is_told_of_all_runs() -> None:
    """Six updates of about 100 events are announced; looked at again until the parts are used up."""
    told: list[int] = []
    looked: list[int] = []

    def follow(count: int) -> Sequence[int]:
        told.append(count)
        return [looked.append(part) or 1 for part in range(4)]  # type: ignore[func-returns-value]

    all_runs(job(POD16, LATE, updates=2), 3, 100, follow)
    assert told == [600]
    assert len(looked) == 4


# Percentiles


def result(*overrides: str, count: int = 40, name: str = POD16) -> tuple[podsim.RunResult, Noisy]:
    found = podsim.run(name, overrides=[LATE, *overrides], noise=Seeds(count))
    assert isinstance(found, podsim.RunResult) and found.noise
    return found, found.noise


def test_a_run_is_longer_by_the_waits_of_its_updates() -> None:
    """Each update, and each evaluation in the training program, has a session call of its own."""
    found, noisy = result(count=10)
    assert found.time_to_train_s and noisy.time_to_train_s and noisy.run_updates and found.outcome
    schedule = found.outcome.schedule
    assert schedule and schedule.evaluation_s
    evaluating = round(schedule.evaluation_s / found.weight_update_s)
    counts = [run.update_count + evaluating * run.evaluation_count for run in found.outcome.runs]  # type: ignore[union-attr]
    assert noisy.run_updates == round(sum(counts) / len(counts))
    expected = found.time_to_train_s + noisy.run_updates * wait_s(MACHINES)
    # One run differs by the root of its updates; the median of ten by 1.25 times a root of ten less.
    error = 1.25 * noisy.jitter_s * math.sqrt(noisy.run_updates / 10)
    assert abs(noisy.time_to_train_s["p50"] - expected) < 3 * error
    for values in (noisy.weight_update_s, noisy.time_to_train_s):
        assert values["p10"] < values["p50"] < values["p90"]


def test_what_is_not_simulated_is_drawn_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole = result()
    monkeypatch.setattr(noise, "EVENT_BUDGET", whole.event_count // 10)
    _, cut = result()
    assert whole.run_updates == cut.run_updates
    assert whole.run_updates and 0 < cut.simulated_updates < whole.simulated_updates
    assert whole.time_to_train_s and cut.time_to_train_s
    deviation = whole.jitter_s * math.sqrt(whole.run_updates)
    # The pool of the cut runs has a mean of its own, off by the root of its size, in each update of all runs.
    pool = whole.jitter_s / math.sqrt(cut.simulated_updates * cut.seeds) * whole.run_updates
    error = math.hypot(1.25 * deviation * math.sqrt(2 / 40), pool)
    assert abs(whole.time_to_train_s["p50"] - cut.time_to_train_s["p50"]) < 3 * error
    assert "were simulated, and the rest drawn" in shown(cut)


@pytest.mark.parametrize("most", [0, 10**9])
def test_sums_of_draws_have_their_mean_and_variance(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 draws of 1 or 2 s: 4,500 s, give or take half a second times the root of their number; drift adds 750 s."""
    monkeypatch.setattr(noise, "_ADDED_ONE_BY_ONE", most)
    runs = [Updates(np.array([1.0, 2.0]), 0.0, 1, "simpy")] * 400
    sums = list(noise._sums(runs, 3000, np.array([1.0, 2.0]), seed=0, drifting_s=0.25))
    deviation = 0.5 * math.sqrt(2998)
    assert np.mean(sums) == pytest.approx(5250, abs=3 * deviation / math.sqrt(400))
    assert np.std(sums) == pytest.approx(deviation, rel=3 / math.sqrt(800))


def test_an_epoch_is_its_weight_updates() -> None:
    """1,281,167 images at 3,200 are 400 updates: 5 calls with 80 each, whose noise of 5 ms adds up by its root."""
    found, noisy = result(EVEN, "software.noise.call_spread=5 ms", "run.epochs.count=1", name=RESNET)
    assert noisy.epoch_s and noisy.waiting_s == 0
    deviation = 0.005 * math.sqrt(5)
    # The median of 40 draws is off by 1.25 deviations over their root.
    assert noisy.epoch_s["p50"] == pytest.approx(400 * found.weight_update_s, abs=3 * 1.25 * deviation / math.sqrt(40))
    # P10 and P90 of a normal distribution are 2.56 deviations apart; those of 40 draws are off by a sixth.
    assert noisy.epoch_s["p90"] - noisy.epoch_s["p10"] == pytest.approx(2.56 * deviation, rel=0.5)


def test_updates_get_slower_evenly_over_a_run() -> None:
    """By 4 % from the first to the last of a run, 2 % on average, of updates that are all alike otherwise."""
    found, noisy = result(EVEN, "software.noise.drift=4 %", "software.noise.drift_machine_count=4", count=2)
    update_s = found.weight_update_s
    assert noisy.drift == pytest.approx(0.04)
    assert noisy.drifting_s == pytest.approx(0.02 * update_s)
    assert noisy.mean_weight_update_s == pytest.approx(1.02 * update_s, rel=1e-9)
    assert noisy.weight_update_s["p10"] == pytest.approx((1 + 0.1 * 0.04) * update_s, rel=1e-4)
    assert noisy.weight_update_s["p90"] == pytest.approx((1 + 0.9 * 0.04) * update_s, rel=1e-4)
    assert noisy.jitter_s == pytest.approx(0, abs=1e-12)
    assert noisy.time_to_train_s and noisy.run_updates and found.time_to_train_s
    assert noisy.time_to_train_s["p50"] == pytest.approx(
        found.time_to_train_s + noisy.run_updates * 0.02 * update_s, rel=1e-9
    )
    assert "slowing down within a run: 41 ms per update on average, 4.0 % at its end" in shown(noisy)


@pytest.mark.parametrize(("machines", "drifts"), [(4, True), (5, False)])
def test_on_fewer_machines_runs_keep_their_pace(machines: int, drifts: bool) -> None:
    """IPU-POD16 has four."""
    change = [EVEN, "software.noise.drift=4 %", f"software.noise.drift_machine_count={machines}"]
    found = podsim.simulate(POD16, overrides=change)
    assert (found.drift is not None, "drift" in found.to_dict()) == (drifts, drifts)


def test_a_result_on_many_machines_says_that_it_is_without_drift() -> None:
    """Of even rises of 0.8 to 4.6 % half are on average in a run."""
    found = podsim.simulate("bert_v1.1_pod64_open")
    assert found.drift == Drift(16, 0.008, 0.046)
    assert found.drift.on_average == pytest.approx((0.004, 0.023))
    assert found.drift.note in [note for tile in found.headline() for note in tile.notes]
    assert found.drift.note == (
        "without drift; runs on 16 machines and more were 0.8 to 4.6 % slower at their end, 0.4 to 2.3 % on average"
    )
    assert podsim.simulate("resnet50_v1.1_pod64").drift is None


def test_without_an_end_of_the_run_there_is_no_time_to_train() -> None:
    _, noisy = result("run=null", count=1)
    assert noisy.time_to_train_s is None and noisy.run_updates is None
    assert "time to train" not in shown(noisy)


def test_a_run_without_noise_says_nothing_of_it() -> None:
    plain = podsim.simulate(POD16)
    with_noise, _ = result(count=1)
    assert "noise" not in plain.to_dict()
    of_noise = with_noise.to_dict()
    assert of_noise.pop("noise")
    same = ("weight_update_ps", "time_to_train_s", "breakdown_ps", "phases", "event_count")
    assert {key: of_noise[key] for key in same} == {key: plain.to_dict()[key] for key in same}


def shown(found: Noisy) -> str:
    return to_text(noise_table(found), 100)


# What is refused


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([POD16, "--noise", "0"], "error: 0 runs with noise are not possible\n  do: ask for 1 to 10,000"),
        ([POD16, "--noise", "20000"], "error: 20,000 runs with noise are not possible\n  do: ask for 1 to 10,000"),
        ([POD16, "--noise", "many"], "error: --noise: needs a whole number\n  do:"),
        ([POD16, "--noise", "3", "--seed", "1.5"], "error: --seed: needs a whole number\n  do:"),
        ([POD16, "--noise", "3", "--seed", "-1"], "error: the seed -1 is negative\n  do: use 0"),
        ([POD16, "--noise", "3", "--uncertainty", "3"], "error: --noise says how much runs differ, and --uncertainty"),
        (
            ["gemma_2b_pod4", "--noise", "3"],
            "error: noise is known of session calls that train, not of text generation",
        ),
        (["bert_base_c600", "--noise", "3"], "error: noise is known of session calls that train, not of forw"),
        (
            [POD16, "--noise", "3", "--set", "software.noise=null"],
            "error: --set software.noise=null [software]: nothing is known of",
        ),
    ],
)
def test_what_has_no_noise_is_refused(
    given: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["podsim", "run", *given])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and err.startswith(told)
    assert "  do: " in err


@pytest.mark.parametrize(
    "wrong", [{"count": 2.5}, {"count": True}, {"count": 5, "seed": 1.5}, {"count": 5, "seed": "a"}]
)
@pytest.mark.parametrize("kind", [Seeds, Draws])
def test_python_is_told_as_well(kind: type[Seeds] | type[Draws], wrong: dict[str, object]) -> None:
    with pytest.raises(PodsimError, match="do: "):
        kind(**wrong)  # type: ignore[arg-type]


def test_the_command_line_prints_percentiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for _ in range(2):
        monkeypatch.setattr(
            sys,
            "argv",
            ["podsim", "run", POD16, "--noise", "3", "--seed", "4", "--format", "json", "--set", "run=null"],
        )
        with pytest.raises(SystemExit):
            main()
        found.append(json.loads(capsys.readouterr().out)["noise"])
    assert found[0] == found[1]
    assert (found[0]["seeds"], found[0]["seed"]) == (3, 4)
    assert found[0]["weight_update_s"].keys() == {"p10", "p50", "p90"}


def test_percentiles_are_values_that_are_there() -> None:
    assert percentiles(range(1, 11)) == {"p10": 1, "p50": 5, "p90": 9}
