"""Refits the calibrated constants on the rows marked for calibration, and on no others.

The session call of PopART is fitted to weight updates of MLPerf whose queries, keys and values have one weight, and
the unexplained work of a layer to updates with separate weights, both by least squares of relative errors. The set-up
time is the median over logged runs of two submissions to MLPerf. The superstep overhead is
fitted to the measured half-precision products. What a checkpoint and the set-up of a validation take is read off the
logs of the declared runs of convolutional networks. What it takes PyTorch to hand over a tensor is fitted to the
published weight updates that are declared for it, by least squares of relative misses; in the same way what it takes
to start an epoch of a synchronous loader and to load a graph, to those of networks on graphs. The session call of an
evaluation is fitted to the evaluations of one round of MLPerf, and to nothing else of its logs. That of TensorFlow is
fitted by least squares to several rows. What forward passes pay beside their work, the session call `forward_call`
and the host's answer to each batch `forward_exchange`, is read off runs of a C600: in a row of queued calls only the
answer is left, so that the published rate gives the answer; the least latency of a single call, less the answer and
modelled work, gives the call.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from podsim.errors import InfeasibleError, MissingDataError
from podsim.placement.topology import Routes
from podsim.report.report import Report
from podsim.result.cost import cost_convolution
from podsim.result.inference import ForwardResult
from podsim.result.reference_data import rows, scenario_name
from podsim.result.result import RunResult
from podsim.runs import infer, simulate
from podsim.scenario import load_ipu, load_scenario
from podsim.scenario.assumptions import with_value
from podsim.scenario.families.bert import BertSpec
from podsim.scenario.hardware import present
from podsim.scenario.ipu import Ipu
from podsim.scenario.software import Software
from podsim.tiles import MatMulShape
from podsim.tiles.matmul import plan_matmul
from podsim.validation.compare import Progress
from podsim.validation.comparison import evidence, loaded
from podsim.validation.fit import Fit, Solution, correlated, least_squares
from podsim.validation.microbenchmarks import Measured, measured, mk1
from podsim.validation.reference_data import (
    CALIBRATION,
    CALLED,
    CALLED_BERT,
    EVALUATED,
    calibration_rows,
    role_of_update,
    submissions,
)
from podsim.validation.runs import GRAPHS
from podsim.validation.show import report_of
from podsim.validation.show_fits import correlation_lines, fits_table, plain_fits

_MS_PER_S = 1000
_CALL, _UNEXPLAINED = "host_call", "unexplained_cycles_per_byte"
_POPART, _PYTORCH = "PopART", "PyTorch"
_STREAM, _EPOCH, _LOAD = "stream_time", "epoch_start_time", "sample_load_time"
_CHECKPOINT, _VALIDATION, _EVALUATION = "checkpoint", "validation_setup", "evaluation_call"
_SAVED_S, _VALIDATION_S = "checkpoint_s_mean", "validation_build_s"
_LITTLE_S = 1e-6
_OVERHEADS = range(150, 301, 25)
_TERA = 1e12


def calibrate(progress: Progress = list) -> tuple[Fit, ...]:
    """Fit every calibrated constant again."""
    names = [scenario_name(row) for row in calibration_rows("bert")]
    software, ipu = load_scenario(names[0]).spec.software, load_ipu("bow")
    return (
        Fit(
            "ipu.superstep.overhead",
            ipu.superstep.overhead_cycles,
            _overhead(ipu),
            "cycles",
            "GEMM fp16",
            configurations=sum(row["role"] == CALIBRATION for row in rows("gemm_measurements")),
        ),
        _shifted(_CALL, "s", lambda software: software.host_call_s, call_points("bert", CALLED_BERT)),
        _shifted(_UNEXPLAINED, "cycles/B", lambda software: software.unexplained_cycles_per_byte, split_points()),
        Fit(
            *("software.setup", software.setup_s, _setup_s(names), "s", " and ".join(names)),
            configurations=configurations(names),
        ),
        *_epoch_fits(),
        *_pytorch_fits(),
        _evaluation_call(),
        _shifted(f"{_CALL} (TensorFlow)", "s", lambda software: software.host_call_s, call_points("resnet", CALLED)),
        *forward_fits(),
        *link_fits(),
        *convolution_fits(),
    )


def configurations(titles: Iterable[str]) -> int:
    """Return the number of independent configurations."""
    return len({evidence(loaded(title)) for title in titles})


def _shifted(
    key: str, unit: str, committed_in: Callable[[Software], float | None], points: Sequence[PublishedTime]
) -> Fit:
    software = load_scenario(points[0].title.partition("@")[0]).spec.software
    committed = committed_in(software)
    if committed is None:
        what = f"{software.name} has no {key} to compare with"
        raise MissingDataError(what, do="add it to the software stack; any value will do before it is fitted")
    add, error = best_shift(points)
    titles = [point.title for point in points]
    return Fit(
        *(f"software.{key}", committed, committed + add, unit, " and ".join(titles), error),
        configurations=configurations(titles),
    )


def _evaluation_call() -> Fit:
    """Return the cost of an evaluation without its forward passes, as a mean over the submissions that fit."""
    found = {scenario_name(row): row for row in submissions("bert", [EVALUATED])}
    software = load_scenario(next(iter(found))).spec.software
    committed = software.evaluation_call_s
    if committed is None:
        what = f"{software.name} has no {_EVALUATION} to compare with"
        raise MissingDataError(what, do="add it to the software stack; any value will do before it is fitted")
    misses = {name: miss for name, row in found.items() if (miss := _missed_by_an_evaluation(name, row)) is not None}
    fitted = committed + statistics.fmean(misses.values())
    where = " and ".join(misses)
    return Fit(f"software.{_EVALUATION}", committed, fitted, "s", where, configurations=configurations(misses))


def _missed_by_an_evaluation(name: str, row: dict[str, str]) -> float | None:
    """Return measured less predicted time per call; None for a run that does not fit. [s]"""
    try:
        evaluations_s = simulate(name).run_breakdown["evaluation"]
    except InfeasibleError:
        return None
    missed_s = float(row["eval_s_median"]) - evaluations_s / float(row["n_evals_mean"])
    return missed_s / float(row["eval_device_steps"])


def _pytorch_fits() -> tuple[Fit, ...]:
    """Return the fits of the host time per weight update of PyTorch, for declared runs and for graph networks."""
    updates = trained(_PYTORCH)
    return (
        *_host_fits((_STREAM,), [row for row in updates if row["scope"] != GRAPHS], _PYTORCH),
        *_host_fits((_EPOCH, _LOAD), [row for row in updates if row["scope"] == GRAPHS], "graphs"),
    )


def trained(framework: str) -> list[dict[str, str]]:
    """Return the published weight updates of a framework that constants are fitted to."""
    declared = (row for row in rows("published_throughput") if row["role"] == CALIBRATION)
    return [row for row in declared if row["metric"] == "throughput" and row["framework"].startswith(framework)]


def _host_fits(keys: tuple[str, ...], trained: Sequence[Mapping[str, str]], words: str) -> tuple[Fit, ...]:
    """Fit times of a host together by least squares of relative errors."""
    names = [row["scenario"] for row in trained]
    nothing = dict.fromkeys(keys, 0.0)
    modelled = [_update_s(name, _seconds(nothing)) for name in names]
    # Both act linearly while no loader is slower than the rest, so that a little of either gives the coefficient.
    slopes = [
        [(_update_s(name, _seconds(nothing | {key: _LITTLE_S})) - alone) / _LITTLE_S for key in nothing]
        for name, alone in zip(names, modelled, strict=True)
    ]
    measured = [_samples(name) / float(row["value"]) for name, row in zip(names, trained, strict=True)]
    misses = [each - alone for each, alone in zip(measured, modelled, strict=True)]
    found = least_squares(slopes, misses, [1 / each for each in measured])
    software, where = load_scenario(*_split_title(names[0])).spec.software, " ".join(row["id"] for row in trained)
    committed = [_seconds_of(software)[key] for key in keys]
    fits = [
        Fit(f"software.{key} ({words})", old, new, "s", where, error, configurations=configurations(names))
        for key, old, new, error in zip(nothing, committed, found.values, found.standard_errors, strict=True)
    ]
    return correlated(fits, found)


def _seconds_of(software: Software) -> dict[str, float]:
    """Return times of the host by key; zero where the stack has none."""
    return {
        _STREAM: float(software.stream_s or 0.0),
        _EPOCH: float(software.epoch_start_s or 0.0),
        _LOAD: float(software.sample_load_s or 0.0),
    }


def _split_title(name: str) -> tuple[str, str | None]:
    """Return the scenario and the variant of `scenario@variant`."""
    scenario, _, variant = name.partition("@")
    return scenario, variant or None


def _seconds(times: Mapping[str, float]) -> list[str]:
    return [f"software.{key}={value} s" for key, value in times.items()]


def _simulated_update(name: str, overrides: Iterable[str] = ()) -> RunResult:
    scenario, variant = _split_title(name)
    return simulate(scenario, variant=variant, overrides=[*overrides])


def _update_s(name: str, overrides: Iterable[str] = ()) -> float:
    return _simulated_update(name, overrides).weight_update_s


def _samples(name: str) -> float:
    """Return the samples of a weight update."""
    result = _simulated_update(name)
    return result.throughput_samples_per_s * result.weight_update_s


def _epoch_fits() -> tuple[Fit, Fit]:
    """Return the times of a checkpoint and of a validation's set-up, as means over the declared runs."""
    declared = {scenario_name(row): row for row in calibration_rows("resnet")}
    saved, validated = (
        {name: row for name, row in declared.items() if row[column]} for column in (_SAVED_S, _VALIDATION_S)
    )
    software = load_scenario(next(iter(declared))).spec.software
    checkpoint, validation = software.checkpoint_s, software.validation_setup_s
    if checkpoint is None or validation is None:
        what = f"{software.name} has no {_CHECKPOINT} or {_VALIDATION} to compare with"
        raise MissingDataError(what, do="add both to the software stack; any value will do before they are fitted")
    # A checkpoint has the transfer of the weights beside this; the first evaluation loads the program, too.
    checkpoints = (
        float(row[_SAVED_S]) + checkpoint - _checkpoint_s(name, float(row["n_evals_mean"]))
        for name, row in saved.items()
    )
    setups = (
        float(row[_VALIDATION_S]) + float(row["first_eval_s"]) - float(row["eval_s_median"])
        for row in validated.values()
    )
    return (
        Fit(
            *(f"software.{_CHECKPOINT}", checkpoint, mean(checkpoints), "s", " and ".join(saved)),
            configurations=configurations(saved),
        ),
        Fit(
            *(f"software.{_VALIDATION}", validation, mean(setups), "s", " and ".join(validated)),
            configurations=configurations(validated),
        ),
    )


