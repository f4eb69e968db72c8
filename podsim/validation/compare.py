"""Every published row beside its prediction: kernels, matrix products, weight updates, times to train."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from podsim.activity import generate, infer, simulate
from podsim.cost import Chip, MatMulShape, planned_matmul
from podsim.cost.amp import amp_vertex_cycles
from podsim.report.reference_data import rows, scenario_name
from podsim.report.result import RunResult
from podsim.specs import load_ipu
from podsim.specs.ipu import Ipu
from podsim.validation.comparison import Comparison
from podsim.validation.reference_data import submissions

_TERA, _MS_PER_S, _S_PER_MIN = 1e12, 1000, 60
_SECONDS = {"h": 3600, "min": 60}
_GEMM_MEMORY = 0.6
_FORWARD = "forward pass"
_THROUGHPUT = {
    "": "published throughput",
    # Averages over all that a trainer does: compilation, data loading, logging, evaluation.
    "whole run": "published averages of whole runs",
}
# Name for a reader, and the column with the time of a weight update beside checkpoints.
_BENCHMARKS = {"bert": ("BERT", "step_ms_median"), "resnet": ("ResNet-50", "step_ms_pure")}


Progress = Callable[[Sequence[str]], Iterable[str]]


def validate(progress: Progress = list) -> tuple[Comparison, ...]:
    """All comparisons, in order from a vertex to a run.

    Args:
        progress: Passes on the names of the scenarios to simulate, and may show how far it is.
    """
    bow = load_ipu("bow")
    published = [row for row in rows("published_throughput") if row["scenario"]]
    names = dict.fromkeys(
        [
            *(scenario_name(row) for benchmark in _BENCHMARKS for row in submissions(benchmark)),
            *(name for row in published if _trains(row) for name in row["scenario"].split()),
        ]
    )
    results = {name: simulate(name) for name in progress(tuple(names))}
    return (
        *_amp(bow),
        *compare_gemms(bow),
        *_weight_updates(results),
        *_throughputs(results),
        *_times_to_train(results),
        *_effects(results),
        *_scaling(results),
        *_published(published, results),
        *_more_ipus(),
    )


def _amp(bow: Ipu) -> Iterator[Comparison]:
    for row in rows("amp_measurements"):
        predicted = float(amp_vertex_cycles(bow, int(row["rows"]), 1, 1))
        yield Comparison(
            "AMP vertex",
            f"{row['rows']}x16x16",
            predicted,
            float(row["cycles"]),
            "cycles",
            row["role"],
            row["source"],
        )


def compare_gemms(bow: Ipu) -> Iterator[Comparison]:
    """Matrix products measured on one Bow IPU."""
    for row in rows("gemm_measurements"):
        shape = MatMulShape(int(row["batch_n"]), int(row["in_features_k"]), int(row["out_features_m"]))
        plan = planned_matmul(Chip(bow), shape, row["dtype"], row["dtype"], _GEMM_MEMORY)
        rate = shape.flop * bow.clock_hz / plan.account.cycles
        name = f"{shape.rows}x{shape.inner}x{shape.columns}"
        published = float(row["measured_tflops_digitised"])
        yield Comparison(f"GEMM {row['dtype']}", name, rate / _TERA, published, "TFLOP/s", row["role"], row["source"])


def _weight_updates(results: dict[str, RunResult]) -> Iterator[Comparison]:
    for benchmark, (label, column) in _BENCHMARKS.items():
        for row in submissions(benchmark):
            name = scenario_name(row)
            predicted, published = results[name].weight_update_s * _MS_PER_S, float(row[column])
            yield Comparison(f"{label} weight update", name, predicted, published, "ms", row["role"], row["source"])


def _throughputs(results: dict[str, RunResult]) -> Iterator[Comparison]:
    """Images over the time of training with its checkpoints."""
    for row in submissions("resnet"):
        name = scenario_name(row)
        result, parts = results[name], results[name].run_breakdown
        predicted = result.throughput_samples_per_s * parts["training"] / (parts["training"] + parts["checkpoint"])
        published = float(row["throughput_samples_s"])
        yield Comparison("ResNet-50 throughput", name, predicted, published, "images/s", row["role"], row["source"])


def _times_to_train(results: dict[str, RunResult]) -> Iterator[Comparison]:
    for benchmark, (label, _) in _BENCHMARKS.items():
        for row in submissions(benchmark):
            name = scenario_name(row)
            predicted = (results[name].time_to_train_s or 0.0) / _S_PER_MIN
            published = float(row["score_physical_min"])
            yield Comparison(f"{label} time to train", name, predicted, published, "min", row["role"], row["source"])


def _effects(results: dict[str, RunResult]) -> Iterator[Comparison]:
    """Published differences between runs, which totals hide."""
    measured = {scenario_name(row): float(row["step_ms_median"]) for row in submissions("bert")}
    pairs = (
        ("POD64 to POD128, open", "bert_v1.1_pod64_open", "bert_v1.1_pod128_open"),
        ("POD64 to POD128, closed", "bert_v1.1_pod64_closed", "bert_v1.1_pod128_closed"),
        ("SDK 2.1 to 2.3, POD16 open", "bert_v1.0_pod16_open", "bert_v1.1_pod16_open"),
        ("SDK 2.1 to 2.3, POD64 open", "bert_v1.0_pod64_open", "bert_v1.1_pod64_open"),
    )
    for name, before, after in pairs:
        predicted = (results[after].weight_update_s - results[before].weight_update_s) * _MS_PER_S
        published = measured[after] - measured[before]
        yield Comparison("BERT effect of a change", name, predicted, published, "ms", "hold-out", "mlperf_logs")


def _scaling(results: dict[str, RunResult]) -> Iterator[Comparison]:
    """What larger pods do for ResNet-50, and how it stands beside another machine."""
    group, role = "ResNet-50 scaling", "hold-out"
    measured = {int(row["ipus"]): row for row in submissions("resnet") if row["round"] == "v1.1"}
    found = {ipus: results[scenario_name(row)] for ipus, row in measured.items()}
    logged_ms = {ipus: float(row["step_ms_pure"]) for ipus, row in measured.items()}
    smallest, largest = min(measured), max(measured)
    for ipus in sorted(measured)[1:]:
        published = _rate(measured[ipus]) / _rate(measured[smallest])
        predicted = found[ipus].throughput_samples_per_s / found[smallest].throughput_samples_per_s
        name, share = f"efficiency of POD{ipus}", smallest / ipus
        yield Comparison(group, name, predicted * share, published * share, "x", role, "mlperf_logs")
    before = largest // 2
    predicted = (found[largest].weight_update_s - found[before].weight_update_s) * _MS_PER_S
    published = logged_ms[largest] - logged_ms[before]
    yield Comparison(group, f"POD{before} to POD{largest}", predicted, published, "ms", role, "mlperf_logs")
    (gpu,) = (row for row in rows("mlperf_gpu_reference") if (row["round"], row["benchmark"]) == ("v1.1", "resnet"))
    minutes = float(gpu["score_min"])
    predicted = (found[smallest].time_to_train_s or 0.0) / _S_PER_MIN / minutes
    published = float(measured[smallest]["score_physical_min"]) / minutes
    yield Comparison(
        group, f"POD{smallest} over DGX A100, time to train", predicted, published, "x", role, "mlperf_logs"
    )


def _rate(row: dict[str, str]) -> float:
    """Images per ms, checkpoints apart. [1/ms]"""
    return float(row["samples_per_step_actual"]) / float(row["step_ms_pure"])


def _trains(row: dict[str, str]) -> bool:
    return row["metric"] != "generation rate" and row["scope"] != _FORWARD


def _published(published: Iterable[dict[str, str]], results: dict[str, RunResult]) -> Iterator[Comparison]:
    """Other published figures whose configuration is known; several scenarios are phases of one run."""
    for row in published:
        names = row["scenario"].split()
        if row["metric"] == "generation rate":
            predicted, group = generate(names[0]).steps_per_s, "published text generation"
        elif row["scope"] == _FORWARD:
            predicted, group = infer(names[0]).throughput_samples_per_s, "published forward passes"
        elif row["metric"] == "throughput":
            predicted, group = results[names[0]].throughput_samples_per_s, _THROUGHPUT[row["scope"]]
        else:
            seconds = sum(results[name].time_to_train_s or 0.0 for name in names)
            predicted, group = seconds / _SECONDS[row["unit"]], "published time to train"
        name = f"{row['id']}: {' + '.join(names)}"
        yield Comparison(group, name, predicted, float(row["value"]), row["unit"], row["role"], row["source_url"])


def _more_ipus() -> Iterator[Comparison]:
    """Text generation on four times the IPUs: "throughput grows linearly", taken as proportional."""
    small, large = (generate("llama2_7b_pods", variant=variant) for variant in ("pod4", "pod16"))
    predicted = large.tokens_per_s / small.tokens_per_s
    name, published = "LLaMa2-7B, POD4 to POD16: throughput", 16 / 4
    yield Comparison("published effect of more IPUs", name, predicted, published, "x", "hold-out", "conductivity2024")
