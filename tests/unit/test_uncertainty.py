"""Draws of uncertain inputs: percentiles by hand, seeds, processes, runs that are impossible, the chart."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import podsim
from podsim.cli.app import main
from podsim.draws import Draws, Uncertainty
from podsim.errors import PodsimError
from podsim.result.base import tornado_sheet
from podsim.result.evidence import Evidence, evidence_of
from podsim.result.influence import Measure, StandsOn
from podsim.result.uncertainty import draw, sampling_task, uncertainty
from podsim.scenario import load_scenario
from podsim.scenario.assumptions import assumptions
from podsim.scenario.scenario import Scenario
from podsim.scenario.training import TrainingScenario
from podsim.show.matplotlib_charts import figure_of
from podsim.watch import silent

CALL = "software.host_call"
NAME = "bert_v1.1_pod64_open"


class Echo:
    """A run whose only figure is one of its inputs."""

    metric = "echo"

    def __init__(self, most: float = math.inf) -> None:
        self.most = most

    def __call__(self, spec: Scenario, *, resplit: bool) -> Measure:
        assert isinstance(spec, TrainingScenario)
        value = float(spec.software.host_call_s)
        if value > self.most:
            raise PodsimError("too much")
        return Measure(value, value, {"echo": value})


@pytest.fixture(scope="module")
def spec() -> TrainingScenario:
    return calling(135)


def calling(likely_ms: int) -> TrainingScenario:
    """The session call lies between 100 and 170 ms, most often at this."""
    call = f"{{value: {likely_ms} ms, source: estimate, basis: assumed, range: [100 ms, 170 ms]}}"
    loaded = load_scenario(NAME, overrides=[f"{CALL}={call}"]).spec
    assert isinstance(loaded, TrainingScenario)
    return loaded


def echoed(spec: TrainingScenario, draws: Draws, probe: Echo | None = None, sigma: float = 0.0) -> Uncertainty:
    """Draws of a model that itself gets this much wrong."""
    stands_on = StandsOn(spec, probe or Echo())
    stands_on.evidence = Evidence(sigma)
    stands_on._machine = 0.0, ()
    return uncertainty(stands_on, draws, silent)


def test_percentiles_of_a_triangle_by_hand(spec: TrainingScenario) -> None:
    """F(x) = 2x² below the middle of a symmetric triangle from 0 to 1: P10 at √0.05, P90 at 1 - √0.05."""
    found = echoed(spec, Draws(4000))
    tail = math.sqrt(0.05) * 0.07
    expected = {"p10": 0.1 + tail, "p50": 0.135, "p90": 0.17 - tail}
    assert found.metrics["echo"] == pytest.approx(expected, abs=0.0012)
    assert found.drawn == (CALL,)
    assert (found.draws, found.impossible, found.held) == (4000, 0, ())


@pytest.mark.parametrize("likely_ms", [100, 170])
def test_either_side_of_the_value_has_half_of_the_draws(likely_ms: int) -> None:
    """Half keep the value; of 0 to 1 the others have F(x) = 1 - (1 - x)², so that P90 of all is their P80, 0.553."""
    found = echoed(calling(likely_ms), Draws(4000))
    far = 0.07 * (1 - math.sqrt(1 - 0.8))
    expected = [0.1, 0.1, 0.1 + far] if likely_ms == 100 else [0.17 - far, 0.17, 0.17]
    assert list(found.metrics["echo"].values()) == pytest.approx(expected, abs=0.0015)


def test_the_same_seed_gives_the_same_and_another_another(spec: TrainingScenario) -> None:
    assert echoed(spec, Draws(20, 3)) == echoed(spec, Draws(20, 3))
    assert echoed(spec, Draws(20, 3)) != echoed(spec, Draws(20, 4))


def test_any_number_of_processes_gives_the_same(spec: TrainingScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for cores in (1, 2, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        found.append(echoed(spec, Draws(90)))
    assert found[0] == found[1] == found[2]


class Fixed(Echo):
    """A run that no input moves, which takes a second and makes one thing."""

    def __call__(self, spec: Scenario, *, resplit: bool) -> Measure:
        measure = super().__call__(spec, resplit=resplit)
        return Measure(measure.headline, measure.others, {"weight_update_s": 1.0, "throughput_samples_per_s": 1.0})


def test_what_the_model_gets_wrong_is_a_factor_on_all_times() -> None:
    """A tenth of a normal distribution lies beyond 1.2816 standard deviations; rates are off by the inverse."""
    found = echoed(calling(135), Draws(4000), Fixed(), sigma=0.05)
    tail = math.exp(0.05 * 1.2816)
    expected = {"p10": 1 / tail, "p50": 1.0, "p90": tail}
    assert found.metrics["weight_update_s"] == pytest.approx(expected, abs=0.004)
    assert found.metrics["throughput_samples_per_s"] == pytest.approx(expected, abs=0.004)
    assert found.model_scatter == 0.05


def test_a_model_that_gets_nothing_wrong_has_no_such_factor(spec: TrainingScenario) -> None:
    found = echoed(spec, Draws(50), Fixed())
    assert found.metrics["weight_update_s"] == {"p10": 1.0, "p50": 1.0, "p90": 1.0}
    assert found.model_scatter == 0


def test_a_run_says_what_the_model_itself_may_get_wrong() -> None:
    text = podsim.run(NAME, uncertainty=Draws(4)).text()
    sigma = evidence_of(load_scenario(NAME).spec).sigma
    told = f"model form: one factor on all times of a draw, {sigma:.1%} (one standard deviation)"
    assert told in text


def test_inputs_of_long_simulations_are_drawn() -> None:
    """A step of 48,192 events, 5 ms, of which the call of a token may be 0.1 to 1 ms."""
    result = podsim.run("llama2_7b_pods", variant="pod32_resident_one_stage", influence=True, uncertainty=Draws(12))
    found = result.uncertainty
    assert found is not None and result.event_count is not None and result.event_count > 20_000
    assert "software.token_call" in found.drawn
    assert (found.held, found.impossible) == ((), 0)
    bounds = found.metrics["time_per_output_token_s"]
    assert bounds["p90"] / bounds["p10"] > 1.1


def test_inputs_that_need_new_splits_are_drawn() -> None:
    tiles = "{value: 1472, source: me, basis: assumed, range: [1300, 1472]}"
    result = podsim.run("gpt2_small_pod4", overrides=[f"system.machine.ipu.tile.count={tiles}"], uncertainty=Draws(2))
    assert result.uncertainty is not None
    assert "system.machine.ipu.tile.count" in result.uncertainty.drawn
    assert result.uncertainty.held == ()


def test_inputs_that_two_runs_share_are_drawn_alike(spec: TrainingScenario) -> None:
    """Whichever others stand beside them: a difference of two runs is that of their models."""
    stands_on = StandsOn(spec, Echo())
    alone = sampling_task(stands_on)
    others = [assumption for assumption in assumptions(spec) if assumption.key != CALL]
    beside = replace(alone, inputs=[*others[:3], *alone.inputs])
    for number in range(3):
        one, two = draw(alone, 7, number), draw(beside, 7, number)
        assert one is not None and two is not None
        assert one == two


def test_runs_that_are_impossible_are_counted(spec: TrainingScenario) -> None:
    """Half of the draws lie above the middle."""
    found = echoed(spec, Draws(1000), Echo(0.135))
    assert found.impossible == pytest.approx(500, abs=50)
    assert found.metrics["echo"]["p90"] <= 0.135


def test_no_run_that_is_possible_is_an_error(spec: TrainingScenario) -> None:
    class Never(Echo):
        """A run that is drawn in vain."""

        drawn = 0

        def __call__(self, spec: Scenario, *, resplit: bool) -> Measure:
            self.drawn += 1
            if self.drawn > 3:  # the run as it is, and both ends of the range
                raise PodsimError("too much")
            return super().__call__(spec, resplit=resplit)

    stands_on = StandsOn(spec, Never())
    with pytest.raises(PodsimError, match="none of 5 draws"):
        uncertainty(stands_on, Draws(5), silent)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--uncertainty", "0"], "error: 0 draws of the uncertain inputs are not possible\n  do: draw from 1 to"),
        (["--uncertainty", "-5"], "error: -5 draws of the uncertain inputs are not possible\n  do: draw from 1 to"),
        (["--uncertainty", "2.5"], "error: --uncertainty: needs a whole number\n  do:"),
        (["--uncertainty", "many"], "error: --uncertainty: needs a whole number\n  do:"),
        (["--uncertainty", "9", "--seed", "-1"], "error: the seed -1 is negative\n  do: use 0"),
    ],
)
def test_numbers_of_draws_that_are_wrong_are_told(
    given: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["podsim", "run", NAME, *given])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and err.startswith(told)


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (-1, 0), (1_000_001, 0), (1, -1)])
def test_what_cannot_be_drawn_is_refused(count: int, seed: int) -> None:
    with pytest.raises(PodsimError) as caught:
        Draws(count, seed)
    assert "do:" in str(caught.value)


def test_a_result_holds_its_draws() -> None:
    result = podsim.run(NAME, uncertainty=Draws(8, 1))
    assert result.uncertainty is not None
    metrics = result.uncertainty.metrics
    assert set(metrics) == {"weight_update_s", "throughput_samples_per_s", "time_to_train_s"}
    assert metrics["weight_update_s"]["p10"] < result.weight_update_s < metrics["weight_update_s"]["p90"]
    assert json.loads(result.to_json())["uncertainty"]["draws"] == 8


class Runs(Echo):
    """A run of one, two or three hours."""

    def __call__(self, spec: Scenario, *, resplit: bool) -> Measure:
        measure = super().__call__(spec, resplit=resplit)
        return Measure(measure.headline, measure.others, measure.metrics, (1.0, 2.0, 3.0))


def test_a_draw_takes_one_of_the_runs(spec: TrainingScenario) -> None:
    """A third of the draws takes each: P10 is the shortest, P50 the middle one, P90 the longest."""
    found = echoed(spec, Draws(600), Runs())
    assert found.metrics["time_to_train_s"] == {"p10": 1.0, "p50": 2.0, "p90": 3.0}


def test_without_draws_nothing_is_said_of_them() -> None:
    assert "uncertainty" not in podsim.run(NAME).to_dict()


def test_the_chart_has_a_row_for_each_input_that_moves(tmp_path: Path) -> None:
    result = podsim.run(NAME)
    figure = figure_of(tornado_sheet(result))
    (axes,) = (axes for part in figure.subfigs for axes in part.axes)
    labels = [" ".join(label.get_text().split()).partition(" = ")[0] for label in axes.get_yticklabels()]
    moving = [
        str(row["key"])
        for row in result.assumptions
        if isinstance(row["influence"], dict)
        and any(row["influence"][end] is None or abs(row["influence"][end]) >= 0.0005 for end in ("low", "high"))
    ]
    assert 3 < len(moving) == len(labels)
    assert all(key.endswith(label) for key, label in zip(moving, labels, strict=True))
