"""Published limits of training: batches that an optimizer was validated for, and micro-batches that underflow."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.result.reference_data import rows
from podsim.scenario import TrainingScenario
from podsim.scenario.transformer_training import LoggedConvergence, RunSpec


def convergence_condition(spec: TrainingScenario, samples_per_update: float) -> str | None:
    """Return the remark that convergence is not known for a batch of this size; None if it is within published limits.

    A run that was logged with its batch, or is sampled from reference runs, did converge. Source: [bert_blog].
    """
    run = spec.run
    converged = isinstance(run, RunSpec) and (run.is_drawn or isinstance(run.samples_to_converge, LoggedConvergence))
    task = getattr(spec.model, "task", None) if spec.model.kind == "bert" else None
    limit = None if converged or task is None else _batch_limit(spec, task)
    if limit is None:
        return None
    least, most = (float(limit[end]) if limit[end] else None for end in ("least", "most"))
    if (least is None or samples_per_update >= least) and (most is None or samples_per_update <= most):
        return None
    span = f"up to {most:,.0f}" if least is None else f"{least:,.0f} to {most:,.0f}"
    phase = f" in {limit['phase']} (sequences of up to {limit['tokens_up_to']} tokens)" if limit["phase"] else ""
    return (
        f"{spec.optimizer.kind.upper().replace('ADAMW', 'AdamW')} was validated for {span} {limit['unit']} per weight "
        f"update{phase}, and this run has {samples_per_update:,.0f} [{limit['source']}]"
    )


def _batch_limit(spec: TrainingScenario, task: str) -> dict[str, str] | None:
    """Return the batch limit for the sequence length of the run, or None without a published limit."""
    length = getattr(spec.data, "sequence_length", 0)
    fitting = (
        row
        for row in rows("training_limits")
        if (row["limit"], row["task"], row["optimizer"]) == ("batch", task, spec.optimizer.kind)
        and length <= int(row["tokens_up_to"])
    )
    return min(fitting, key=lambda row: int(row["tokens_up_to"]), default=None)


def underflow_notes(spec: TrainingScenario) -> Iterator[str]:
    """Yield a note if half-precision gradients are accumulated over a thousand micro-batches or more.

    Source: [bert_blog].
    """
    (limit,) = (row for row in rows("training_limits") if row["limit"] == "accumulation")
    count, precision = spec.parallelism.accumulation_factor, spec.precision
    if count <= int(limit["most"]) or "fp16" not in (precision.activations, precision.gradient_accumulation):
        return
    sums = precision.gradient_accumulation
    cure = "" if sums == "fp32" else "; `precision.gradient_accumulation: fp32` makes the sums wider and takes memory"
    yield (
        f"{count:,} micro-batches per weight update: from {int(limit['most']) + 1:,} on, gradients in FP16 can "
        f"underflow [{limit['source']}]. Gradients are {precision.activations.upper()} here, "
        f"their sums {sums.upper()}{cure}. A scenario says nothing of loss scaling, which takes no time"
    )
