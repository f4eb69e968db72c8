"""Ranges of headlines: by hand, beside draws, and what is said first."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

import podsim
from podsim.draws import Draws, Range, Seeds
from podsim.result.evidence import Evidence, residuals
from podsim.result.influence import (
    CONVERGENCE,
    MODEL,
    Contribution,
    LogSpread,
    Measure,
    StandsOn,
    discrete_contribution,
    input_contribution,
    spread_of_change,
)
from podsim.scenario import load_scenario
from podsim.scenario.scenario import Scenario
from podsim.scenario.training import TrainingScenario
from podsim.show.html_page import as_html
from podsim.study.compare import compare
from tests.unit.report_examples import result_text

CALL = "software.host_call"
BERT = "bert_v1.1_pod64_open"
TILES = "system.machine.ipu.tile.count={value: 1472, source: me, basis: assumed, range: [1300, 1472]}"
Z = 1.2816


@pytest.fixture(scope="module")
def bert() -> podsim.RunResult:
    return podsim.simulate(BERT)


def test_the_moments_of_one_side_by_hand() -> None:
    """Half of the inputs keep the value, half lie above it, up to 1: means 1/6, 1/12 and 1/20 of powers one to three.

    So the variance is 1/12 - 1/36 and the third moment 1/20 - 3/6/12 + 2/216; here of a thousandth.
    """
    part = input_contribution(1.0, 1.001)
    assert part.mean == pytest.approx(1e-3 / 6, rel=2e-3)
    assert part.variance == pytest.approx(1e-6 / 18, rel=1e-2)
    assert part.third == pytest.approx(1e-9 * 19 / 1080, rel=3e-2)


def test_either_side_of_a_value_is_equally_likely() -> None:
    """Ends at -1 and +3: their sides have means of -1/3 and 1, with half of the weight each."""
    assert input_contribution(0.999, 1.003).mean == pytest.approx(1e-3 / 3, rel=5e-3)


def test_values_that_are_equally_frequent() -> None:
    part = discrete_contribution([0.0, 3.0, 3.0])
    assert (part.mean, part.variance, part.third) == pytest.approx((2.0, 2.0, -2.0))


def test_percentiles_of_a_skewed_distribution_by_its_table() -> None:
    """χ² with 50 degrees of freedom: mean 50, variance 2·50, third central moment 8·50; a hundredth of it is ln t.

    Tables give 37.689, 49.335 and 63.167 for P10, P50 and P90. Without its skewness of 400 / 100**1.5 = 0.4 they would
    be 37.18, 50 and 62.82; the next term of the expansion is worth 0.1.
    """
    skewed = Contribution(0.50, 100 / 1e4, 400 / 1e6)
    halves = [Contribution(each.mean / 2, each.variance / 2, each.third / 2) for each in (skewed, skewed)]
    doubt = LogSpread({"one": halves[0], "the other": halves[1]})
    found = [100 * math.log(doubt.quantile(deviations)) for deviations in (-Z, 0.0, Z)]
    assert found == pytest.approx([37.689, 49.335, 63.167], abs=0.1)
    centred = LogSpread({"one": Contribution(0.0, skewed.variance, skewed.third)})
    assert [100 * math.log(factor) for factor in centred.factors] == pytest.approx([37.689 - 50, 63.167 - 50], abs=0.1)


class Run:
    """A run that takes a second and a session call."""

    metric = "time_to_train_s"

    def __call__(self, spec: Scenario, *, resplit: bool) -> Measure:
        assert isinstance(spec, TrainingScenario)
        time_s = 1 + float(spec.software.host_call_s)
        return Measure(time_s, time_s, {"throughput_samples_per_s": 1 / time_s}, (0.9 * time_s, 1.1 * time_s))


def stands_on(sigma: float) -> StandsOn:
    call = f"{CALL}={{value: 100 ms, source: estimate, basis: assumed, range: [50 ms, 150 ms]}}"
    found = StandsOn(load_scenario(BERT, overrides=[call]).spec, Run())
    found.evidence = Evidence(sigma)
    return found


def test_a_value_off_the_middle_of_its_range_leans() -> None:
    """100 ms of 50 to 250 ms: ends take 1.05 and 1.25 s where it takes 1.1 s."""
    call = f"{CALL}={{value: 100 ms, source: estimate, basis: assumed, range: [50 ms, 250 ms]}}"
    spreads = StandsOn(load_scenario(BERT, overrides=[call]).spec, Run()).spreads()
    expected = input_contribution(1.05 / 1.1, 1.25 / 1.1)
    found = spreads["throughput_samples_per_s"].parts[CALL]
    assert (found.mean, found.variance) == pytest.approx((expected.mean, expected.variance))


def test_causes_add_up_by_their_squares() -> None:
    """A symmetric triangle of 0.05/1.1 either way has the variance of a sixth of its square."""
    doubt = stands_on(0.03).spreads()["throughput_samples_per_s"]
    assert set(doubt.parts) == {CALL, MODEL}
    sigma = math.sqrt((0.05 / 1.1) ** 2 / 6 + 0.03**2)
    assert math.sqrt(doubt.variance) == pytest.approx(sigma, rel=5e-3)
    assert doubt.factors == pytest.approx((math.exp(-Z * sigma), math.exp(Z * sigma)), abs=1e-3)


def test_a_time_to_train_has_the_spread_of_its_runs() -> None:
    """Runs of 0.9 and 1.1 of the mean: a variance of 0.1² beside the others."""
    spreads = stands_on(0.0).spreads()
    assert next(iter(spreads)) == "time_to_train_s"
    spread = spreads["time_to_train_s"].parts[CONVERGENCE].variance
    assert spread == pytest.approx(0.01, rel=0.01)
    assert spreads["time_to_train_s"].variance - spreads["throughput_samples_per_s"].variance == pytest.approx(spread)


def test_a_model_that_is_sure_has_ranges_of_its_inputs_alone() -> None:
    doubt = stands_on(0.0).spreads()["throughput_samples_per_s"]
    assert math.sqrt(doubt.variance) == pytest.approx(0.05 / 1.1 / math.sqrt(6), rel=0.01)


def test_energy_is_as_unsure_as_the_time_of_a_sample(bert: podsim.RunResult) -> None:
    """And in the other direction than samples per second."""
    rate, energy = bert.ranges["throughput_samples_per_s"], bert.ranges["energy_per_sample_j"]
    assert bert.energy_per_sample_j is not None
    assert energy.low / bert.energy_per_sample_j == pytest.approx(bert.throughput_samples_per_s / rate.high)
    assert energy.high / bert.energy_per_sample_j == pytest.approx(bert.throughput_samples_per_s / rate.low)


def test_nothing_is_measured_before_ranges_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise AssertionError

    result = podsim.simulate(BERT)
    monkeypatch.setattr(StandsOn, "_moved", refuse)
    assert result.throughput_samples_per_s
    with pytest.raises(AssertionError):
        _ = result.ranges


def test_every_headline_carries_its_range(bert: podsim.RunResult) -> None:
    text = result_text(bert)
    for label in ("Throughput", "Weight update", "Time to train", "MFU", "Energy"):
        (line,) = (line for line in text.splitlines() if line.startswith(f"{label}  ") and "%" in line)
        assert "  (80 %: " in line
    found = bert.ranges["weight_update_s"]
    assert f"{bert.weight_update_s * 1e3:.1f} ms  (80 %: {found.low * 1e3:.0f} to {found.high * 1e3:.0f})" in text
    assert f"80 %: {found.low * 1e3:.0f} to {found.high * 1e3:.0f}" in as_html(bert.report())


def test_the_json_has_them(bert: podsim.RunResult) -> None:
    data = json.loads(bert.to_json())
    assert set(data["ranges"]) >= {"weight_update_s", "throughput_samples_per_s", "time_to_train_s", "mfu"}
    for name, each in data["ranges"].items():
        assert each["low"] < bert.predicted(name) < each["high"]  # type: ignore[operator]
        assert each["share"] == 0.8
    assert data["verdict"] == []
    assert bert.ranges == {name: Range(**each) for name, each in data["ranges"].items()}


def test_a_comparison_names_the_ranges_of_its_sides(bert: podsim.RunResult) -> None:
    """As they are printed alone; they do not say whether a change is real, so that no row has one."""
    found = compare(bert, bert.to_dict())
    expected = {name: {"low": range_.low, "high": range_.high} for name, range_ in bert.ranges.items()}
    data = found.to_dict()
    assert [side["ranges"] for side in data["sides"]] == [expected, expected]  # type: ignore[index, attr-defined]
    low, high = (
        f"{end * 1e3:.0f} ms" for end in (expected["weight_update_s"]["low"], expected["weight_update_s"]["high"])
    )
    told = f"weight update {low} to {high}"
    assert " ".join(found.text(precision=3).split()).count(told) == 2
    assert {row.a_range for row in found.differences[0].rows} == {None}


def test_without_all_influences_there_is_no_range_and_the_output_says_so() -> None:
    plain = podsim.simulate("gpt2_small_pod4", overrides=[TILES])
    assert plain.ranges == {}
    text = " ".join(result_text(plain).split())
    assert "(80 %:" not in text
    assert "verdict: no range is given, since `--influence` alone measures what system.machine.ipu.tile.count" in text
    assert podsim.simulate("gpt2_small_pod4", overrides=[TILES], influence=True).ranges


def test_what_most_of_an_answer_stands_on_is_said_first(bert: podsim.RunResult) -> None:
    """The call of a token may take from 1 to 30 ms; BERT's calls are fitted, and its pod has been compared."""
    call = "software.token_call={value: 5 ms, source: me, basis: assumed, range: [1 ms, 30 ms]}"
    result = podsim.run("llama2_7b_pods", variant="pod32_resident_one_stage", overrides=[call])
    result.assumptions.evidence = Evidence(0.01)  # type: ignore[attr-defined]
    text = result.text()
    (doubt,) = (line for line in result.verdict if "most of the doubt" in line)
    assert "software.token_call" in doubt
    assert text.index("verdict: most of the doubt") < text.index("Time to first token")
    page = as_html(result.report())
    assert page.index("most of the doubt") < page.index('class="tiles"')
    assert bert.verdict == ()


