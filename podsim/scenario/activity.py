"""Activities: what a scenario asks of its model."""

from __future__ import annotations

from enum import StrEnum


class Activity(StrEnum):
    """What a model does in a scenario; it follows from the keys that the scenario has."""

    TRAINING = "training"
    GENERATION = "generation"
    FORWARD = "forward"

    @property
    def words(self) -> str:
        """The activity as it is called in a sentence.

        >>> Activity.FORWARD.words
        'forward passes'
        """
        return {"generation": "text generation", "forward": "forward passes"}.get(self, str(self))

    @property
    def verb(self) -> str:
        """The function of the package for this activity alone.

        >>> Activity.TRAINING.verb
        'podsim.simulate'
        """
        return {"training": "podsim.simulate", "generation": "podsim.generate", "forward": "podsim.infer"}[self]
