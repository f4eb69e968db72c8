"""The process on a host that calls the IPUs, as a lane: what its loop does from one session call to the next.

A loop fetches samples, stacks them, hands over tensors and calls. All of that is serial: IPUs that have ended their
work wait until the process has come round. Workers of its loader make the next batch ready all the while, so that a
round takes the longest of what a worker loads, and tasks and device one after the other. Decoding and sending of images
is the feed's. Frameworks differ by which of these tasks take time.

Source: [hydronet_gnn], [poptorch_squad], [graphcore_results] for PyTorch; [mlperf_logs] for PopART and TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from podsim.placement.plan import Plan
from podsim.program.replicas import Replicas
from podsim.program.task import Barrier, Group, Phase, Step, Work
from podsim.program.transfers import HOST
from podsim.units import seconds_to_ps

LOAD, STACK, HAND_OVER, CALL = "load samples", "stack samples", "hand over tensors", "session call"
"""Tasks of a loop, in their order."""
PROCESS = "process"
"""What names of lanes of processes begin with."""
_ENDED, _BEGUN = "host", "host/call"
_DEVICE = "device"

WorksOf = Callable[[int], tuple[Work, ...]]
"""What the IPUs of a machine do in a session call beside waiting for the process."""


@dataclass(frozen=True, slots=True)
class Call:
    """A session call, between two programs of the IPUs.

    Attributes:
        tasks: What a process does, one after the other.
        meanwhile: What is left to workers of its loader when IPUs begin.
        works_of: What IPUs do when it is over, by machine: those of a machine that is late.
    """

    tasks: tuple[Work, ...]
    works_of: WorksOf = lambda _machine: ()
    meanwhile: tuple[Work, ...] = ()

    @classmethod
    def steady(cls, *tasks: tuple[str, float], loaded_s: float = 0.0) -> Call:
        """One that takes the same time each time, and on all machines.

        Args:
            tasks: (name, time) of each. [s]
            loaded_s: In which workers load the next batch; they begin with the tasks. [s]
        """
        left_s = max(0.0, loaded_s - sum(time_s for _, time_s in tasks))
        return cls(_works(tasks), meanwhile=_works([(LOAD, left_s)]))

    @property
    def time_ps(self) -> int:
        """Of all tasks. [ps]"""
        return sum(duration for task in self.tasks for _, duration in task.parts)

    def phase(self, plan: Plan, replicas: Replicas, replica: int) -> Phase:
        """The IPUs of a replica, which wait for one another and for the process; those of a machine share steps."""
        per_machine = plan.system.machine.ipu_count
        machine_of = {
            replicas.lane(replica, local): replicas.ipu(replica, local) // per_machine
            for local in range(plan.layout.ipus_per_replica)
        }
        meet = Barrier(_ENDED, HOST), Barrier(_BEGUN, HOST)
        steps: dict[int, tuple[Step, ...]] = {each: (*meet, *self.works_of(each)) for each in set(machine_of.values())}
        return Phase("host call", 1, {lane: steps[machine] for lane, machine in machine_of.items()}, HOST)

    def processes(self, plan: Plan, replicas: Replicas, rounds: int = 1) -> Iterator[Group]:
        """The loops of all processes of the replicas that are kept.

        Args:
            plan: What is run.
            replicas: Those of the program.
            rounds: Programs of the IPUs, of which the last is accounted.
        """
        steps: tuple[Step, ...] = (
            *self.meanwhile,
            Barrier(_ENDED, _DEVICE),
            *self.tasks,
            Barrier(_BEGUN, _DEVICE),
        )
        for number in range(ceil(len(replicas.kept) / served(plan))):
            name = f"{PROCESS}{number}"
            phase = Phase("loop", 1, {name: steps}, _DEVICE)
            yield Group(name, (name,), (phase,) * rounds, rounds - 1, accounted=False)


def _works(tasks: Iterable[tuple[str, float]]) -> tuple[Work, ...]:
    timed = [(name, seconds_to_ps(time_s)) for name, time_s in tasks]
    return tuple(Work(name, ((HOST, time_ps),), steady=True) for name, time_ps in timed if time_ps)


def training_call(plan: Plan) -> Call:
    """What a weight update bears of a session call, which may run several."""
    software, layout = plan.software, plan.layout
    samples = layout.micro_batch_size * layout.accumulation_factor * served(plan) if layout.stacked_by_caller else 0
    share = 1 / layout.updates_per_session_call
    return Call.steady(
        (LOAD, layout.late_samples * (software.sample_load_s or 0.0)),
        (STACK, samples * (software.collation_s_per_sample or 0.0)),
        (HAND_OVER, _streams(plan) * share * (software.stream_s or 0.0)),
        (CALL, software.host_call_s * share),
        loaded_s=layout.samples_ahead * (software.sample_load_s or 0.0),
    )


def forward_call(plan: Plan, call_s: float, batches: int) -> Call:
    """A call for forward passes, which hands over inputs and results of every batch.

    Args:
        plan: What is run.
        call_s: The call alone. [s]
        batches: Of all replicas that a process serves.
    """
    tensors = plan.workload.host_tensors
    # I/O tiles exchange tensors with the host meanwhile.
    streams = 0 if plan.layout.io_tiles else batches * (tensors.inputs + tensors.results)
    return Call.steady((HAND_OVER, streams * (plan.software.stream_s or 0.0)), (CALL, call_s))


def served(plan: Plan) -> int:
    """Replicas that one process serves."""
    return min(plan.layout.replicas_per_process, plan.layout.replication_factor)


def _streams(plan: Plan) -> float:
    """Tensors that a process hands over or takes in a session call, one after the other.

    Each tensor of each micro-batch, and once more for each replica with its results, of the last micro-batch alone.
    """
    layout, tensors = plan.layout, plan.workload.host_tensors
    sent = tensors.inputs + tensors.labels
    micro_batches = layout.accumulation_factor * layout.updates_per_session_call
    return served(plan) * (sent * micro_batches + sent + tensors.results) if sent else 0.0
