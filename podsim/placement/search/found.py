"""A division that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podsim.engine import execute
from podsim.placement.plan import Plan
from podsim.placement.search.best_first import Lead
from podsim.program.compile import compile_program
from podsim.scenario import TrainingScenario
from podsim.units import ps_to_seconds


@dataclass(frozen=True, slots=True)
class Found:
    """A division that fits."""

    plan: Plan
    estimate_s: float  # all of a weight update, without the engine; never more than with it [s]
    written: Callable[[], TrainingScenario]

    def lead(self) -> Lead[Found]:
        """The estimate, and the engine behind it."""
        return Lead(self.estimate_s, self._simulated, self)

    def _simulated(self) -> list[Lead[Found]]:
        time_s = ps_to_seconds(execute(compile_program(self.plan), explicit=False).makespan_ps)
        return [Lead(time_s, None, self)]

    @property
    def kind(self) -> tuple[object, ...]:
        """What runners-up differ in, beside the place of optimizer state and details of phases."""
        layout = self.plan.layout
        sharing = layout.tensor_parallel, self.plan.workload.whole is not None, layout.phased
        return (*sharing, layout.ipus_per_replica, layout.replication_factor, layout.micro_batch_size, layout.recompute)
