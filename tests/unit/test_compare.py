"""Comparisons: what changed, whether that is better, why, and what was asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import podsim as library
from podsim.draws import Draws
from podsim.errors import DoesNotFitError, PodsimError
from podsim.metrics import METRICS, TIME
from podsim.report.chart import Bars
from podsim.study.compare import Comparison, Difference, Row, compare, difference
from podsim.study.sides import COMPARED
from tests.unit.bad_input_cases import Run
from tests.unit.report_examples import make_result

MS = 10**9
A_PS = {"matmul": 600 * MS, "host": 300 * MS, "bubble": 100 * MS}
B_PS = {"matmul": 400 * MS, "host": 350 * MS, "all_reduce": 50 * MS}
SIMULATED = {
    "system": "IPU-POD16",
    "ipu": "GC200",
    "clock_hz": 1.33e9,
    "software": "PopART, SDK 2.3",
    "ipus_used": 16,
    "ipu_count": 16,
}
COMMON: Mapping[str, Any] = {
    "name": "hand",
    "version": "1.2.3",
    "schema_version": 1,
    "simulated": SIMULATED,
    "warnings": [],
    "memory": {"rows": []},
    "assumptions": [{"key": "software.host_call", "value": "136 ms"}],
    "inputs": [{"path": "hand.yaml", "sha256": "a" * 64}],
    "scenario": {"system": "IPU-POD16", "software": "PopART, SDK 2.3", "run": {"seed": 0}},
}


def training(times_ps: Mapping[str, int] = A_PS, samples: int = 1000, **changes: Any) -> dict[str, Any]:
    """A result of training as plain data; its run is set-up, 1,000 updates and evaluations."""
    update_ps = sum(times_ps.values())
    own = {
        "throughput_samples_per_s": samples / (update_ps / 1e12),
        "weight_update_s": update_ps / 1e12,
        "weight_update_ps": update_ps,
        "time_to_train_s": 60 + update_ps / 1e9,
        "time_to_train_percentiles": None,
        "mfu": 0.25,
        "mfu_of_pod": 0.25,
        "breakdown_ps": dict(times_ps),
        "run_breakdown": {"setup": 10.0, "training": update_ps / 1e9, "evaluation": 50.0},
    }
    return {**COMMON, **own, **changes}


def step(name: str, **times_s: float) -> dict[str, Any]:
    return {"name": name, "time_s": sum(times_s.values()), "breakdown": times_s}


def generation(**changes: Any) -> dict[str, Any]:
    """Ten tokens: the first after 0.2 s, each of the others after 0.1 s."""
    own = {
        "time_to_first_token_s": 0.2,
        "time_per_output_token_s": 0.1,
        "tokens_per_s": 10.0,
        "steps_per_s": 10.0,
        "latency_s": 1.1,
        "steps": [step("prefill", matmul=0.15, host=0.05), step("decode", streaming=0.09, host=0.01)],
    }
    return {**COMMON, **own, **changes}


def forward(**changes: Any) -> dict[str, Any]:
    own = {
        "latency_s": 0.01,
        "throughput_samples_per_s": 400.0,
        "batches_per_s": 200.0,
        "utilization": 0.3,
        "utilization_of_pod": 0.3,
        "steps": [step("batch", matmul=0.008, host=0.002), step("call", matmul=0.9, host=0.1)],
    }
    return {**COMMON, **own, **changes}


def serving(**changes: Any) -> dict[str, Any]:
    times = {"p50_s": 1.0, "p95_s": 2.0, "p99_s": 3.0, "mean_s": 1.0}
    own = {
        **dict.fromkeys(("queueing", "time_to_first_token", "time_per_output_token", "latency"), times),
        "throughput_requests_per_s": 3.0,
        "throughput_tokens_per_s": 300.0,
        "saturation": {"rate_per_s": 5.0, "confirmed": True},
    }
    return {**{key: value for key, value in COMMON.items() if key != "memory"}, **own, **changes}


MAKERS = {"training": training, "text generation": generation, "forward passes": forward, "serving": serving}


def memory(**sizes: int) -> dict[str, Any]:
    rows = [{"ipu": 0, "tenant": name, "size_bytes": s, "where": "in_processor_memory"} for name, s in sizes.items()]
    return {"rows": rows}


def between(a: Mapping[str, Any], b: Mapping[str, Any]) -> Difference:
    (found,) = compare(a, b).differences
    return found


def rows_of(found: Difference) -> dict[str, Row]:
    return {row.metric: row for row in found.rows}


def inputs_of(found: Difference) -> list[tuple[object, ...]]:
    return [(each.key, each.before, each.after) for each in found.inputs]


def changed(result: dict[str, Any], name: str, factor: float) -> dict[str, Any]:
    """A result with one metric of it another."""
    head, _, rest = name.partition(".")
    value = result[head]
    return {**result, head: {**value, rest: value[rest] * factor} if rest else value * factor}


# Better and worse


MORE_IS_BETTER = {
    "training": {"throughput_samples_per_s", "mfu", "mfu_of_pod"},
    "text generation": {"tokens_per_s", "steps_per_s"},
    "forward passes": {"throughput_samples_per_s", "batches_per_s", "utilization", "utilization_of_pod"},
    "serving": {"throughput_requests_per_s", "throughput_tokens_per_s", "saturation.rate_per_s"},
}
LESS_IS_BETTER = {
    "training": {"weight_update_s", "time_to_train_s"},
    "text generation": {"time_per_output_token_s", "time_to_first_token_s", "latency_s"},
    "forward passes": {"latency_s"},
    "serving": {
        f"{time}.{share}_s"
        for time in ("queueing", "time_to_first_token", "time_per_output_token", "latency")
        for share in ("p50", "p95", "p99")
    },
}
EACH = [(activity, name) for activity in MAKERS for name in MORE_IS_BETTER[activity] | LESS_IS_BETTER[activity]]
ELSEWHERE = {"in_processor_memory", "streaming_memory"} | {
    f"time_to_train_percentiles.p{each}" for each in (10, 50, 90)
}


def test_every_metric_has_its_direction_here() -> None:
    known = {(activity, METRICS[key].name) for activity, compared in COMPARED.items() for key in compared}
    assert {each for each in known if each[1] not in ELSEWHERE} == set(EACH)


@pytest.mark.parametrize(("activity", "name"), sorted(EACH))
def test_more_of_a_metric_is_better_or_worse(activity: str, name: str) -> None:
    result = MAKERS[activity]()
    more = rows_of(between(result, changed(result, name, 1.1)))[name]
    less = rows_of(between(result, changed(result, name, 0.9)))[name]
    if name == "weight_update_s":  # a longer update of the same rate holds more samples
        assert (more.verdict, less.verdict) == ("neither", "neither")
        return
    expected = ("better", "worse") if name in MORE_IS_BETTER[activity] else ("worse", "better")
    assert (more.verdict, less.verdict) == expected
    assert more.change == pytest.approx(0.1)


def test_a_result_is_the_same_as_itself() -> None:
    for make in MAKERS.values():
        found = compare(make(), make())
        assert {row.verdict for row in found.differences[0].rows} == {"same"}
        assert not found.is_worse
        assert found.differences[0].inputs == ()
        assert found.report().verdict == ["B is the same as A"]


def test_more_memory_is_worse_and_its_tenant_says_why() -> None:
    row = rows_of(
        between(training(memory=memory(weights=100, stash=50)), training(memory=memory(weights=99, stash=90)))
    )
    found = row["in_processor_memory"]
    assert (found.a, found.b, found.verdict) == (150, 189, "worse")
    assert found.why is not None
    assert (found.why.kind, found.why.before, found.why.after) == ("stash", 50, 90)


def test_memory_that_only_one_uses_is_compared_with_none() -> None:
    row = rows_of(between(training(), training(memory=memory(weights=100))))["in_processor_memory"]
    assert (row.a, row.verdict, row.change) == (0, "worse", None)
    assert "from 0" in compare(training(), training(memory=memory(weights=100))).text()


def test_the_fullest_ipu_counts() -> None:
    rows = [{"ipu": i, "tenant": "t", "size_bytes": s, "where": "in_processor_memory"} for i, s in ((0, 5), (1, 7))]
    assert rows_of(between(training(), training(memory={"rows": rows})))["in_processor_memory"].b == 7


def test_a_metric_that_one_side_lacks_is_neither() -> None:
    found = compare(training(), training(time_to_train_s=None))
    row = rows_of(found.differences[0])["time_to_train_s"]
    assert (row.b, row.verdict, row.change) == (None, "neither", None)
    assert not found.is_worse
    assert "not given" in found.text()


def test_rounding_of_floating_point_numbers_is_no_change() -> None:
    row = rows_of(between(training(mfu=0.3), training(mfu=0.1 + 0.2)))["mfu"]
    assert (row.a != row.b, row.verdict) == (True, "same")


def test_updates_of_different_batches_are_neither_better_nor_worse() -> None:
    double = {kind: 2 * time_ps for kind, time_ps in A_PS.items()} | {"host": 300 * MS}
    found = compare(training(), training(double, samples=2000))
    rows = rows_of(found.differences[0])
    assert rows["weight_update_s"].verdict == "neither"
    assert rows["throughput_samples_per_s"].verdict == "better"
    # 300 ms of 1,000 samples are 300 us each, of 2,000 samples 150 us; nothing else moved per sample.
    cause = rows["throughput_samples_per_s"].why
    assert cause is not None
    assert (cause.kind, cause.after - cause.before) == ("host", pytest.approx(-150e-6))
    assert "host -150 us per sample" in found.text()
    assert "has 1,000 samples, one of B 2,000" in " ".join(found.text().split())


# Why


def test_the_kind_that_moved_most_is_the_reason() -> None:
    rows = rows_of(between(training(), training(B_PS, mfu=0.24)))
    update, rate, share = (rows[name].why for name in ("weight_update_s", "throughput_samples_per_s", "mfu"))
    assert update is not None
    assert (update.kind, update.after - update.before) == ("matmul", pytest.approx(-0.2))
    assert rate is not None
    assert (rate.kind, rate.after - rate.before) == ("matmul", pytest.approx(-0.2 / 1000))
    # One over the MFU went from 4 to 4.17; of it, host went from 30 % of 4 to 43.75 % of 4.17, and matmul fell.
    assert share is not None
    assert (share.kind, share.share_before, share.share_after) == ("host", pytest.approx(0.3), pytest.approx(0.4375))


def test_the_reason_moved_in_the_direction_of_the_change() -> None:
    """Matmul moved most, but the other way."""
    slower = {"matmul": 510 * MS, "host": 350 * MS, "bubble": 180 * MS}
    cause = rows_of(between(training(), training(slower)))["weight_update_s"].why
    assert cause is not None
    assert cause.kind == "bubble"  # +80 ms, host +50, matmul -90


@pytest.mark.parametrize(
    ("parts", "kind", "moved_s"),
    [
        ({"setup": 10.0, "training": 800.0, "evaluation": 100.0}, "matmul", -200.0),
        ({"setup": 10.0, "training": 800.0, "evaluation": 500.0}, "evaluation", 450.0),
    ],
)
def test_a_run_moves_by_its_parts(parts: dict[str, float], kind: str, moved_s: float) -> None:
    """Training of 800 s has the shares of the weight update: half of it is matmul, 400 s of 600 s before."""
    other = training(B_PS, run_breakdown=parts, time_to_train_s=sum(parts.values()))
    cause = rows_of(between(training(), other))["time_to_train_s"].why
    assert cause is not None
    assert (cause.kind, cause.after - cause.before) == (kind, pytest.approx(moved_s))


def test_an_answer_is_its_first_token_and_the_others() -> None:
    """Nine tokens of 0.09 s are 0.09 s less than nine of 0.1 s, all of it streaming."""
    faster = generation(
        time_per_output_token_s=0.09,
        tokens_per_s=1 / 0.09,
        steps_per_s=1 / 0.09,
        latency_s=1.01,
        steps=[step("prefill", matmul=0.15, host=0.05), step("decode", streaming=0.08, host=0.01)],
    )
    found = compare(generation(), faster)
    cause = rows_of(found.differences[0])["latency_s"].why
    assert cause is not None
    assert (cause.span, cause.kind) == ("decode", "streaming")
    assert cause.after - cause.before == pytest.approx(9 * -0.01)
    assert "streaming of decode -90 ms" in found.text()


# Waterfalls


def test_a_waterfall_goes_from_one_to_the_other() -> None:
    (waterfall,) = between(training(), training(B_PS)).waterfalls
    assert (waterfall.a_ps, waterfall.b_ps) == (1000 * MS, 800 * MS)
    moved = {each.kind: each.change_ps for each in waterfall.steps}
    assert moved == {"matmul": -200 * MS, "host": 50 * MS, "all_reduce": 50 * MS, "bubble": -100 * MS}
    assert list(moved) == ["matmul", "all_reduce", "host", "bubble"]  # the order of breakdowns


@given(*[st.dictionaries(st.sampled_from(["matmul", "host", "odd kind"]), st.integers(1, 10**15), min_size=1)] * 2)
def test_every_waterfall_adds_up_to_the_picosecond(first: dict[str, int], second: dict[str, int]) -> None:
    a, b = training(first), training(second)
    (waterfall,) = between(a, b).waterfalls
    assert waterfall.a_ps + sum(each.change_ps for each in waterfall.steps) == waterfall.b_ps
    assert (waterfall.a_ps, waterfall.b_ps) == (a["weight_update_ps"], b["weight_update_ps"])


def test_times_in_seconds_are_taken_to_the_picosecond() -> None:
    prefill, decode = between(generation(), generation()).waterfalls
    assert {each.kind: each.a_ps for each in prefill.steps} == {"matmul": 150 * MS, "host": 50 * MS}
    assert (prefill.a_ps, decode.a_ps) == (200 * MS, 100 * MS)


def test_what_is_printed_adds_up() -> None:
    lines = compare(training(), training(B_PS | {"bubble": 100 * MS})).text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("kind"))
    table = [line for line in lines[start + 2 :] if "," in line or line.endswith(" 0")][:5]
    figures = {line[:18].strip(): int(line.split("ms")[-1].split()[0].replace(",", "")) for line in table}
    total = figures.pop("total")
    assert figures == {"matmul": -200 * MS, "all-reduce": 50 * MS, "host": 50 * MS, "others, the same": 0}
    assert total == sum(figures.values())


# Ranges


def drawn(result: dict[str, Any], **ranges: tuple[float, float]) -> dict[str, Any]:
    metrics = {name: {"p10": low, "p50": (low + high) / 2, "p90": high} for name, (low, high) in ranges.items()}
    return {**result, "uncertainty": {"metrics": metrics}}


@pytest.mark.parametrize(
    ("a", "b", "within"),
    [
        ((0.9, 1.1), (0.9, 1.05), True),
        ((0.99, 1.1), (0.9, 1.05), False),  # 0.98 of B lies below the range of A
        ((0.9, 1.1), (0.9, 0.99), False),  # 1.0 of A lies above the range of B
    ],
)
def test_a_change_lies_within_both_ranges_or_not(a: tuple[float, float], b: tuple[float, float], within: bool) -> None:
    faster = training({**A_PS, "bubble": 80 * MS})
    row = rows_of(between(drawn(training(), weight_update_s=a), drawn(faster, weight_update_s=b)))["weight_update_s"]
    assert row.within_ranges == within


def test_what_is_in_proportion_has_a_range_too() -> None:
    """A throughput of 1,000 from 900 to 1,200 makes an MFU of 0.25 one from 0.225 to 0.3."""
    a = drawn(training(), throughput_samples_per_s=(900, 1200))
    row = rows_of(between(a, a))["mfu"]
    assert row.a_range == (pytest.approx(0.225), pytest.approx(0.3))


def test_a_drawn_run_has_the_range_of_its_time() -> None:
    """A P90 of 120 with a median of 100 from 90 to 110 lies between 108 and 132."""
    percentiles = {"p10": 80.0, "p50": 100.0, "p90": 120.0}
    result = training(time_to_train_s=None, time_to_train_percentiles=percentiles)
    rows = rows_of(between(*[drawn(result, time_to_train_s=(90, 110))] * 2))
    assert rows["time_to_train_percentiles.p50"].a_range == (90, 110)
    assert rows["time_to_train_percentiles.p90"].a_range == (pytest.approx(108), pytest.approx(132))


def test_within_its_range_a_metric_is_not_worse() -> None:
    wide = {"weight_update_s": (0.5, 2.0), "throughput_samples_per_s": (500, 2000), "time_to_train_s": (500, 2000)}
    slower = training({**A_PS, "bubble": 150 * MS})
    found = compare(drawn(training(), **wide), drawn(slower, **wide))
    assert not found.is_worse
    assert "~" in found.text()
    assert compare(training(), slower).is_worse
    one = compare(drawn(training(), **wide), slower)
    assert one.is_worse
    assert "only A has ranges" in one.text()


@pytest.mark.parametrize(
    ("factors", "is_worse", "told"),
    [
        ((1 / 1.0395, 1 / 0.945), True, "-4.76 % (80 %: -10 to -1 %); 5 metrics worse"),
        ((1 / 1.0605, 1 / 0.945), False, "-4.76 % (80 %: -10 to +1 %), which may be no change; no metric worse"),
        ((1 / 1.0605, 1.0), False, "-4.76 % (80 %: -4.8 to +1 %), which may be no change; no metric worse"),
    ],
)
def test_a_change_whose_range_holds_none_is_not_worse(
    factors: tuple[float, float], is_worse: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 / 1.05 of the throughput, times 0.945, 1.0395 and 1.0605, is 0.9, 0.99 and 1.01 of it."""
    stands_on: Any = SimpleNamespace(figures={"throughput_samples_per_s": 1.0, "weight_update_s": 1.0, TIME: 1.0})
    monkeypatch.setattr("podsim.study.compare.spread_of_change", lambda *_: SimpleNamespace(factors=factors))
    slower = training({**A_PS, "bubble": 150 * MS}, mfu=0.24, mfu_of_pod=0.24)
    a, b = (replace(subject, stands_on=stands_on) for subject in compare(training(), slower).subjects)
    answer = Comparison((a, b), (difference(a, b),))
    assert answer.is_worse == is_worse
    assert answer.report().verdict == [f"B against A: throughput {told}"]
    assert ("  ~ " in answer.text()) != is_worse
    rows = {row["metric"]: row for row in answer._records()}
    assert [row["within_ranges"] for row in rows.values()] == [not is_worse] * 5
    # Of a time, the other way round: 1.05 of it, times the factors.
    ends = [rows["weight_update_s"][f"change_{end}"] for end in ("low", "high")]
    assert ends == pytest.approx([1.05 * factor - 1 for factor in factors])


