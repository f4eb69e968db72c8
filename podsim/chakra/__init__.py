"""Chakra execution traces: what a run does as one graph per rank, written and read."""