def _checkpoint_s(name: str, count: float) -> float:
    """Return the predicted time of one of the run's checkpoints, transfer of the weights included. [s]"""
    return simulate(name).run_breakdown["checkpoint"] / count


@dataclass(frozen=True, slots=True)
class Refitted:
    """Constants of podsim, fitted again on their rows."""

    fits: Sequence[Fit]

    def report(self) -> Report:
        """Return a report with a row for each constant, and their correlations."""
        return report_of("Constants of podsim, fitted again", [fits_table(self.fits), *correlation_lines(self.fits)])

    def to_json(self) -> str:
        """Return the fits as JSON text."""
        return json.dumps(plain_fits(self.fits), indent=2)


def _setup_s(names: Sequence[str]) -> float:
    return statistics.median(float(row["setup_s"]) for row in rows("mlperf_runs") if scenario_name(row) in names)


def _overhead(bow: Ipu) -> float:
    """Return the superstep overhead with the least RMS error, on a grid as fine as the data allow."""
    return min(_OVERHEADS, key=lambda cycles: _rms(with_value(bow, "superstep.overhead", cycles)))


def _rms(ipu: Ipu) -> float:
    errors = []
    for row in rows("gemm_measurements"):
        if row["role"] == CALIBRATION:
            shape = MatMulShape(int(row["batch_n"]), int(row["in_features_k"]), int(row["out_features_m"]))
            rate = shape.flop * ipu.clock_hz / plan_matmul(ipu, shape, row["dtype"], row["dtype"]).account.cycles
            errors.append(rate / _TERA / float(row["measured_tflops_digitised"]) - 1)
    return math.sqrt(statistics.fmean(error**2 for error in errors))


