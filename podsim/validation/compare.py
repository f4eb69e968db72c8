"""Comparison of all published rows with predictions: kernels, products, weight updates, evaluations, times to train."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from podsim.errors import PodsimError
from podsim.result.reference_data import PADDLE, rows, scenario_name
from podsim.scenario import load_ipu
from podsim.scenario.ipu import Ipu
from podsim.scenario.wording import quoted
from podsim.tiles import Chip, MatMulShape, planned_matmul
from podsim.tiles.amp import amp_vertex_cycles
from podsim.validation.comparison import NotRun, RowComparison, Validation, same_runs
from podsim.validation.fits import compare_fits
from podsim.validation.microbenchmarks import compare_graph_kernels, compare_microbenchmarks
from podsim.validation.power import compare_power, power_titles
from podsim.validation.reference_data import (
    CALIBRATION,
    EVALUATED,
    HOLD_OUT,
    blind_name,
    blind_predictions,
    role_of_update,
    submissions,
    uncertainty_of,
)
from podsim.validation.runs import RecordingResults, Results, Runs, compare_row, published_rows, published_titles
from podsim.watch import Watch, watched

_TERA, _MS_PER_S, _S_PER_MIN = 1e12, 1000, 60
_GEMM_MEMORY = 0.6
# Label, and the column with the time of a weight update without checkpoints.
_BENCHMARKS = {"bert": ("BERT", "step_ms_median"), "resnet": ("ResNet-50", "step_ms_pure")}
_PODS = ("llama2_7b_pods@pod4", "llama2_7b_pods@pod16")
Progress = Watch


def _logged(uncertainty: float) -> dict[str, str]:
    """Return role, source and uncertainty of a figure derived from several submissions."""
    return {"role": HOLD_OUT, "source": "mlperf_logs", "uncertainty": f"{uncertainty:%}"}


def _named(row: RowComparison | NotRun) -> RowComparison | NotRun:
    """Return a comparison with the name of its configuration: the first row that runs the same."""
    if isinstance(row, NotRun):
        return row
    same = same_runs(titles())
    configuration = " + ".join(same[title] for title in row.scenarios) or f"{row.group}, {row.name}"
    return replace(row, configuration=configuration)


def validate(progress: Progress = watched) -> tuple[RowComparison, ...]:
    """Compare all published figures with predictions, in order from a vertex to a run.

    Args:
        progress: Function that passes on the names of the scenarios and may show progress; by default a line in a
            notebook.

    Raises:
        PodsimError: `progress` is not a function.
    """
    if not callable(progress):
        what = f"published figures are compared all together: {quoted(progress)} is no function that shows progress"
        raise PodsimError(what, do="call `podsim.validate()`; `podsim.check` takes scenarios of your own")
    return validation(progress).comparisons


def validation(progress: Progress = list) -> Validation:
    """Return all comparisons, and the published figures without a prediction."""
    bow = load_ipu("bow")
    runs = RecordingResults(Runs(titles(), progress))
    of_runs = (replace(row, scenarios=runs.requested_titles()) for row in compared(runs))
    measured = (*compare_microbenchmarks(), *compare_graph_kernels(), *compare_fits())
    alone = (*_amp(bow), *compare_gemms(bow), *measured)
    tried = tuple(map(_named, (*alone, *of_runs)))
    return Validation(
        tuple(row for row in tried if isinstance(row, RowComparison)),
        tuple(row for row in tried if isinstance(row, NotRun)),
    )


def titles() -> tuple[str, ...]:
    """Return the scenarios of all rows."""
    of = (row for benchmark in _BENCHMARKS for paddle in (False, True) for row in submissions(benchmark, paddle=paddle))
    submitted = (scenario_name(row) for row in of)
    return tuple(dict.fromkeys((*submitted, *published_titles(), *power_titles(), *_PODS)))


def compared(runs: Results) -> Iterator[RowComparison | NotRun]:
    """Yield every published figure of a run with its prediction."""
    yield from _submitted("weight update", "weight_update", runs)
    yield from _throughputs(runs)
    yield from _evaluations(runs)
    yield from _submitted("time to train", "time_to_train", runs)
    yield from _effects(runs)
    yield from _scaling(runs)
    yield from published_rows(runs)
    yield from compare_power(runs)
    yield _more_ipus(runs)


def _amp(bow: Ipu) -> Iterator[RowComparison]:
    for row in rows("amp_measurements"):
        predicted = float(amp_vertex_cycles(bow, int(row["rows"]), 1, 1))
        yield RowComparison(
            "AMP vertex",
            f"{row['rows']}x16x16",
            predicted,
            float(row["cycles"]),
            "cycles",
            row["role"],
            row["source"],
            uncertainty=uncertainty_of(row),
        )


def compare_gemms(bow: Ipu) -> Iterator[RowComparison]:
    """Yield the matrix products measured on one Bow IPU."""
    for row in rows("gemm_measurements"):
        shape = MatMulShape(int(row["batch_n"]), int(row["in_features_k"]), int(row["out_features_m"]))
        plan = planned_matmul(Chip(bow), shape, row["dtype"], row["dtype"], _GEMM_MEMORY)
        rate = shape.flop * bow.clock_hz / plan.account.cycles
        name = f"{shape.rows}x{shape.inner}x{shape.columns}"
        published = float(row["measured_tflops_digitised"])
        made = RowComparison(
            f"GEMM {row['dtype']}", name, rate / _TERA, published, "TFLOP/s", row["role"], row["source"]
        )
        yield replace(made, uncertainty=uncertainty_of(row))


def _submitted(what: str, quantity: str, runs: Results) -> Iterator[RowComparison | NotRun]:
    """Yield the weight updates, or times to train, of every submission."""
    for benchmark, (label, column) in _BENCHMARKS.items():
        for row in (*submissions(benchmark), *submissions(benchmark, paddle=True)):
            name, blind = scenario_name(row), blind_predictions(blind_name(row), quantity)
            if quantity == "weight_update":
                row = row | {"role": role_of_update(row)}
                predict, published, unit = partial(_update_ms, runs, name), float(row[column]), "ms"
            else:
                predict, published, unit = partial(_minutes, runs, name), float(row["score_physical_min"]), "min"
                row = row | {"uncertainty": row["uncertainty_score"]}
            yield compare_row(f"{_benchmark_label(row, label)} {what}", name, predict, published, unit, row, blind)


def _benchmark_label(row: dict[str, str], label: str) -> str:
    """Return the benchmark, with the framework's name for submissions that repeat PopART's."""
    return f"{PADDLE} {label}" if row["framework"] == PADDLE else label


def _update_ms(runs: Results, name: str) -> float:
    return runs.training(name).weight_update_s * _MS_PER_S


def _minutes(runs: Results, name: str) -> float:
    return (runs.training(name).time_to_train_s or 0.0) / _S_PER_MIN


def _throughputs(runs: Results) -> Iterator[RowComparison | NotRun]:
    """Yield images per second of training time, checkpoints included."""
    for row in submissions("resnet"):
        name, published = scenario_name(row), float(row["throughput_samples_s"])
        predict = partial(_images_per_s, runs, name)
        row = row | {"uncertainty": row["uncertainty_throughput"]}
        yield compare_row("ResNet-50 throughput", name, predict, published, "images/s", row)


def _images_per_s(runs: Results, name: str) -> float:
    result, parts = runs.training(name), runs.training(name).run_breakdown
    return result.throughput_samples_per_s * parts["training"] / (parts["training"] + parts["checkpoint"])


def _evaluations(runs: Results) -> Iterator[RowComparison | NotRun]:
    """Yield the time of one evaluation of each BERT run."""
    for row in (*submissions("bert"), *submissions("bert", paddle=True)):
        name, count = scenario_name(row), float(row["n_evals_mean"])
        predict = partial(_evaluation_s, runs, name, count)
        is_fitted = row["round"] == EVALUATED and row["framework"] != PADDLE
        change = {"role": CALIBRATION if is_fitted else row["role"], "uncertainty": row["uncertainty_evaluation"]}
        group, published = f"{_benchmark_label(row, 'BERT')} evaluation", float(row["eval_s_median"])
        yield compare_row(group, name, predict, published, "s", row | change)


def _evaluation_s(runs: Results, name: str, count: float) -> float:
    return runs.training(name).run_breakdown["evaluation"] / count


def _effects(runs: Results) -> Iterator[RowComparison | NotRun]:
    """Yield the published differences between runs, which totals hide."""
    known = {scenario_name(row): row for row in submissions("bert")}
    measured = {name: float(row["step_ms_median"]) for name, row in known.items()}
    pairs = (
        ("POD64 to POD128, open", "bert_v1.1_pod64_open", "bert_v1.1_pod128_open"),
        ("POD64 to POD128, closed", "bert_v1.1_pod64_closed", "bert_v1.1_pod128_closed"),
        ("SDK 2.1 to 2.3, POD16 open", "bert_v1.0_pod16_open", "bert_v1.1_pod16_open"),
        ("SDK 2.1 to 2.3, POD64 open", "bert_v1.0_pod64_open", "bert_v1.1_pod64_open"),
    )
    for name, before, after in pairs:
        predict, published = partial(_added_ms, runs, before, after), measured[after] - measured[before]
        share = math.hypot(*(measured[each] * uncertainty_of(known[each]) for each in (before, after))) / abs(published)
        yield compare_row("BERT effect of a change", name, predict, published, "ms", _logged(share))


def _added_ms(runs: Results, before: str, after: str) -> float:
    return (runs.training(after).weight_update_s - runs.training(before).weight_update_s) * _MS_PER_S


def _scaling(runs: Results) -> Iterator[RowComparison | NotRun]:
    """Yield the speed-up of ResNet-50 on larger pods, and its ratio to another machine."""
    group = "ResNet-50 scaling"
    measured = {int(row["ipus"]): row for row in submissions("resnet") if row["round"] == "v1.1"}
    names = {ipus: scenario_name(row) for ipus, row in measured.items()}
    logged_ms = {ipus: float(row["step_ms_pure"]) for ipus, row in measured.items()}
    smallest, largest = min(measured), max(measured)
    for ipus in sorted(measured)[1:]:
        share = smallest / ipus
        published = _rate(measured[ipus]) / _rate(measured[smallest]) * share
        predict = partial(_efficiency, runs, names[smallest], names[ipus], share)
        yield compare_row(
            group,
            f"efficiency of POD{ipus}",
            predict,
            published,
            "x",
            _logged(_ratio_uncertainty(measured[smallest], measured[ipus])),
        )
    before = largest // 2
    predict, published = partial(_added_ms, runs, names[before], names[largest]), logged_ms[largest] - logged_ms[before]
    off_ms = math.hypot(*(logged_ms[ipus] * uncertainty_of(measured[ipus]) for ipus in (before, largest)))
    yield compare_row(group, f"POD{before} to POD{largest}", predict, published, "ms", _logged(off_ms / published))
    (gpu,) = (row for row in rows("mlperf_gpu_reference") if (row["round"], row["benchmark"]) == ("v1.1", "resnet"))
    minutes = float(gpu["score_min"])
    published = float(measured[smallest]["score_physical_min"]) / minutes
    name = f"POD{smallest} over DGX A100, time to train"
    # The other machine has only a score: its runs are taken to have the same spread.
    share = math.sqrt(2) * uncertainty_of(measured[smallest], "uncertainty_score")
    yield compare_row(group, name, lambda: _minutes(runs, names[smallest]) / minutes, published, "x", _logged(share))


def _ratio_uncertainty(one: dict[str, str], other: dict[str, str]) -> float:
    """Return the uncertainty of a ratio of two weight updates."""
    return math.hypot(uncertainty_of(one), uncertainty_of(other))


def _efficiency(runs: Results, small: str, large: str, share: float) -> float:
    return runs.training(large).throughput_samples_per_s / runs.training(small).throughput_samples_per_s * share


def _rate(row: dict[str, str]) -> float:
    """Return images per ms without checkpoints. [1/ms]"""
    return float(row["samples_per_step_actual"]) / float(row["step_ms_pure"])


def _more_ipus(runs: Results) -> RowComparison | NotRun:
    """Compare text generation on four times the IPUs: "throughput grows linearly" is taken as proportional."""
    small, large = _PODS
    name, published = "LLaMa2-7B, POD4 to POD16: throughput", 16 / 4
    # As "linearly" says a factor of 4 to one digit: half a unit either way, evenly.
    row = {"role": HOLD_OUT, "source": "conductivity2024", "uncertainty": "7 %"}
    return compare_row(
        "published effect of more IPUs",
        name,
        lambda: runs.generation(large).tokens_per_s / runs.generation(small).tokens_per_s,
        published,
        "x",
        row,
    )
