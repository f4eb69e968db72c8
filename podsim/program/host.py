"""Host process that calls the IPUs, as a lane; docs/background/hosts.md describes its loop.

An iteration of the loop takes the longer of two times: the loading of the next batch by the workers of the data loader,
or the tasks of the process plus the run of the device. Source: [hydronet_gnn], [poptorch_squad], [poptorch_compiler],
[graphcore_results] for PyTorch; [mlperf_logs], [graphcore_results] for PopART and TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil, inf

from podsim.errors import MissingDataError
from podsim.placement.plan import Plan
from podsim.program.replicas import Replicas
from podsim.program.task import Barrier, Group, Phase, Step, Work
from podsim.program.transfers import HOST
from podsim.units import seconds_to_ps

START_EPOCH, LOAD, STACK = "start epoch", "load samples", "stack samples"
HAND_OVER, OPTIMIZER_VALUES = "hand over tensors", "hand over optimizer values"
CALL, CONVERT = "session call", "convert results"
"""Tasks of the loop, in order; an epoch starts and loads before the others."""
PROCESS = "process"
"""Prefix of the names of process lanes."""
_ENDED, _BEGUN = "host", "host/call"
_DEVICE = "device"

WorksOf = Callable[[int], tuple[Work, ...]]
"""Work of the IPUs of a machine in a session call, by number of the machine."""


@dataclass(frozen=True, slots=True)
class Call:
    """Session call of a host process, between two runs of the device."""

    tasks: tuple[Work, ...]  # work of the process, in order
    works_of: WorksOf = lambda _machine: ()  # work of the IPUs of a machine after the call: the delay of a slow machine
    meanwhile: tuple[Work, ...] = ()  # loading that the workers still have to do when the IPUs begin

    @classmethod
    def steady(cls, *tasks: tuple[str, float], loaded_s: float = 0.0) -> Call:
        """Return a call of constant duration, of tasks [s], during which workers load for `loaded_s`. [s]"""
        left_s = max(0.0, loaded_s - sum(time_s for _, time_s in tasks))
        return cls(_works(tasks), meanwhile=_works([(LOAD, left_s)]))

    @property
    def time_ps(self) -> int:
        """Total time of the tasks. [ps]"""
        return sum(duration for task in self.tasks for _, duration in task.parts)

    def phase(self, plan: Plan, replicas: Replicas, replica: int) -> Phase:
        """Return the phase in which the IPUs of a replica wait for each other and for the process."""
        per_machine = plan.system.machine.ipu_count
        machine_of = {
            replicas.lane(replica, local): replicas.ipu(replica, local) // per_machine
            for local in range(plan.layout.ipus_per_replica)
        }
        meet = Barrier(_ENDED, HOST), Barrier(_BEGUN, HOST)
        steps: dict[int, tuple[Step, ...]] = {each: (*meet, *self.works_of(each)) for each in set(machine_of.values())}
        return Phase("host call", 1, {lane: steps[machine] for lane, machine in machine_of.items()}, HOST)

    def processes(self, plan: Plan, replicas: Replicas, rounds: int = 1) -> Iterator[Group]:
        """Yield the process groups of the simulated replicas, each with `rounds` calls; the last is accounted."""
        steps: tuple[Step, ...] = (
            *self.meanwhile,
            Barrier(_ENDED, _DEVICE),
            *self.tasks,
            Barrier(_BEGUN, _DEVICE),
        )
        for number in range(ceil(len(replicas.simulated) / served_replicas(plan))):
            name = f"{PROCESS}{number}"
            phase = Phase("loop", 1, {name: steps}, _DEVICE)
            yield Group(name, (name,), (phase,) * rounds, rounds - 1, accounted=False)


def _works(tasks: Iterable[tuple[str, float]]) -> tuple[Work, ...]:
    timed = [(name, seconds_to_ps(time_s)) for name, time_s in tasks]
    return tuple(Work(name, ((HOST, time_ps),), steady=True) for name, time_ps in timed if time_ps)


def training_call(plan: Plan) -> Call:
    """Return the part of a session call that one weight update bears; a session call may run several updates."""
    software, layout = plan.software, plan.layout
    tensors = plan.workload.host_tensors
    fed = served_replicas(plan) if tensors.inputs else 0
    share = 1 / layout.updates_per_session_call
    values = plan.workload.parameter_tensor_count * (software.optimizer_values_per_tensor or 0)
    stream_s = software.stream_s or 0.0
    tasks = (
        (START_EPOCH, layout.epoch_starts * (software.epoch_start_s or 0.0)),
        (STACK, _stacked_s(plan)),
        (HAND_OVER, _streams(plan) * share * stream_s),
        (OPTIMIZER_VALUES, values * share * stream_s),
        (CALL, (software.host_call_s + fed * (software.replica_call_s or 0.0)) * share),
    )
    late_s = layout.late_samples * (software.sample_load_s or 0.0)
    if layout.loading_overlap:
        late_s = first_batch_wait_s(
            late_s, layout.loading_overlap, sum(time_s for _, time_s in tasks) + _computed_s(plan)
        )
    loaded_s = layout.samples_ahead * (software.sample_load_s or 0.0)
    return Call.steady((LOAD, late_s), *tasks, loaded_s=loaded_s)


def first_batch_wait_s(load_s: float, overlap: float, update_s: float) -> float:
    """Return the wait for the first batch of an epoch, per weight update. [s]

    With a buffer of N batches the loader begins the next epoch N - 1 calls before an epoch of n calls ends.

    Args:
        load_s: Loading time of the batch, divided by the weight updates of the epoch. [s]
        overlap: (N - 1) / n.
        update_s: Weight update without the wait. [s]

    Source: [poptorch_loader].

    >>> first_batch_wait_s(1.0, 0.25, 2.0)  # four calls, two batches
    0.5
    """
    return max(0.0, load_s - overlap * update_s)


def _computed_s(plan: Plan) -> float:
    """Return the time in which the busiest IPU computes a weight update; unlimited for a plan without costs. [s]"""
    clock_hz = plan.system.machine.ipu.clock_hz
    busiest = max((stage.cycles for stage in plan.stages), default=inf)
    return plan.layout.accumulation_factor * busiest / clock_hz


def evaluation_call(plan: Plan, call_s: float) -> Call:
    """Return a call for the forward passes of an evaluation, with as many samples as a weight update has."""
    return Call.steady((STACK, _stacked_s(plan)), (CALL, call_s))


def forward_call(plan: Plan, call_s: float, batches: int) -> Call:
    """Return a call for forward passes, which hands over the inputs and results of every batch."""
    tensors = plan.workload.host_tensors
    # I/O tiles exchange tensors with the host during computation.
    streams = 0 if plan.layout.fetching_tiles else batches * (tensors.inputs + tensors.results)
    return Call.steady(
        (HAND_OVER, streams * (plan.software.stream_s or 0.0)),
        (CALL, call_s),
        (CONVERT, batches * _conversion_s(plan)),
    )


def _conversion_s(plan: Plan) -> float:
    """Return the time in which the process converts the numbers of a batch's results. [s]"""
    if not plan.layout.numbers_converted:
        return 0.0
    count, each_s = plan.workload.host_tensors.result_elements, plan.system.host.number_conversion_s
    if count is None:
        what = f"{plan.workload.name} does not say how many numbers its results have"
        raise MissingDataError(what, do="leave `numbers_converted` out")
    if each_s is None:
        what = f"{plan.system.host.name} does not say how long a number of a result takes"
        raise MissingDataError(what, do="set `system.host.number_conversion_time`, for example to `0.1 us`")
    return count * each_s


def served_replicas(plan: Plan) -> int:
    """Return the number of replicas that one process serves."""
    return min(plan.layout.replicas_per_process, plan.layout.replication_factor)


def _stacked_s(plan: Plan) -> float:
    """Return the time to copy the samples of a weight update into batches, if the process does so in the call. [s]"""
    rate, layout = plan.software.collation_bytes_per_s, plan.layout
    if rate is None or not layout.stacked_by_caller:
        return 0.0
    return served_replicas(plan) * layout.accumulation_factor * plan.workload.host_input_bytes / rate


def _streams(plan: Plan) -> float:
    """Return the number of tensors that a process hands over or takes in a session call, one after the other.

    These are the tensors of each micro-batch and, once per replica, its inputs, labels and results of the last one.
    There are none if the process loads the samples itself, since it hands them over while it loads.
    """
    layout, tensors = plan.layout, plan.workload.host_tensors
    sent = 0 if layout.loads_itself else tensors.inputs + tensors.labels
    micro_batches = layout.accumulation_factor * layout.updates_per_session_call
    return served_replicas(plan) * (sent * micro_batches + sent + tensors.results) if sent else 0.0
