"""Automatic parallelism: a division is chosen with the cost and memory models, the best few in the engine."""
