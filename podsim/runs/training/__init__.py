"""Training runs: set-up, weight updates and evaluations until convergence."""

from podsim.runs.training.outcome import TrainingOutcome, train

__all__ = ["TrainingOutcome", "train"]
