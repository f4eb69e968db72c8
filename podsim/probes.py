"""Runs repeated with other inputs, as cheaply as can be: one probe per kind of run.

A probe keeps what its result has found out, costs of operations and the model as a graph, and forgets it when it is
pickled. A program that equals the last one is not simulated again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podsim.cost.model import CostModel
from podsim.engine import Pieces, Trace, execute
from podsim.influence import Measure
from podsim.plan import Job, make_plan
from podsim.plan.forward_job import forward_job
from podsim.plan.generation import Generation, generation_cost_model, plan_generation
from podsim.plan.job import training_job
from podsim.plan.layout import Fit
from podsim.plan.plan import cost_model
from podsim.program.compile import compile_program
from podsim.program.forward import compile_calls, compile_one_batch
from podsim.program.generation import compile_step
from podsim.program.task import Program
from podsim.report.breakdown import mean_account
from podsim.report.step import longest_stage_ps
from podsim.specs import ForwardScenario, GenerationScenario, TrainingScenario
from podsim.training import TrainingOutcome, train
from podsim.units import ps_to_seconds
from podsim.workload import Workload


@dataclass
class _Traces:
    """Traces of programs that differ little: most are equal to the first, or in most of their pieces."""

    first: tuple[Program, Trace] | None = None
    pieces: Pieces | None = None

    def of(self, program: Program, *, anew: bool) -> Trace | None:
        """The trace of a program; None if it would take long and `anew` does not allow it."""
        if self.first is None:
            self.first = program, execute(program, explicit=False)
        known, trace = self.first
        if known == program:
            return trace
        if trace.event_count > _MANY_EVENTS and not anew:
            return None
        if self.pieces is None:
            self.pieces = Pieces()
            self.pieces.trace(known)  # what the others are compared with, piece by piece
        return self.pieces.trace(program) or execute(program, explicit=False)


_MANY_EVENTS = 5000
"""Events of a program beyond which it is simulated again on request alone."""


def _figures(trace: Trace) -> object:
    return trace.makespan_ps, mean_account(trace.lanes)


class _Probe:
    """What probes have in common: they forget what they know when they are pickled."""

    metric: str
    _KEPT: tuple[str, ...] = ()

    def __init__(self, model: CostModel | None) -> None:
        self._model, self._traces = model, _Traces()

    def __getstate__(self) -> dict[str, object]:
        kept = {name: self.__dict__[name] for name in self._KEPT}
        return kept | {"_model": None, "_traces": _Traces()}

    def _costs(self, fresh: CostModel, *, anew: bool) -> CostModel | None:
        """Costs for other inputs, with the splits of the products that are known."""
        if self._model is None:
            self._model = fresh
        return fresh.holding(self._model) or (fresh if anew else None)


class TrainingProbe(_Probe):
    """Training: the time to train where the scenario says when a run ends, otherwise samples per second."""

    _KEPT = ("metric",)

    def __init__(
        self,
        job: Job,
        model: CostModel,
        outcome: TrainingOutcome,
        known: tuple[Program, Trace] | None = None,
    ) -> None:
        """Prepare to repeat what was planned.

        Args:
            job: What was planned.
            model: What its operations cost.
            outcome: What came of it.
            known: What was run without its repetitions, if it was.
        """
        super().__init__(model)
        self._traces.first = known
        self._workload_of: Callable[[int], Workload] | None = job.workload_of
        ends = outcome.time_to_train_s is not None or outcome.percentiles is not None
        self._fit = job.fit
        self.metric = "time_to_train_s" if ends else "throughput_samples_per_s"

    def __getstate__(self) -> dict[str, object]:
        """The graph is built again."""
        return super().__getstate__() | {"_workload_of": None}

    def __call__(self, spec: TrainingScenario, *, anew: bool) -> Measure | None:
        """Run one weight update, and the run that it belongs to."""
        job = training_job(spec, self._workload_of, self._fit)
        self._workload_of = job.workload_of
        model = self._costs(cost_model(job), anew=anew)
        if model is None:
            return None
        plan = make_plan(job, model, advise=False)
        program = compile_program(plan)
        trace = self._traces.of(program, anew=anew)
        if trace is None:
            return Measure(None, (program, plan.memory))
        outcome = train(spec, plan, ps_to_seconds(trace.makespan_ps))
        time_s = outcome.time_to_train_s or (outcome.percentiles or {}).get("p50")
        return Measure(
            time_s or outcome.samples_per_update / trace.makespan_ps, (_figures(trace), plan.memory, outcome)
        )


class GenerationProbe(_Probe):
    """Text generation, and serving by its steps: tokens per second of whole batches."""

    metric = "tokens_per_s"
    _KEPT = ("_job_of",)

    def __init__(self, job_of: Callable[[GenerationScenario], Generation], model: CostModel) -> None:
        """Prepare to repeat what was planned.

        Args:
            job_of: What is planned for a scenario.
            model: What its operations cost.
        """
        super().__init__(model)
        self._job_of = job_of

    def __call__(self, spec: GenerationScenario, *, anew: bool) -> Measure | None:
        """Run both kinds of step."""
        asked = self._job_of(spec)
        model = self._costs(generation_cost_model(asked), anew=anew)
        if model is None:
            return None
        steps = plan_generation(asked, model, advise=False)
        prefill, decode = compile_step(steps.prefill), compile_step(steps.decode)
        others = (prefill, decode, steps.memory)
        trace = self._traces.of(decode, anew=anew)
        if trace is None:
            return Measure(None, others)
        in_flight = asked.layout.batches_in_flight
        interval_ps = max(trace.makespan_ps, in_flight * longest_stage_ps(steps.decode, trace))
        return Measure(in_flight * asked.layout.micro_batch_size / interval_ps, others)


class ForwardProbe(_Probe):
    """Forward passes: samples per second of session calls."""

    metric = "throughput_samples_per_s"
    _KEPT = ("_workload", "_fit")

    def __init__(self, workload: Workload, model: CostModel, fit: Fit = "refuse") -> None:
        """Prepare to repeat what was planned.

        Args:
            workload: The model for one batch, as it was read.
            model: What its operations cost.
            fit: What becomes of a job that does not fit.
        """
        super().__init__(model)
        self._workload, self._fit = workload, fit

    def __call__(self, spec: ForwardScenario, *, anew: bool) -> Measure | None:
        """Run one batch, and a session call of many."""
        job = forward_job(spec, self._workload, self._fit)
        model = self._costs(cost_model(job), anew=anew)
        if model is None:
            return None
        plan = make_plan(job, model, advise=False)
        batch, call = compile_one_batch(plan), compile_calls(plan)
        trace = self._traces.of(call, anew=anew)
        return Measure(1 / trace.makespan_ps if trace else None, (batch, call, plan.memory))
