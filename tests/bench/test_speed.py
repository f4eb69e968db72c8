"""How fast: each measurement beside its target. The tests allow three times the target, for machines that are slow.

Processor time is measured, which others on the machine change little. `./dev bench` prints the table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from podsim import simulate
from podsim.engine import Trace, execute
from podsim.placement import Plan
from podsim.program.compile import compile_program
from podsim.program.task import Program
from podsim.result.base import plain
from podsim.runs.training.noise import job_of, run_updates
from podsim.scenario import TrainingScenario, load_scenario
from tests.examples import plan_of

ROOT = Path(__file__).resolve().parent.parent.parent
SLACK = 3
POD64, POD128 = "bert_v1.1_pod64_open", "bert_v1.1_pod128_open"
UPDATES = 744
"""Weight updates of a run of POD64, those among them that evaluate."""
IMAGES, SERVING = "resnet50_v1.1_pod256", "serving_llama2_7b_pod64"


@dataclass(frozen=True)
class Measurement:
    """The best of several runs.

    Attributes:
        what: What was run.
        value: What was measured.
        target: What we want to keep, the most or the least.
        unit: Of both.
        at_least: Whether more is better.
        events: Events that the engine handled.
    """

    what: str
    value: float
    target: float
    unit: str
    at_least: bool = False
    events: int | None = None

    @property
    def holds(self) -> bool:
        """Whether the target is met with slack."""
        return self.value * SLACK >= self.target if self.at_least else self.value <= self.target * SLACK

    @property
    def line(self) -> str:
        """One row of the table."""
        met = self.value >= self.target if self.at_least else self.value <= self.target
        sign, events = "≥" if self.at_least else "≤", f"{self.events:,}" if self.events else ""
        verdict = "" if met else "  within slack" if self.holds else "  TOO SLOW"
        return f"{self.what:<42} {events:>9}  {self.value:>8.3g} {self.unit:<10} {sign} {self.target:g}{verdict}"


def best_s(function: Callable[[], object], runs: int) -> float:
    """Shortest processor time of several runs, with that of processes they start. [s]"""
    times = []
    for _ in range(runs):
        begin = spent_s()
        function()
        times.append(spent_s() - begin)
    return min(times)


def spent_s() -> float:
    """Processor time of this process so far, and of those it has waited for. [s]"""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


def in_engine(program: Program, *, explicit: bool, runs: int) -> tuple[float, Trace]:
    """Shortest processor time of a weight update in the engine, and the trace; every run does the same work. [s]"""
    traces: list[Trace] = []
    shortest = best_s(lambda: traces.append(execute(program, explicit=explicit)), runs)
    assert len({(trace.event_count, trace.makespan_ps) for trace in traces}) == 1
    return shortest, traces[0]


def process_s(*arguments: str, runs: int) -> float:
    """Shortest processor time of the whole command, with files, byte code and what podsim keeps on disk warm. [s]"""
    command = [sys.executable, "-c", "from podsim.cli.app import main; main()", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> None:
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=environment)

    run()
    return best_s(run, runs)


def again_s(scenario: str) -> float:
    """Shortest processor time of a simulation, loading included, after the first. [s]"""
    simulate(scenario)
    return best_s(lambda: simulate(scenario), 5)


def stands_on_s(scenario: str) -> float:
    """Shortest processor time of what a result stands on. [s]"""
    times = []
    for _ in range(3):
        result = simulate(scenario)
        begin = time.process_time()
        assert len(result.assumptions) > 0
        times.append(time.process_time() - begin)
    return min(times)


def spent_on_energy_s(scenario: str) -> float:
    """Shortest processor time of the power, energy and cost of a result. [s]"""
    results = [replace(simulate(scenario, overrides=["cost.price_per_ipu_hour=1 USD"])) for _ in range(20)]
    return best_s(lambda: plain([(result := results.pop()).energy, result.cost]), len(results))


def whole_run(scenario: str, updates: int) -> tuple[float, int]:
    """Processor time of a run with noise on every IPU, in every pipeline cycle, with its building, and events. [s]"""
    spec, plan = load_scenario(scenario).spec.require(TrainingScenario), plan_of(scenario)
    begin = time.process_time()
    found = run_updates(job_of(spec, plan, updates, explicit=True), 0)
    return time.process_time() - begin, found.event_count


@pytest.fixture(scope="module")
def plan128() -> Plan:
    return plan_of(POD128)


@pytest.fixture(scope="module")
def explicit_run(plan128: Plan) -> tuple[float, Trace]:
    return in_engine(compile_program(plan128, explicit=True), explicit=True, runs=3)


@pytest.fixture(scope="module")
def measurements(plan128: Plan, explicit_run: tuple[float, Trace]) -> dict[str, Measurement]:
    folded_s, folded = in_engine(compile_program(plan_of(POD64)), explicit=False, runs=20)
    compile_s = best_s(lambda: compile_program(plan128, explicit=True), 3)
    explicit_s, explicit = explicit_run
    speed = explicit.event_count / explicit_s / 1e6
    noisy_s, noisy_events = whole_run(POD64, UPDATES)
    found = {
        "folded": Measurement(
            "weight update of POD64 in the engine", folded_s * 1e3, 5, "ms", events=folded.event_count
        ),
        "explicit": Measurement(
            "the same of POD128, every IPU explicit", compile_s + explicit_s, 1, "s", events=explicit.event_count
        ),
        "events": Measurement("events of that run", speed, 0.5, "M events/s", at_least=True),
        "noise": Measurement("a whole run of POD64, explicit, with noise", noisy_s, 5, "s", events=noisy_events),
        "help": Measurement("podsim --help, whole process", process_s("--help", runs=3), 0.3, "s"),
        "run": Measurement(f"podsim run {POD64}", process_s("run", POD64, runs=3), 0.5, "s"),
        "run_images": Measurement(f"podsim run {IMAGES}", process_s("run", IMAGES, runs=3), 0.7, "s"),
        "serve": Measurement(f"podsim serve {SERVING}", process_s("serve", SERVING, runs=2), 1.2, "s"),
        "validate": Measurement("podsim validate", process_s("validate", runs=1), 5, "s"),
        "again": Measurement(f"simulate {POD64} again", again_s(POD64) * 1e3, 25, "ms"),
        "images_again": Measurement(f"simulate {IMAGES} again", again_s(IMAGES) * 1e3, 35, "ms"),
        "stands_on": Measurement(f"what {POD64} stands on", stands_on_s(POD64), 0.15, "s"),
        "energy": Measurement(f"power and cost of {POD64}", spent_on_energy_s(POD64) * 1e3, 1, "ms"),
    }
    head = f"{'best of several runs':<42} {'events':>9}  {'measured':>8} {'':<10} target"
    lines = ["", "", head, "─" * len(head), *(each.line for each in found.values()), "", ""]
    sys.stdout.write("\n".join(lines))
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("folded", "explicit", "events", "noise", "help", "run", "run_images", "serve", "validate"),
        *("again", "images_again", "stands_on", "energy"),
    ],
)
def test_speed(measurements: dict[str, Measurement], name: str) -> None:
    measured = measurements[name]
    assert measured.holds, measured.line


def test_the_explicit_run_is_not_fast_by_doing_less(plan128: Plan, explicit_run: tuple[float, Trace]) -> None:
    """Each IPU works and synchronises at least once in each of the G + 2S - 2 pipeline cycles."""
    layout, stages = plan128.layout, len(plan128.stages)
    ipus = layout.replication_factor * layout.ipus_per_replica
    assert ipus == 128
    assert explicit_run[1].event_count >= ipus * (layout.accumulation_factor + 2 * stages - 2)


def test_the_time_of_an_explicit_run_grows_with_the_ipus() -> None:
    """Four times the IPUs, each with as much to do before the last collectives, take at most five times as long."""
    times, events = [], []
    for ipus in (1024, 4096):
        size = (f"system.machine_count={ipus // 4}", f"system.host_count={ipus // 16}")
        plan = plan_of(POD64, *size, f"parallelism.replication_factor={ipus // 8}")

        def run(plan: Plan = plan) -> None:
            events.append(execute(compile_program(plan, explicit=True), explicit=True).event_count)

        times.append(best_s(run, 3))
    assert sorted(set(events)) == [1_157_184, 8_167_680]
    assert times[1] <= 5 * times[0] * 1.5  # of which a half is noise of the machine
