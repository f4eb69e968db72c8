"""Training runs: set-up, weight updates and evaluations until convergence."""

from podsim.runs.training.outcome import train

__all__ = ["train"]
