"""Sections of scenarios that train a transformer."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator

from podsim.errors import BadValueError
from podsim.scenario.division import ParallelismSpec
from podsim.scenario.family import Sections
from podsim.scenario.quantity import Flag, NumberFormat, Probability
from podsim.scenario.run import RunSpec
from podsim.scenario.training import OptimizerStateSpec, TrainingDataSpec, TrainingMemorySpec, TrainingOptimizerSpec


class DropoutDataSpec(TrainingDataSpec):
    """The training data, with dropout."""

    dropout: Probability = 0.1
    """Dropout after embedding and blocks."""
    attention_dropout: Probability = 0.1
    """Dropout on attention probabilities."""

    def without_dropout(self) -> DropoutDataSpec:
        """The data without dropout."""
        return self.model_copy(update={"dropout": 0.0, "attention_dropout": 0.0})


class MemorySpec(TrainingMemorySpec):
    """How memory is used."""

    state_can_move: ClassVar[bool] = True
    optimizer_state: OptimizerStateSpec = OptimizerStateSpec()
    """Where optimizer state lives."""

    @property
    def state(self) -> OptimizerStateSpec:
        """As the scenario says."""
        return self.optimizer_state


class OptimizerSpec(TrainingOptimizerSpec):
    """The optimizer."""

    kind: Literal["lamb", "adamw", "sgd"] = "lamb"
    """LAMB [you2020], AdamW [loshchilov2019] or SGD with momentum."""
    first_moment: NumberFormat = "fp32"
    """Number format of the first moment, or of the momentum."""
    second_moment: NumberFormat = "fp32"
    """Number format of the second moment; SGD has none."""
    master_weights: Flag = False
    """Whether a single-precision copy of the weights is kept as optimizer state."""
    gradient_clipping: Flag = False
    """Whether gradients are clipped by their global norm."""

    @model_validator(mode="after")
    def _momentum_is_one_moment(self) -> OptimizerSpec:
        if self.kind == "sgd" and self.second_moment != "fp32":
            raise BadValueError("SGD has no second moment", "leave second_moment out, or choose `kind: adamw`")
        return self

    @property
    def state_formats(self) -> tuple[NumberFormat, ...]:
        """The moments, and the single-precision weights if they are kept."""
        moments = (self.first_moment,) if self.kind == "sgd" else (self.first_moment, self.second_moment)
        return (*moments, "fp32") if self.master_weights else moments

    @property
    def clips_gradients(self) -> bool:
        """As the scenario says."""
        return self.gradient_clipping


TRANSFORMER_TRAINING: Sections = {
    "parallelism": (ParallelismSpec, ...),
    "memory": (MemorySpec, MemorySpec()),
    "optimizer": (OptimizerSpec, OptimizerSpec()),
    "run": (RunSpec | None, None),
}
"""Sections of a scenario that trains any transformer, beside its data."""
