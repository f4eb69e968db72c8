"""Refits the calibrated constants on the rows marked for calibration, and on no others.

Two constants of the software stack are fitted together to two weight updates: the layout-change rate,
which grows with the work of a stage, and the session call, which does not. The set-up time is the
median over the logged runs of the same two rows. The superstep overhead is fitted to the measured
half-precision products. What a checkpoint and the set-up of a validation take is read off the logs of
one run of a convolutional network. The session call of PyTorch is read off one fine-tuning run, and
what forward passes pay beside their work, `forward_call` and `forward_exchange`, off runs of a C600.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from podsim.activity import simulate
from podsim.cost import MatMulShape
from podsim.cost.matmul import plan_matmul
from podsim.errors import MissingDataError
from podsim.report.reference_data import rows, scenario_name
from podsim.specs import load_ipu, load_scenario
from podsim.specs.assumptions import with_value
from podsim.specs.ipu import Ipu
from podsim.validation.compare import Progress
from podsim.validation.fit import Fit
from podsim.validation.forward_calls import forward_fits
from podsim.validation.reference_data import CALIBRATION, calibration_rows

_MS_PER_S = 1000
_LAYOUT, _CALL = "layout_change_cycles_per_byte", "host_call"
_CHECKPOINT, _VALIDATION = "checkpoint", "validation_setup"
_EPOCH_COLUMNS = ("checkpoint_s_mean", "validation_build_s", "first_eval_s", "eval_s_median", "n_evals_mean")
_LAYOUT_STEP, _CALL_STEP_S = 0.1, 0.01
_NEWTON_STEPS = ("first step", "second step", "third step")
_OVERHEADS = range(150, 301, 25)
_TERA = 1e12


def calibrate(progress: Progress = list) -> tuple[Fit, ...]:
    """Refit every calibrated constant.

    Args:
        progress: Passes on the names of the steps, and may show how far it is.
    """
    chosen = calibration_rows("bert")
    names = [scenario_name(row) for row in chosen]
    targets = [float(row["step_ms_median"]) / _MS_PER_S for row in chosen]
    software = load_scenario(names[0]).spec.software
    layout, call_s = float(software.layout_change_cycles_per_byte), float(software.host_call_s)
    for _ in progress(_NEWTON_STEPS):
        layout, call_s = _newton_step(names, targets, layout, call_s)
    where = " and ".join(names)
    ipu = load_ipu("bow")
    return (
        Fit(
            "ipu.superstep.overhead",
            ipu.superstep.overhead_cycles,
            _overhead(ipu),
            "cycles",
            "GEMM fp16",
        ),
        Fit(f"software.{_LAYOUT}", software.layout_change_cycles_per_byte, layout, "cycles/B", where),
        Fit(f"software.{_CALL}", software.host_call_s, call_s, "s", where),
        Fit("software.setup", software.setup_s, _setup_s(names), "s", where),
        *_epoch_fits(),
        _pytorch_call(),
        *forward_fits(),
    )


def _pytorch_call() -> Fit:
    """The session call of PyTorch: a published weight update, less the work that is modelled."""
    (row,) = (row for row in rows("published_throughput") if row["role"] == CALIBRATION)
    name, batch = row["scenario"], float(row["global_batch"])
    committed = load_scenario(name).spec.software.host_call_s
    modelled_s = simulate(name).weight_update_s - committed
    return Fit(f"software.{_CALL} (PyTorch)", committed, batch / float(row["value"]) - modelled_s, "s", name)


def _epoch_fits() -> tuple[Fit, Fit]:
    """Times of a checkpoint and of the set-up of a validation."""
    (row,) = calibration_rows("resnet")
    name = scenario_name(row)
    logged = {key: float(row[key]) for key in _EPOCH_COLUMNS}
    software = load_scenario(name).spec.software
    checkpoint, validation = software.checkpoint_s, software.validation_setup_s
    if checkpoint is None or validation is None:
        what = f"{software.name} has no {_CHECKPOINT} or {_VALIDATION} to compare with"
        raise MissingDataError(what, do="add both to the software stack; any value will do before they are fitted")
    # The first evaluation loads the program, too.
    setup_s = logged["validation_build_s"] + logged["first_eval_s"] - logged["eval_s_median"]
    transfer_s = _checkpoint_s(name, logged["n_evals_mean"]) - checkpoint
    return (
        Fit(f"software.{_CHECKPOINT}", checkpoint, logged["checkpoint_s_mean"] - transfer_s, "s", name),
        Fit(f"software.{_VALIDATION}", validation, setup_s, "s", name),
    )


def _checkpoint_s(name: str, count: float) -> float:
    """Predicted time of one of the run's checkpoints, transfer of the weights included. [s]"""
    return simulate(name).run_breakdown["checkpoint"] / count


def _newton_step(names: Sequence[str], targets: Sequence[float], layout: float, call_s: float) -> tuple[float, float]:
    """One step towards the two constants that meet two weight updates; both act almost linearly."""
    here = _misses(names, targets, layout, call_s)
    by_layout = _misses(names, targets, layout + _LAYOUT_STEP, call_s)
    by_call = _misses(names, targets, layout, call_s + _CALL_STEP_S)
    a, b = ((by_layout[i] - here[i]) / _LAYOUT_STEP for i in (0, 1))
    c, d = ((by_call[i] - here[i]) / _CALL_STEP_S for i in (0, 1))
    determinant = a * d - b * c
    return layout - (here[0] * d - here[1] * c) / determinant, call_s - (here[1] * a - here[0] * b) / determinant


def _misses(names: Sequence[str], targets: Sequence[float], layout: float, call_s: float) -> list[float]:
    changes = (f"software.{_LAYOUT}={layout}", f"software.{_CALL}={call_s * _MS_PER_S} ms")
    return [
        simulate(name, overrides=changes).weight_update_s - target for name, target in zip(names, targets, strict=True)
    ]


def _setup_s(names: Sequence[str]) -> float:
    return statistics.median(float(row["setup_s"]) for row in rows("mlperf_runs") if scenario_name(row) in names)


def _overhead(bow: Ipu) -> float:
    """The superstep overhead with the least RMS error, on a grid as fine as the data deserve."""
    return min(_OVERHEADS, key=lambda cycles: _rms(with_value(bow, "superstep.overhead", cycles)))


def _rms(ipu: Ipu) -> float:
    errors = []
    for row in rows("gemm_measurements"):
        if row["role"] == CALIBRATION:
            shape = MatMulShape(int(row["batch_n"]), int(row["in_features_k"]), int(row["out_features_m"]))
            rate = shape.flop * ipu.clock_hz / plan_matmul(ipu, shape, row["dtype"], row["dtype"]).account.cycles
            errors.append(rate / _TERA / float(row["measured_tflops_digitised"]) - 1)
    return math.sqrt(statistics.fmean(error**2 for error in errors))