_WORD_BYTES = 4
_LATENCIES = ("first_hop_latency", "hop_latency", "rung_latency")
_STARTS = ("message_time", "forwarded_message_time")
_POSITION = "half_partials_float_cycles_per_position"
_POSITIONS = (4, 5, 6)


def link_fits() -> tuple[Fit, ...]:
    """Return the latencies of the IPU-Links of Mk1, from messages between two chips and many messages at once."""
    link = present(mk1().machine.ipu_link)
    words = [
        row for row in measured("transfer") if row.role == CALIBRATION and row.arguments["byte_count"] == _WORD_BYTES
    ]
    words = [row for row in words if str(row.arguments.get("source", "")).startswith("ipu")]
    alone, loaded = ([row for row in words if (row.arguments["tiles"] == 1) == one] for one in (True, False))
    walks = {row.id: _hops(row) for row in words}
    latencies = least_squares(
        [[1.0, len(walks[row.id]) - 1.0, float(sum(walks[row.id]))] for row in alone],
        [row.value_si for row in alone],
        [1 / row.value_si for row in alone],
    )
    first_s, hop_s, rung_s = latencies.values
    senders = [row.arguments["tiles"] - 1.0 for row in loaded]
    starts = least_squares(
        [[count, count * (len(walks[row.id]) > 1)] for row, count in zip(loaded, senders, strict=True)],
        [row.value_si - first_s - (len(walks[row.id]) - 1) * hop_s - sum(walks[row.id]) * rung_s for row in loaded],
        [1 / row.value_si for row in loaded],
    )
    committed = (link.first_hop_latency_s, link.hop_latency_s, link.rung_latency_s or 0.0)
    of_many = (link.message_time_s or 0.0, link.forwarded_message_time_s or 0.0)
    return (*_linked(_LATENCIES, committed, latencies, alone), *_linked(_STARTS, of_many, starts, loaded))


