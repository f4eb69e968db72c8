"""Refits what forward passes pay beside modelled work: the session call, and the host's answer to each batch.

In a row of queued calls only the answer is left, so that the published rate gives the answer; least latencies of
single calls, less the answer and modelled work, give the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from podsim.activity import infer
from podsim.errors import MissingDataError
from podsim.report.forward import ForwardResult
from podsim.report.reference_data import rows
from podsim.specs import load_scenario
from podsim.validation.fit import Fit, correlated
from podsim.validation.least_squares import least_squares
from podsim.validation.reference_data import CALIBRATION

_MS_PER_S = 1000


def forward_fits() -> tuple[Fit, ...]:
    """`forward_call` and `forward_exchange`."""
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
    # A rate tells the answer, a latency the sum of both.
    slopes = [[0.0, 1.0] if row["quantity"] == "throughput" else [1.0, 1.0] for row in chosen]
    together = least_squares(slopes, [0.0] * len(slopes), [1.0] * len(slopes))
    return correlated(
        (
            Fit("software.forward_call", call_s, fitted_call_s, "s", where),
            Fit("software.forward_exchange", answer_s, fitted_answer_s, "s", where),
        ),
        together,
    )


def _interval_gap_s(row: Mapping[str, str], call_s: float) -> float:
    """How much longer a batch takes in a row of queued calls than it is modelled to, the call apart. [s]"""
    result = _simulated(row)
    samples = result.samples_per_batch * result.replication_factor
    modelled_s = samples / result.throughput_samples_per_s - call_s / result.batches_per_call
    return samples / float(row["value"]) - modelled_s


def _simulated(row: Mapping[str, str]) -> ForwardResult:
    return infer(row["scenario"], variant=row["variant"] or None, overrides=row["overrides"].split())
