"""Graphs of operators read from files, as workloads on any machine."""

from podsim.models.graph.read import Graph, Unmapped, read_graph

__all__ = ["Graph", "Unmapped", "read_graph"]