def _hops(row: Measured) -> list[bool]:
    """Return for each hop of a route whether it crosses a rung."""
    ends = (int(str(row.arguments[end]).removeprefix("ipu")) for end in ("source", "target"))
    return ["/rung" in channel.id and "rail" not in channel.id for channel in Routes(mk1()).between(*ends).channels]


def _linked(names: Sequence[str], committed: Sequence[float], found: Solution, used: Sequence[Measured]) -> list[Fit]:
    where = " and ".join(row.id for row in used)
    fits = [
        Fit(f"ipu_link.{name} (Mk1)", old, new, "s", where, error, configurations=len(used))
        for name, old, new, error in zip(names, committed, found.values, found.standard_errors, strict=True)
    ]
    return list(correlated(fits, found))


def convolution_fits() -> tuple[Fit, Fit]:
    """Return the superstep of Mk1 and the cycles per position with FP16 inputs and FP32 partials."""
    ipu, used = mk1().machine.ipu, [row for row in measured("convolution") if row.role == CALIBRATION]
    key = f"amp.{_POSITION}"
    committed = ipu.amp.half_partials_float_cycles_per_position or ipu.amp.half_cycles_per_position
    by_position = {cycles: _superstep_of(with_value(ipu, key, cycles), used) for cycles in _POSITIONS}
    position = min(by_position, key=lambda cycles: by_position[cycles][1])
    overhead, where = by_position[position][0], f"{used[0].id} to {used[-1].id}"
    values = ipu.superstep.overhead_cycles, overhead.values[0]
    return (
        Fit("ipu.superstep.overhead (Mk1)", *values, "cycles", where, overhead.standard_errors[0], (), len(used), 2),
        Fit(f"ipu.{key} (Mk1)", committed, position, "", where, None, (), len(used), 2),
    )


def _superstep_of(ipu: Ipu, used: Sequence[Measured]) -> tuple[Solution, float]:
    """Return the best superstep with unchanged splits, and the remaining squares of relative errors."""
    costs = [cost_convolution(**row.arguments | {"ipu": ipu}) for row in used]
    cycles = [cost.op.flop / row.value_si * ipu.clock_hz for cost, row in zip(costs, used, strict=True)]
    supersteps = [cost.plan.account.superstep / ipu.superstep.overhead_cycles for cost in costs]
    rest = [cost.cycles - cost.plan.account.superstep for cost in costs]
    targets = [whole - other for whole, other in zip(cycles, rest, strict=True)]
    found = least_squares([[count] for count in supersteps], targets, [1 / whole for whole in cycles])
    made = [other + count * found.values[0] for other, count in zip(rest, supersteps, strict=True)]
    return found, sum((new / old - 1) ** 2 for new, old in zip(made, cycles, strict=True))


@dataclass(frozen=True, slots=True)
class PublishedTime:
    """A published time and its prediction."""

    title: str
    published_s: float  # the published time. [s]
    predicted_s: float  # the prediction with the committed constant. [s]
    slope: float  # what one more unit of the constant adds to it, in seconds


def best_shift(points: Iterable[PublishedTime]) -> tuple[float, float | None]:
    """Return the amount to add to a constant, and its standard error.

    >>> add, error = best_shift([PublishedTime("a", 10.0, 9.0, 1.0), PublishedTime("b", 10.0, 7.0, 1.0)])
    >>> round(add, 6), round(error, 6)
    (2.0, 1.0)
    """
    chosen = list(points)
    found = least_squares(
        [[each.slope] for each in chosen],
        [each.published_s - each.predicted_s for each in chosen],
        [1 / each.published_s for each in chosen],
    )
    return found.values[0], found.standard_errors[0]


