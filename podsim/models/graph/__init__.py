"""Graphs of operators read from files, converted to workloads."""

from podsim.models.graph.read import Graph, Unmapped, read_graph

__all__ = ["Graph", "Unmapped", "read_graph"]
