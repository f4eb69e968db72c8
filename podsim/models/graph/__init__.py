"""Graphs of operators read from files, as workloads on any machine."""

from podsim.models.graph.graph import Graph, Unmapped
from podsim.models.graph.read import read_graph

__all__ = ["Graph", "Unmapped", "read_graph"]