def test_what_was_never_compared_is_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Evidence(0.2, ("training on the moon",))
    monkeypatch.setattr("podsim.result.influence.evidence_of", lambda spec: new)
    result = podsim.simulate(BERT)
    assert result.verdict[0] == "unknown: never compared with a published run: training on the moon"
    assert result.envelope.outside == ("training on the moon",)
    found = result.ranges["weight_update_s"]
    assert math.log(found.high / found.low) > 2 * Z * 0.2


def leaning(low: str, high: str) -> podsim.RunResult:
    """BERT with a session call of 125 ms that may take from so long to so long, from a model that is nearly sure."""
    call = f"{CALL}={{value: 125 ms, source: estimate, basis: assumed, range: [{low}, {high}]}}"
    result = podsim.simulate(BERT, overrides=[call, "software.model_scatter=0.001 %"])
    assert isinstance(result, podsim.RunResult)
    return result


def test_a_headline_outside_of_the_middle_half_says_so_with_the_median() -> None:
    """A call of 125 to 1,125 ms adds 0 to 1 s, its median 1 - 1/√2 of that."""
    result = leaning("125 ms", "1125 ms")
    (told,) = [each for each in result.verdict if "median" in each]
    assert told.startswith("the headline lies at the fast end of its range, whose median is ")
    assert not any("median" in each for each in leaning("120 ms", "130 ms").verdict)