def test_a_metric_that_no_draw_covers_is_named() -> None:
    ranges = {"tokens_per_s": (1.0, 20.0), "time_per_output_token_s": (0.05, 1.0)}
    found = compare(drawn(generation(), **ranges), drawn(generation(latency_s=1.2), **ranges))
    assert found.is_worse
    assert "without a range, so that any change counts: latency" in found.text()


# What was asked


def test_keys_that_differ() -> None:
    other = training(scenario={**COMMON["scenario"], "run": {"seed": 1, "draws": 5}})
    assert inputs_of(between(training(), other)) == [("run.seed", "0", "1"), ("run.draws", None, "5")]


def test_what_results_say_of_pod_and_stack() -> None:
    """Where one of them does not hold all keys, files tell that something differs; otherwise the keys do."""
    other = {"inputs": [{"path": "hand.yaml", "sha256": "b" * 64}], "version": "1.2.4"}
    version, file = ("podsim", "1.2.3", "1.2.4"), ("file hand.yaml", "a" * 12, "b" * 12)
    clock, slow, fast = "system.machine.ipu.clock", "1.33 GHz", "1.85 GHz"
    for first, second, expected in (({}, {clock: fast}, file), ({clock: slow}, {clock: fast}, (clock, slow, fast))):
        found = between(training(hardware=first), training(hardware=second, **other))
        assert inputs_of(found) == [version, expected]
        assert any("without the keys of pod and stack" in note for note in found.notes) == (not first)


