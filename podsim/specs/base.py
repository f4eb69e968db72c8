"""The base of all models at the door."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """Frozen, and refuses unknown keys; the text under a field says what it means."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=False,
        validate_default=True,
        defer_build=True,  # of all families of models, a run needs one
    )