@pytest.mark.parametrize(("low", "high"), [("125 ms", "1125 ms"), ("1 ms", "125 ms")])
def test_no_headline_lies_outside_of_its_range(low: str, high: str) -> None:
    result = leaning(low, high)
    for name, found in result.ranges.items():
        value = result.predicted(name)
        assert value is not None and found.low <= value <= found.high, name


def test_the_median_of_a_leaning_doubt_by_hand() -> None:
    """Of a third moment of 0.3 σ³ the median lies 0.3 / 6 standard deviations before the mean."""
    doubt = LogSpread({"a": Contribution(0.02, 0.01, 0.3e-3)})
    assert doubt.quantile(0.0) == pytest.approx(math.exp(0.02 - 0.1 * 0.3 / 6))
    assert doubt.quantile(1.0) == pytest.approx(math.exp(0.12))
    assert doubt.is_between_quartiles
    assert not LogSpread({"a": Contribution(0.1, 0.01)}).is_between_quartiles  # a standard deviation off


def test_a_change_is_off_by_a_share_of_it() -> None:
    """A second and a call of 100 ms, then of 400 ms: 1.4 over 1.1, and the change of the model's share of that."""
    slow = StandsOn(load_scenario(BERT, overrides=[f"{CALL}=400 ms"]).spec, Run())
    fast = StandsOn(load_scenario(BERT, overrides=[f"{CALL}=100 ms"]).spec, Run())
    doubt = spread_of_change(fast, slow, "time_to_train_s", 1.4 / 1.1)
    assert doubt is not None and set(doubt.parts) == {MODEL, CONVERGENCE}
    assert doubt.parts[CONVERGENCE].variance == 0  # as many samples in both
    assert math.sqrt(doubt.variance) == pytest.approx(residuals().change * math.log(1.4 / 1.1))