def test_files_of_data_are_told_where_keys_tell_all_of_those_with_keys() -> None:
    one, other = (
        training(hardware={"system.name": "POD4"}, inputs=[{"path": p, "sha256": d * 64} for p in ("a.yaml", "b.csv")])
        for d in "12"
    )
    assert inputs_of(between(one, other)) == [("file b.csv", "1" * 12, "2" * 12)]


def test_long_values_are_shown_where_they_differ() -> None:
    first, second = ({"file": f"/home/{'x' * 80}/{name}.onnx"} for name in ("one", "two"))
    text = compare(training(scenario=first), training(scenario=second)).text()
    assert "one.onnx" in text
    assert "two.onnx" in text
    assert max(map(len, text.splitlines())) <= 100


def test_items_of_a_list_have_keys_of_their_own() -> None:
    first, second = ({"stages": [{"ipu": 0, "layers": 3}, {"ipu": 1, "layers": each}]} for each in (4, 5))
    assert inputs_of(between(training(scenario=first), training(scenario=second))) == [("stages.1.layers", "4", "5")]


@pytest.mark.slow
def test_a_result_in_a_file_tells_all_of_its_hardware_as_a_variant_does(tmp_path: Path) -> None:
    """A bandwidth that is published stands in no list of assumptions."""
    file = tmp_path / "result.json"
    file.write_text(library.run("bert_pod64_hardware").to_json(), encoding="utf-8")
    found = compare("bert_pod64_hardware@slower_links", str(file), "bert_pod64_hardware")
    key = "system.machine.ipu_link.bandwidth_per_direction"
    assert list(map(inputs_of, found.differences)) == [[(key, "8 GB/s", "16 GB/s")]] * 2
    assert "without the keys" not in found.text()
    taken = [subject.taken for subject in found.subjects]
    assert taken[::2] == ["variant slower_links of bert_pod64_hardware", "shipped scenario"]
    assert taken[1].startswith("result of bert_pod64_hardware in a file, podsim ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert_v1.1_pod16_open", "llama2_7b_pods", "e5_large_pod4"])
