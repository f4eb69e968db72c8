"""Differences between results: metrics and why they moved, time by kind, and inputs."""

from podsim.study.compare.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
