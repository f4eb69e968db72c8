"""Activities: training, text generation or forward passes."""

from __future__ import annotations

from enum import StrEnum


class Activity(StrEnum):
    """Computation that a scenario simulates; its sections determine which."""

    TRAINING = "training"
    GENERATION = "generation"
    FORWARD = "forward"

    @property
    def label(self) -> str:
        """Name of the activity in a sentence.

        >>> Activity.FORWARD.label
        'forward passes'
        """
        return {"generation": "text generation", "forward": "forward passes"}.get(self, str(self))

    @property
    def verb(self) -> str:
        """Public function that runs this activity only.

        >>> Activity.TRAINING.verb
        'podsim.simulate'
        """
        return {"training": "podsim.simulate", "generation": "podsim.generate", "forward": "podsim.infer"}[self]