def test_a_result_in_a_file_is_the_same_as_its_scenario(name: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(library.run(name).to_json(), encoding="utf-8")
    found = compare(str(file), name)
    (difference,) = found.differences
    assert {row.verdict for row in difference.rows} == {"same"}
    assert not any(each.change_ps for waterfall in difference.waterfalls for each in waterfall.steps)
    assert difference.inputs == ()


@pytest.mark.slow
def test_steps_of_inference_add_up() -> None:
    name, variant = "e5_large_pod4", "bow"
    found = compare(name, f"{name}@{variant}")
    steps = [subject.spans for subject in found.subjects]
    for waterfall in found.differences[0].waterfalls:
        assert waterfall.a_ps + sum(each.change_ps for each in waterfall.steps) == waterfall.b_ps
        assert waterfall.a_ps == sum(steps[0][waterfall.span].values())
    result = library.run(name).to_dict()
    assert [each.a_ps for each in found.differences[0].waterfalls] == [
        round(each["time_s"] * 1e12)
        for each in result["steps"]  # type: ignore[attr-defined]
    ]


@pytest.mark.slow
def test_whatever_python_has_can_be_compared() -> None:
    loaded = library.load_scenario("template")
    result = library.run(loaded)
    found = compare("template", loaded, result, {"base": "template"}, result.to_dict())
    assert [row.verdict for each in found.differences for row in each.rows if row.verdict != "same"] == []
    assert [each.inputs for each in found.differences] == [()] * 4
    assert library.compare is compare
    assert isinstance(found, library.Comparison)


def test_a_result_made_by_hand_can_be_compared() -> None:
    (found,) = compare(make_result(), make_result(mfu=0.5)).differences
    assert [row.metric for row in found.rows if row.verdict == "better"] == ["mfu", "mfu_of_pod"]


@pytest.mark.slow
def test_uncertainty_gives_ranges_to_both() -> None:
    found = compare("template", {"base": "template"}, uncertainty=Draws(20))
    assert all(subject.ranges for subject in found.subjects)
    assert rows_of(found.differences[0])["throughput_samples_per_s"].within_ranges


# Revisions of a git repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits: the clock of an own pod went up, then a scenario was removed."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "repository"
    (folder / "sub" / "hardware_specs").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    git(folder, "init", "--quiet")
    question = "base: bert_v1.1_pod16_open\nsystem: mine\nvariants:\n  half: {parallelism: {accumulation_factor: 96}}\n"
    (folder / "sub" / "question.yaml").write_text(question)
    (folder / "sub" / "gone.yaml").write_text(question)
    (folder / "sub" / "beside.yaml").write_text("base: bert_v1.1_pod16_open\nsystem: hardware_specs/mine.yaml\n")
    (folder / "sub" / "kept.json").write_text(json.dumps(training()))
    write_pod(folder, "1.5 GHz")
    commit(folder)
    git(folder, "tag", "first")
    git(folder, "tag", "half")
    write_pod(folder, "1.6 GHz")
    (folder / "sub" / "gone.yaml").unlink()
    (folder / "sub" / "kept.json").write_text(json.dumps(training(B_PS)))
    commit(folder)
    monkeypatch.chdir(folder / "sub")
    return folder


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "change")


