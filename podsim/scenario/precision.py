"""Number formats of training."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from podsim.errors import BadValueError
from podsim.models.op import DTYPE_BYTES
from podsim.scenario.base import Spec
from podsim.scenario.quantity import NumberFormat


class PrecisionSpec(Spec):
    """Number formats."""

    weights: NumberFormat = "fp16"
    """Weights."""
    activations: NumberFormat = "fp16"
    """Activations and their gradients."""
    gradient_accumulation: NumberFormat = "fp16"
    """Accumulated gradients."""
    matmul_partials: NumberFormat = "fp16"
    """Partial results of matrix products."""
    stash: Literal["fp8", "fp16", "fp32"] | None = None
    """Activations kept from the forward to the backward pass; as `activations` if left out."""

    @model_validator(mode="after")
    def _stash_is_no_wider(self) -> PrecisionSpec:
        if self.stash is not None and DTYPE_BYTES[self.stash] > DTYPE_BYTES[self.activations]:
            what = f"a stash in {self.stash} for activations in {self.activations}"
            raise BadValueError(what, "use a format that is no wider, or leave `stash` out")
        return self

    @model_validator(mode="after")
    def _one_format(self) -> PrecisionSpec:
        if self.weights != self.activations:
            raise BadValueError(
                f"weights in {self.weights} with activations in {self.activations} are not modelled",
                "give both the same format; optimizer.master_weights keeps a single-precision copy of half weights",
            )
        return self