def test_runs_of_two_models_are_off_as_each_is() -> None:
    """Pairs of published runs say nothing of them: variances add up, the call is in both what it is in one."""
    one, other = (StandsOn(load_scenario(name).spec, Run()) for name in (BERT, "resnet50_v1.0_pod16"))
    assert not one.is_like(other)
    doubt = spread_of_change(one, other, "time_to_train_s", 1.0)
    assert doubt is not None
    assert doubt.parts[MODEL].variance == pytest.approx(one.evidence.sigma**2 + other.evidence.sigma**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "parts"),
    [
        (BERT, 4),
        # Host and IPUs are nearly as fast: a bend that straight lines miss.
        pytest.param("resnet50_v1.0_pod64", 3, marks=pytest.mark.ci),
        pytest.param("resnet50_v1.1_pod16", 4, marks=pytest.mark.ci),
        pytest.param("bert_large_squad_pod16", 4, marks=pytest.mark.ci),
        pytest.param("llama2_7b_pods@pod32_resident_one_stage", 4, marks=pytest.mark.ci),
        ("e5_large_pod4", 4),
    ],
)
def test_draws_agree_with_ranges(title: str, parts: int) -> None:
    """Each end within a part of the width, both as logarithms.

    Draws themselves miss by a twentieth: √(0.09 / 150) over the density of 0.175 is 0.14 of 2.56 standard deviations.
    """
    name, _, variant = title.partition("@")
    result = podsim.run(name, variant=variant or None, uncertainty=Draws(150))
    assert result.uncertainty is not None
    metrics: Mapping[str, Mapping[str, float]] = result.uncertainty.metrics
    assert metrics.keys() <= result.ranges.keys()
    for metric, drawn in metrics.items():
        found, part = result.ranges[metric], math.log(drawn["p90"] / drawn["p10"]) / parts
        assert math.log(found.low) == pytest.approx(math.log(drawn["p10"]), abs=part), metric
        assert math.log(found.high) == pytest.approx(math.log(drawn["p90"]), abs=part), metric


def test_waiting_for_late_machines_lies_in_the_range(tmp_path: Path) -> None:
    """On 256 machines an update is 12 % longer on average: the mean of runs with noise lies in the range."""
    path = tmp_path / "large.yaml"
    path.write_text(
        "base: bert_v1.1_pod64_open\n"
        "system: {base: ipu_pod256, name: IPU-POD1024, machine_count: 256}\n"
        "parallelism: {replication_factor: 128, accumulation_factor: 24}\n"
    )
    found = podsim.run(path, noise=Seeds(5))
    sure = found.ranges["weight_update_s"]
    assert found.noise is not None
    assert sure.low < found.weight_update_s < found.noise.mean_weight_update_s < sure.high
