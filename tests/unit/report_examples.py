"""A small weight update made by hand, for the tests of the report.

Two IPUs, times in microseconds:

    fill     0..10   ipu0 matmul 10             ipu1 bubble 10
    main    10..70   3 x (both matmul 20)
    update  70..100  ipu0 all_reduce 30         ipu1 all_reduce 10, optimizer 15, update_wait 5
"""

from podsim.engine.trace import PhaseRecord, Record, Trace
from podsim.result.breakdown import mean_account
from podsim.result.inference import ForwardResult
from podsim.result.result import RunResult
from podsim.result.rows import (
    IN_PROCESSOR,
    STREAMING,
    IpuAccount,
    MemoryReport,
    MemoryRow,
    OperationRow,
    Reference,
    phase_times,
)
from podsim.result.shared import Simulated
from podsim.result.sources import Sources
from podsim.result.step import StepReport
from podsim.show.text import report_as_text

SIMULATED = Simulated(
    system="IPU-POD4", ipu="GC200", clock_hz=1.33e9, software="PopART, SDK 2.3", ipus_used=2, ipu_count=4
)
US = 10**6
MIB = 2**20
MAKESPAN_PS = 100 * US
LANES = {
    "ipu0": {"matmul": 70 * US, "all_reduce": 30 * US},
    "ipu1": {
        "bubble": 10 * US,
        "matmul": 60 * US,
        "all_reduce": 10 * US,
        "optimizer": 15 * US,
        "update_wait": 5 * US,
    },
}
RECORDS = (
    Record("ipu0", "matmul", "forward 0", 0, 10 * US, 1, 0),
    Record("ipu1", "bubble", "wait", 0, 10 * US, 1, 0),
    Record("ipu0", "matmul", "backward 0", 10 * US, 30 * US, 3, 20 * US),
    Record("ipu1", "matmul", "backward 1", 10 * US, 30 * US, 3, 20 * US),
    Record("ipu0", "all_reduce", "chunk", 70 * US, 100 * US, 1, 0),
    Record("ipu1", "all_reduce", "chunk", 70 * US, 80 * US, 1, 0),
    Record("ipu1", "optimizer", "optimizer", 80 * US, 95 * US, 1, 0),
    Record("ipu1", "update_wait", "wait", 95 * US, 100 * US, 1, 0),
    Record("rail0/up", "all_reduce", "first chunk", 70 * US, 100 * US, 1, 0),
    Record("rail0/up", "all_reduce", "second chunk", 70 * US, 80 * US, 1, 0),
    Record("rail0/up", "all_reduce", "third chunk", 80 * US, 90 * US, 1, 0),
)
PHASES = (
    PhaseRecord("replica0", "fill 0", 1, 0, 10 * US),
    PhaseRecord("replica0", "main", 3, 10 * US, 70 * US),
    PhaseRecord("replica0", "update IPUs 0-1: reduce", 1, 70 * US, 100 * US),
)


def make_trace() -> Trace:
    """The trace drawn above."""
    return Trace(
        makespan_ps=MAKESPAN_PS,
        lanes=LANES,
        records=RECORDS,
        channels=frozenset({"rail0/up"}),
        phases=PHASES,
        event_count=11,
    )


def make_result(**changes: object) -> RunResult:
    """A result around that trace."""
    values: dict[str, object] = {
        "name": "two_ipus",
        "description": "Two IPUs [by hand]",
        "hardware": (("system.name", "IPU-POD4"), ("software.name", "PopART, SDK 2.3")),
        "version": "0.1.0",
        "simulated": SIMULATED,
        "throughput_samples_per_s": 80_000.0,
        "weight_update_ps": MAKESPAN_PS,
        "breakdown_ps": mean_account(LANES),
        "mfu": 0.25,
        "time_to_train_s": 1563.0,
        "time_to_train_percentiles": None,
        "run_breakdown": {"setup": 15.0, "training": 1500.0, "evaluation": 48.0},
        "phases": phase_times(PHASES),
        "ipus": (
            IpuAccount(0, "ipu0", "embedding + 3 layers", LANES["ipu0"]),
            IpuAccount(1, "ipu1", "4 layers + head", LANES["ipu1"]),
        ),
        "memory": MemoryReport(
            (
                MemoryRow(0, "weights", 100 * MIB, IN_PROCESSOR),
                MemoryRow(0, "stash", 300 * MIB, IN_PROCESSOR),
                MemoryRow(1, "weights", 200 * MIB, IN_PROCESSOR),
                MemoryRow(1, "optimizer_state", 64 * MIB, STREAMING),
            ),
            in_processor_memory_bytes=800 * MIB,
            streaming_memory_bytes=1024 * MIB,
        ),
        "operations": (
            OperationRow("stage 0", "layer", "forward", "qkv", 12, {"matmul": 30e-6, "exchange": 6e-6}),
            OperationRow("stage 1", "head", "backward", "logits", 4, {"matmul": 40e-6}),
        ),
        "sources": Sources(
            (
                ("matmul", {"published": 65 * US}),
                ("all_reduce", {"published": 5 * US, "assumed": 15 * US}),
                ("optimizer", {"calibrated": 15 * US // 2}),
                ("bubble", {"published": 5 * US}),
                ("update_wait", {"calibrated": 5 * US // 2}),
            )
        ),
        "references": (Reference("weight_update_s", 80e-6, "bench log"),),
        "assumptions": ({"key": "machine.ipu_link.efficiency", "value": 0.85, "basis": "assumed"},),
        "inputs": (("scenarios/two_ipus.yaml", "ab" * 32),),
        "event_count": 11,
        "scenario": {"system": "ipu_pod4", "parallelism": {"layers_per_ipu": (3, 4)}},
        "trace": make_trace(),
    }
    return RunResult(**{**values, **changes})  # type: ignore[arg-type]


def make_forward() -> ForwardResult:
    """The same trace as that of a session call of three batches."""
    whole = make_result()
    step = StepReport("call", MAKESPAN_PS, whole.breakdown_ps, whole.phases)
    return ForwardResult(
        name=whole.name,
        description=whole.description,
        version=whole.version,
        simulated=whole.simulated,
        samples_per_batch=2,
        batches_per_call=3,
        replication_factor=1,
        parameter_count=1,
        flop_per_batch=1,
        peak_flop_per_s=1e12,
        batch=step,
        call=step,
        ipus=whole.ipus,
        memory=whole.memory,
        operations=whole.operations,
        assumptions=(),
        inputs=(),
        scenario={},
        trace=whole.trace,
    )


def result_text(result: RunResult, width: int = 80) -> str:
    """The tables of a result as plain text."""
    return report_as_text(result.report(), width)
