"""`podsim replay`: recorded traces run again on a pod."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, cast

from podsim._version import __version__
from podsim.chakra.read import read_chakra
from podsim.engine import execute
from podsim.engine.trace import IDLE, Trace
from podsim.errors import PodsimError
from podsim.format import format_count, format_duration_s, format_percent, natural_key
from podsim.options import DIRECTORY, PYTHON_ALONE, SYSTEM
from podsim.program.recorded import COMPUTE, WAITING, Recorded, replay_program
from podsim.report.report import Report, Section
from podsim.report.table import Table, columns
from podsim.scenario import System, load_hardware
from podsim.scenario.software import Software
from podsim.units import ps_to_seconds

_SHOWN: Final = 16


@dataclass(frozen=True)
class Replay:
    """Result of replaying a recorded graph on a pod.

    Attributes:
        system: The pod.
        software: The software stack, which says how many rings collectives have.
        nodes: Of all ranks.
        recorded_ps: End of the last node as it was recorded; 0 if that is not. [ps]
        trace: Times of all ranks, and the timeline if it was asked for.
    """

    system: str
    software: str
    nodes: int
    recorded_ps: int
    trace: Trace

    @property
    def makespan_s(self) -> float:
        """Time from the first node to the end of the last node. [s]"""
        return ps_to_seconds(self.trace.makespan_ps)

    @property
    def ranks(self) -> Sequence[Mapping[str, float]]:
        """Time of each rank by kind, which adds up to the makespan. [s]"""
        accounts = sorted(self.trace.lanes.items(), key=lambda each: natural_key(each[0]))
        return [{kind: ps_to_seconds(time) for kind, time in _in_order(account).items()} for _, account in accounts]

    @property
    def breakdown(self) -> Mapping[str, float]:
        """Mean time over all ranks by kind. [s]"""
        ranks = self.ranks
        kinds = _in_order(dict.fromkeys((kind for rank in ranks for kind in rank), 0))
        return {kind: sum(rank.get(kind, 0.0) for rank in ranks) / len(ranks) for kind in kinds}

    @property
    def waiting(self) -> float:
        """Share of the time of all ranks in which they wait for others."""
        waited = sum(self.breakdown.get(kind, 0.0) for kind in (WAITING, IDLE))
        return waited / self.makespan_s if self.makespan_s else 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the data that `--format json` prints."""
        return {
            "system": self.system,
            "software": self.software,
            "ranks": len(self.ranks),
            "nodes": self.nodes,
            "makespan_s": self.makespan_s,
            "recorded_s": ps_to_seconds(self.recorded_ps),
            "waiting": self.waiting,
            "breakdown_s": self.breakdown,
            "ranks_s": self.ranks,
        }

    def to_json(self) -> str:
        """Return the result as JSON text; equal traces give equal bytes."""
        return json.dumps(self.to_dict(), indent=2)

    def report(self) -> Report:
        """Makespan, time by kind, and time by rank."""
        ranks = format_count(len(self.ranks))
        head = [("nodes", format_count(self.nodes)), ("makespan", format_duration_s(self.makespan_s))]
        if self.recorded_ps:
            head.append(("as recorded", format_duration_s(ps_to_seconds(self.recorded_ps))))
        head.append(("waiting", format_percent(self.waiting)))
        whole = self.makespan_s or 1.0
        kinds = [
            (kind.replace("_", "-"), format_duration_s(time), format_percent(time / whole))
            for kind, time in self.breakdown.items()
        ]
        busy = sorted(
            (
                (rank, times.get(COMPUTE, 0.0), times.get(WAITING, 0.0) + times.get(IDLE, 0.0))
                for rank, times in enumerate(self.ranks)
            ),
            key=lambda each: (-each[2], each[0]),
        )
        rows = [(str(rank), format_duration_s(computes), format_duration_s(waits)) for rank, computes, waits in busy]
        left_out = [f"and {len(rows) - _SHOWN} more, which wait less"] if len(rows) > _SHOWN else []
        tables = [
            Table(columns("", ""), head),
            Table(columns("kind", ">time", ">share"), kinds, "mean time of a rank"),
            Table(columns(">rank", ">compute", ">waiting"), rows[:_SHOWN], "ranks that wait longest", left_out),
        ]
        about = [f"{self.system}, {self.software}, podsim {__version__}"]
        return Report(f"Replay of {ranks} ranks", about, __version__, (), sections=[Section("", tables, short=True)])


def replay(
    folder: Annotated[str | Path, DIRECTORY],
    system: Annotated[str, SYSTEM] = "ipu_pod16",
    software: str = "popart_sdk_2.5",
    *,
    record: Annotated[bool, PYTHON_ALONE] = False,
) -> Replay:
    """Run recorded Chakra traces on a pod.

    Args:
        folder: A folder with PREFIX.0.et, PREFIX.1.et and so on, one a rank, and the groups of ranks in a JSON file.
        system: The pod that it runs on: a name or a path.
        software: The software stack, whose rings collectives use.
        record: Keep the timeline.

    Raises:
        PodsimError: A file is wrong, the graph waits for itself, or the pod is too small.
        SpecError: The pod or the stack is not known.
    """
    pod = cast(System, load_hardware(system, "pod")[0])
    stack = cast(Software, load_hardware(software, "software")[0])
    graph = read_chakra(folder)
    if len(graph.ranks) > pod.ipu_count:
        what = f"the trace has {len(graph.ranks)} ranks, and {pod.name} has {pod.ipu_count} IPUs"
        raise PodsimError(what, where=str(folder), do="name a larger pod with --system; `podsim list` shows them")
    trace = execute(replay_program(graph, pod, stack.collective_rings, stack.rings_of_shards), record=record)
    return Replay(pod.name, stack.name, sum(map(len, graph.ranks)), _recorded_ps(graph), trace)


def _recorded_ps(graph: Recorded) -> int:
    """Return the time from the first recorded start to the last recorded end. [ps]"""
    timed = [node for nodes in graph.ranks for node in nodes if node.start_ps or node.duration_ps]
    ends = [node.start_ps + (node.duration_ps or 0) for node in timed]
    return max(ends, default=0) - min((node.start_ps for node in timed), default=0)


def _in_order(account: Mapping[str, int]) -> dict[str, int]:
    """Return an account with computation first and waiting last."""
    last = (WAITING, IDLE)
    names = sorted(account, key=lambda kind: (kind != COMPUTE, kind in last, kind))
    return {kind: account[kind] for kind in names}