def write_pod(folder: Path, clock: str) -> None:
    text = f"kind: pod\nbase: ipu_pod16\nmachine: {{ipu: {{clock: {clock}}}}}\n"
    (folder / "sub" / "hardware_specs" / "mine.yaml").write_text(text)


CLOCK = ("system.machine.ipu.clock", "1.5 GHz", "1.6 GHz")


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("word", ["question.yaml@first", "question.yaml@HEAD~1", "gone.yaml@first", "gone@HEAD~1"])
def test_a_scenario_at_a_revision_takes_its_files_from_there(word: str) -> None:
    """The pod too, which is looked up in the working folder rather than beside the file."""
    found = compare(word, "question.yaml")
    assert inputs_of(found.differences[0]) == [CLOCK]
    assert f"at revision {word.partition('@')[2]} (" in found.subjects[0].taken
    assert ("hardware_specs/mine.yaml" in dict(found.subjects[0].files)) is True


@pytest.mark.usefixtures("repository")
def test_a_variant_comes_before_a_revision_and_both_can_be_named() -> None:
    found = compare("question.yaml@half", "question.yaml@half@first")
    assert [subject.taken.partition(" (")[0] for subject in found.subjects] == [
        "variant half of question.yaml",
        "variant half of question.yaml at revision first",
    ]
    assert inputs_of(found.differences[0]) == [(CLOCK[0], "1.6 GHz", "1.5 GHz")]