def call_points(benchmark: str, called: Collection[str]) -> tuple[PublishedTime, ...]:
    """Return weight updates of the submissions of some rounds, which share the time of a session call."""
    chosen = (row for row in submissions(benchmark) if role_of_update(row) == CALIBRATION and row["round"] in called)
    points = (_call_point(row) for row in chosen if not _splits_weights(scenario_name(row)))
    return tuple(point for point in points if point)


def _call_point(row: dict[str, str]) -> PublishedTime | None:
    """Return the point of a host call; None for a run that does not fit."""
    title = scenario_name(row)
    published_s = float(row["step_ms_pure"] or row["step_ms_median"]) / _MS_PER_S
    committed_s = float(load_scenario(title).spec.software.host_call_s)
    try:
        return _point(title, published_s, committed_s, lambda call_s: _update_s(title, _seconds({_CALL: call_s})))
    except InfeasibleError:
        return None


def split_points() -> tuple[PublishedTime, ...]:
    """Return weight updates of BERT in PopART whose queries, keys and values have separate weights."""
    logged = {scenario_name(row): float(row["step_ms_median"]) / _MS_PER_S for row in calibration_rows("bert")}
    published = {row["scenario"]: _samples(row["scenario"]) / float(row["value"]) for row in trained(_POPART)}
    return tuple(_split_point(*update) for update in (logged | published).items() if _splits_weights(update[0]))


def _split_point(title: str, published_s: float) -> PublishedTime:
    committed = load_scenario(*_split_title(title)).spec.software.unexplained_cycles_per_byte or 0.0
    return _point(title, published_s, committed, lambda rate: _update_s(title, [f"software.{_UNEXPLAINED}={rate}"]))


def _splits_weights(title: str) -> bool:
    """Return True for a model whose queries, keys and values have separate weights."""
    model = load_scenario(*_split_title(title)).spec.model
    return isinstance(model, BertSpec) and model.split_qkv


def _point(title: str, published_s: float, committed: float, predict: Callable[[float], float]) -> PublishedTime:
    """Return the prediction with a constant, and its slope, for a constant that acts linearly."""
    once_s, twice_s = predict(committed), predict(2 * committed)
    return PublishedTime(title, published_s, once_s, (twice_s - once_s) / committed)


def forward_fits() -> tuple[Fit, ...]:
    """Return the fits of `forward_call` and `forward_exchange`."""
    chosen = [row for row in rows("forward_calls") if row["role"] == CALIBRATION]
    software = load_scenario(chosen[0]["scenario"]).spec.software
    call_s, answer_s = software.forward_call_s, software.forward_exchange_s
    if call_s is None or answer_s is None:
        what = f"{software.name} has no forward_call or forward_exchange to compare with"
        raise MissingDataError(what, do="add both to the software stack; any value will do before they are fitted")
    fitted_answer_s = answer_s + mean(_interval_gap_s(row, call_s) for row in chosen if row["quantity"] == "throughput")
    late = [
        float(row["value"]) / _MS_PER_S - _simulated(row).latency_s for row in chosen if row["quantity"] == "latency"
    ]
    fitted_call_s = call_s + answer_s - fitted_answer_s + mean(late)
    where = " and ".join(dict.fromkeys(row["id"] for row in chosen))
    independent = configurations(f"{row['scenario']}@{row['variant']}".rstrip("@") for row in chosen)
    # A rate tells the answer, a latency the sum of both.
    slopes = [[0.0, 1.0] if row["quantity"] == "throughput" else [1.0, 1.0] for row in chosen]
    together = least_squares(slopes, [0.0] * len(slopes), [1.0] * len(slopes))
    return correlated(
        (
            Fit("software.forward_call", call_s, fitted_call_s, "s", where, configurations=independent),
            Fit("software.forward_exchange", answer_s, fitted_answer_s, "s", where, configurations=independent),
        ),
        together,
    )


def _interval_gap_s(row: Mapping[str, str], call_s: float) -> float:
    """Return measured less modelled time of a batch in a queue of calls, without the call itself. [s]"""
    result = _simulated(row)
    samples = result.samples_per_batch * result.replication_factor
    modelled_s = samples / result.throughput_samples_per_s - call_s / result.batches_per_call
    return samples / float(row["value"]) - modelled_s


def _simulated(row: Mapping[str, str]) -> ForwardResult:
    return infer(row["scenario"], variant=row["variant"] or None, overrides=row["overrides"].split())