@pytest.mark.usefixtures("repository")
def test_within_a_hook_of_another_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "of a hook"))
    found = compare("question.yaml@first", "question.yaml")
    assert inputs_of(found.differences[0]) == [CLOCK]


def test_from_outside_of_the_repository(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are found beside the scenario; those of the working folder are no part of the revision."""
    monkeypatch.chdir(tmp_path)
    word = str(repository.relative_to(tmp_path) / "sub" / "beside.yaml")
    found = compare(f"{word}@first", word)
    assert inputs_of(found.differences[0]) == [CLOCK]
    assert "sub/hardware_specs/mine.yaml" in dict(found.subjects[0].files)


@pytest.mark.usefixtures("repository")
def test_a_kept_result_at_a_revision() -> None:
    (waterfall,) = compare("kept.json@first", "kept.json").differences[0].waterfalls
    assert (waterfall.a_ps, waterfall.b_ps) == (1000 * MS, 800 * MS)


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("question.yaml@nosuch", ["has no variant `nosuch`", "there is no revision `nosuch`", "known here: half"]),
        ("nosuch.yaml@first", ["no scenario `nosuch.yaml`", "`nosuch.yaml` is not in revision `first`"]),
        ("question.yaml@-x", ["there is no revision `-x`"]),
        ("question.yaml@nosuch@first", ["no variant `nosuch`", "question.yaml:"]),
        ("question.yaml@a@b@c", ["no name with a variant or a revision", "NAME@VARIANT@REVISION"]),
        ("question.yaml@", ["no name with a variant or a revision"]),
        ("bert_v1.1_pod16_open@nosuch", ["has no variant `nosuch`"]),
    ],
)
def test_what_a_name_does_not_stand_for(word: str, parts: list[str]) -> None:
    with pytest.raises(PodsimError) as error:
        compare(word, "question.yaml")
    assert [part for part in parts if part not in str(error.value)] == []
    assert "do: " in str(error.value)


def test_errors_at_a_revision_name_its_files(repository: Path) -> None:
    (repository / "sub" / "hardware_specs" / "mine.yaml").write_text("kind: pod\nbase: ipu_pod16\nhost_cuont: 3\n")
    commit(repository)
    write_pod(repository, "1.6 GHz")
    with pytest.raises(PodsimError) as error:
        compare("question.yaml@HEAD", "question.yaml")
    assert "question.yaml@HEAD: hardware_specs/mine.yaml:3:1" in str(error.value)


def test_without_git_or_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("base: template\n")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(PodsimError, match="not a git repository"):
        compare("mine.yaml@HEAD", "mine.yaml")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PodsimError, match="git is not installed"):
        compare("mine.yaml@HEAD", "mine.yaml")


# Bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no result of podsim"),
        ("{}", "no result of podsim"),
        ('{"weight_update_ps": 1}', "no result of podsim"),
        (json.dumps(training(mfu=0.5)).replace("0.5,", "NaN,"), "`mfu` is `nan`"),
        (json.dumps(training(schema_version=2)), "schema version `2`, this podsim reads 1"),
        (json.dumps(training(schema_version="one")), "schema version `one`"),
        (json.dumps(training(breakdown_ps=[1])), "`breakdown_ps` is a list"),
        (json.dumps(training(weight_update_ps=5)), "adds up to 1,000,000,000,000 ps, its time is 5 ps"),
        (json.dumps(training(breakdown_ps={"matmul": 1.5})), "`breakdown_ps.matmul` is `1.5`"),
        (json.dumps(training(breakdown_ps={"matmul": -1})), "`breakdown_ps.matmul` is `-1`"),
        (json.dumps(training(mfu=True)), "`mfu` is `true`"),
        (json.dumps(training(mfu=10**400)), "`mfu` is `1000"),
        (json.dumps(training(throughput_samples_per_s=None)), "`throughput_samples_per_s` is missing"),
        (json.dumps(training(time_to_train_percentiles=3)), "`time_to_train_percentiles"),
        (json.dumps(training(run_breakdown=None)), "`run_breakdown` is missing"),
        (json.dumps(training(simulated=None)), "`simulated` is missing"),
        (json.dumps(training(scenario=[])), "`scenario` is a list"),
        (json.dumps(training(hardware=["x"])), "`hardware` is a list"),
        (json.dumps(training(memory={"rows": [None]})), "`memory.rows.0` is missing"),
        (json.dumps(training(inputs=["x"])), "`inputs.0` is `x`"),
        (json.dumps(training(uncertainty={"metrics": {"mfu": {}}})), "`uncertainty.metrics.mfu.p10` is missing"),
        (json.dumps(generation(steps=[None])), "`steps.0` is missing"),
        (json.dumps(generation(steps=[{"name": "decode", "time_s": 1.0, "breakdown": {"host": 2.0}}])), "adds up to"),
        (json.dumps(serving(saturation=5)), "saturation"),
    ],
)
def test_files_that_hold_no_result(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(PodsimError) as error:
        compare(str(file), training())
    assert message in str(error.value)
    assert str(file) in str(error.value)
    assert "do: " in str(error.value)


WEIRD = st.sampled_from(
    [None, True, -1, 0, 1e-320, 1e300, 10**400, "", "x|y\n", [], {}, [None], [[]], [{}], {"a": None}]
)


def keys_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything within a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [each for key, part in parts for each in keys_in(part, (*path, key))]


@given(st.sampled_from(sorted(MAKERS)), st.data(), WEIRD)
def test_whatever_a_result_holds_it_is_compared_or_refused(activity: str, data: st.DataObject, weird: Any) -> None:
    whole = MAKERS[activity](uncertainty={"metrics": {"mfu": {"p10": 0.2, "p90": 0.3}}})
    other = json.loads(json.dumps(whole))
    *path, last = data.draw(st.sampled_from(keys_in(other)))
    holder = other
    for key in path:
        holder = holder[key]
    holder[last] = weird
    try:
        found = compare(whole, other)
    except PodsimError as error:
        assert "do: " in str(error)
        return
    assert found.text(unchanged=True)
    assert found.markdown()
    assert found.to_json()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe{}")
    for name, message in (("none.json", "No such file"), ("latin.json", "not JSON: 'utf-8' codec")):
        with pytest.raises(PodsimError, match=message):
            compare(str(tmp_path / name), training())


def test_sides_that_do_not_go_together() -> None:
    with pytest.raises(PodsimError, match="a result of text generation, that of A is of training"):
        compare(training(), generation())
    for sides in ((), (training(),), [training()] * 27):
        with pytest.raises(PodsimError, match="two sides or more"):
            compare(*sides)
    with pytest.raises(PodsimError, match="int is nothing that can be compared"):
        compare(training(), 3)  # type: ignore[arg-type]


def test_what_does_not_fit_names_its_side() -> None:
    with pytest.raises(DoesNotFitError, match=r"^bert_pod64_hardware@half_memory: "):
        compare("bert_pod64_hardware", "bert_pod64_hardware@half_memory")


# The command


@pytest.fixture
def results(tmp_path: Path, podsim: Run) -> Run:
    """The command in a folder with two results."""
    (tmp_path / "a.json").write_text(json.dumps(training()))
    (tmp_path / "b.json").write_text(json.dumps(training(B_PS, mfu=0.24)))
    (tmp_path / "s.json").write_text(json.dumps(serving()))
    return podsim


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("a.json", "b.json"), 0),
        (("a.json", "a.json", "--fail-on", "worse"), 0),
        (("a.json",), 2),
        (("a.json", "s.json"), 2),
        (("a.json", "none"), 2),
        (("a.json", "b.json", "--precision", "1"), 2),
        (("a.json", "b.json", "--uncertainty", "0"), 2),
        (("s.json", "s.json", "--plot", "chart.png"), 2),
        (("a.json", "b.json", "--plot", "a.json"), 2),
        (("bert_pod64_hardware", "bert_pod64_hardware@half_memory"), 3),
    ],
)
def test_how_the_command_ends(results: Run, arguments: tuple[str, ...], code: int) -> None:
    ended, message = results("compare", *arguments)
    assert ended == code
    assert ("error: " in message) == (code != 0)
    assert "Traceback" not in message


def printed(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    from podsim.cli.app import main

    monkeypatch.setattr("sys.argv", ["podsim", "compare", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), capsys.readouterr().out


@pytest.mark.usefixtures("results")
def test_worse_fails_when_asked_to(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = printed(["a.json", "b.json", "--fail-on", "worse", "--format", "json"], monkeypatch, capsys)
    data = json.loads(output)
    assert code == 4
    assert data["differences"][0]["worse"] == ["mfu"]
    assert [each["label"] for each in data["sides"]] == ["a.json", "b.json"]
    (waterfall,) = data["differences"][0]["waterfalls"]
    assert sum(each["change_ps"] for each in waterfall["steps"]) == waterfall["b_ps"] - waterfall["a_ps"] == -200 * MS
    by_name = {each["metric"]: each for each in data["differences"][0]["metrics"]}
    shares = {"share_before": 0.6, "share_after": 0.5}
    why = {"span": "weight update", "kind": "matmul", "before": 0.6, "after": 0.4, **shares}
    assert by_name["weight_update_s"]["why"] == pytest.approx(why)
    assert by_name["mfu_of_pod"]["verdict"] == "same"


@pytest.mark.slow
@pytest.mark.usefixtures("results")
def test_the_text_fits_a_hundred_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["bert_pod64_hardware", "bert_pod64_hardware@bow", "resnet50_pod64_hosts@hosts_1", "--all"]
    code, output = printed([*names, "--precision", "9"], monkeypatch, capsys)
    assert code == 0
    assert max(map(len, output.splitlines())) <= 100
    assert "C against A: training" in output
    code, output = printed(["a.json", "b.json"], monkeypatch, capsys)
    assert "throughput 1,000/s 1,250/s +25 % better matmul -200 us per sample" in " ".join(output.split())


@pytest.mark.usefixtures("results")
def test_markdown_is_a_table_that_nothing_breaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.json").write_text(json.dumps(training(B_PS, scenario={"run": {"a|b": "x|y"}})))
    _, output = printed(["a.json", "c.json", "--format", "markdown"], monkeypatch, capsys)
    assert "| run.a\\|b | not given | x\\|y |" in output
    tables = [line for line in output.splitlines() if line.startswith("| throughput")]
    assert tables == ["| throughput | 1,000/s | 1,250/s | +25 % | better | matmul -200 us per sample |"]


@pytest.mark.parametrize(
    ("other", "options", "shown", "left_out"),
    [
        (training(B_PS), {}, "3 of 5 metrics changed (`--all` shows the others)", "MFU of the pod"),
        (training(B_PS), {"unchanged": True}, "MFU of the pod", "shows the others"),
        (training({**A_PS, "bubble": 100_123_456_789}), {"precision": 7}, "1.000123 s", "+0.012 %"),
        (training({**A_PS, "bubble": 100_123_456_789}), {}, "throughput", "1.000123 s"),
        # 30 keys and `run.seed`, of which 20 are shown
        (training(scenario={f"k{i}": i for i in range(30)}), {}, "and 11 more, which `--all` shows", "k29"),
        (training(scenario={f"k{i}": i for i in range(30)}), {"unchanged": True}, "k29", "more, which"),
    ],
)
def test_what_is_told_on_request(other: dict[str, Any], options: dict[str, Any], shown: str, left_out: str) -> None:
    text = compare(training(), other).text(**options)
    assert shown in text
    assert left_out not in text


def test_the_chart(results: Run, tmp_path: Path) -> None:
    code, message = results("compare", "a.json", "b.json", "b.json", "--plot", "chart.svg")
    assert (code, message[:16]) == (0, "wrote chart.svg:")
    assert (tmp_path / "chart.svg").read_bytes().startswith(b"<?xml")


def test_the_chart_walks_from_a_to_b() -> None:
    """In the order of the kinds: matmul -200, all-reduce and host +50 each, bubble -100.

    Changes are small beside the whole, so that the axis begins 18 % of 1000 - 800 below 800.
    """
    (chart,) = compare(training(), training(B_PS)).report().sheet().rows[0]
    assert isinstance(chart.drawn, Bars)
    scale = max(bar.end for bar in chart.drawn.bars) / 1000
    found = [(bar.start / scale, bar.end / scale) for bar in chart.drawn.bars]
    expected = [(764, 1000), (1000, 800), (800, 850), (850, 900), (900, 800), (764, 800)]
    assert found == [pytest.approx(each) for each in expected]
    assert [bar.row for bar in chart.drawn.bars] == ["A", "matmul", "all-reduce", "host", "bubble", "B"]
