"""Functions of a researcher: costs, topologies, schedulers, and processes of the engine; numbers by hand."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.engine import Barrier, Control, Exchange, Group, Phase, Program, Transfer, Work, execute
from podsim.errors import DeadlockError, EngineError, PodsimError
from podsim.extend import forget_extensions, load_extension, loaded_files, operation_cost, scheduler, topology
from podsim.models.op import MatMul
from podsim.placement.topologies import Connection
from podsim.placement.topology import route
from podsim.runs.serving.arrivals import Requests
from podsim.runs.serving.server import RegisteredBatching, Service, StepTimes, timeline_of
from podsim.scenario import load_hardware, load_ipu
from podsim.tiles import Account, CostModel

PS_PER_MS = 10**9


def product(name: str = "a") -> MatMul:
    return MatMul(name=name, shape=(1, 64, 64), inner=64)


# Costs


def test_a_cost_replaces_the_cycles_and_keeps_the_memory() -> None:
    model = CostModel(load_ipu("gc200"), 0.5)
    before = model.op(product(), 0.6)
    operation_cost("MatMul")(lambda op, ipu: Account(matmul=op.rows + 0.0))
    after = CostModel(load_ipu("gc200"), 0.5).op(product(), 0.6)
    assert after.account == Account(matmul=64.0) != before.account
    assert (after.plan, after.temporary_bytes_per_tile) == (before.plan, before.temporary_bytes_per_tile)


def test_none_leaves_an_operation_as_it_is() -> None:
    before = CostModel(load_ipu("gc200"), 0.5).op(product(), 0.6)
    operation_cost("MatMul")(lambda op, ipu: None)
    assert CostModel(load_ipu("gc200"), 0.5).op(product(), 0.6) == before


def test_caches_of_a_process_do_not_outlive_a_registration() -> None:
    name = "bert_v1.1_pod16_open"
    before = podsim.run(name).weight_update_s
    operation_cost("MatMul")(lambda op, ipu: Account(matmul=1.0))
    assert podsim.run(name).weight_update_s < before
    forget_extensions()
    assert podsim.run(name).weight_update_s == before


@pytest.mark.parametrize("cost", [Account(), Account(matmul=float("nan")), 5.0])
def test_a_cost_that_is_no_number_of_cycles_is_refused(cost: Any) -> None:
    operation_cost("MatMul")(lambda op, ipu: cost)
    with pytest.raises(PodsimError, match="not a positive number of cycles"):
        CostModel(load_ipu("gc200"), 0.5).op(product(), 0.6)


# Topologies


def star(system: Any, first: int, last: int, *, latency_s: float = 0.0) -> Iterator[Connection]:
    yield Connection(f"up{first}", 1e9, latency_s)
    yield Connection(f"down{last}", 2e9)


def test_a_route_has_the_connections_of_the_function() -> None:
    topology("star")(star)
    pod = podsim.load(
        "bert_v1.1_pod16_open", overrides={"system.topology": {"kind": "star", "latency_s": 3e-6}}
    ).spec.system
    link, found = pod.machine.ipu_link, route(pod, 1, 6)
    assert link is not None
    assert [(each.id, each.bandwidth_bytes_per_s) for each in found.channels] == [
        ("domain0/up1", 1e9),
        ("domain0/down6", 2e9),
    ]
    assert found.latency_s == pytest.approx(link.first_hop_latency_s + link.hop_latency_s + 3e-6)
    assert podsim.run("bert_v1.1_pod16_open", overrides={"system.topology": "star"}).weight_update_s > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("star", "`star` is not one of `ladder`, `torus` or `machine_ring`"),
        ({"kind": "star"}, "`star` is not one of"),
        ({"latency_s": 1}, "nothing is not one of"),
        (3, "`3` is not one of"),
    ],
)
def test_a_topology_that_nobody_registered_is_refused(given: object, message: str) -> None:
    with pytest.raises(PodsimError, match=message):
        podsim.load("bert_v1.1_pod16_open", overrides={"system.topology": given})


def test_a_wrong_parameter_is_refused_with_its_key() -> None:
    topology("star")(star)
    with pytest.raises(PodsimError, match=r"system\.topology.*unexpected keyword argument 'hub'"):
        podsim.load("bert_v1.1_pod16_open", overrides={"system.topology": {"kind": "star", "hub": 1}})


def test_shipped_topologies_are_unchanged() -> None:
    (pod, _) = load_hardware("ipu_pod64", "pod")
    assert pod.topology == "torus"
    assert pod.model_dump(mode="json")["topology"] == "torus"


# Schedulers


class Steady(StepTimes):
    """Every step of any batch takes a millisecond."""

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        return 1e-3

    def decode_s(self, batch: int, context_tokens: int) -> float:
        return 1e-3

    @property
    def max_batch(self) -> int:
        return 4


THREE = Requests((0, 0, 0), (10, 10, 10), (2, 2, 2))


def served() -> Any:
    return timeline_of(Service(Steady(), RegisteredBatching(4, "mine")), THREE)


def test_a_scheduler_says_who_joins() -> None:
    """One at a time: prefill and one step each, so that they start at 0, 2 and 4 ms."""
    asked = []

    def one_at_a_time(waiting: int, running: int, size: int, waited_s: float) -> int:
        asked.append((waiting, running, size, waited_s))
        return 0 if running else 1

    scheduler("mine")(one_at_a_time)
    assert list(served().start_ps) == [0, 2 * PS_PER_MS, 4 * PS_PER_MS]
    assert asked[0] == (3, 0, 4, 0.0)
    assert (2, 1, 4, pytest.approx(1e-3)) in asked


def test_all_at_once() -> None:
    scheduler("mine")(lambda waiting, running, size, waited_s: min(waiting, size - running))
    assert list(served().last_token_ps) == [2 * PS_PER_MS] * 3


@pytest.mark.parametrize(
    ("count", "message"),
    [(0, "never starts 3 requests"), (4, "admits `4` of 3 requests"), (-1, "admits"), (1.5, "admits")],
)
def test_a_scheduler_that_cannot_be_followed_is_refused(count: Any, message: str) -> None:
    scheduler("mine")(lambda waiting, running, size, waited_s: count)
    with pytest.raises(PodsimError, match=message):
        served()


# Files


def test_a_file_is_run_once_and_is_an_input(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from podsim.extend import scheduler\nscheduler('mine')(lambda *given: 1)\n")
    load_extension(file)
    load_extension(file)
    assert scheduler.names == ("mine",)
    ((path, digest),) = loaded_files()
    result = podsim.run("bert_v1.1_pod16_open")
    assert (path, digest) in result.inputs
    assert any(path in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = nothing\n", r"mine\.py:2: NameError"),
        ("def (:\n", r"mine\.py:1: SyntaxError"),
        ("from podsim.extend import scheduler as s\ns('a')(print)\ns('a')(print)\n", "`a` is registered twice"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_loaded_says_why(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PodsimError, match=message):
        load_extension(file)
    assert loaded_files() == ()


# The engine

SEND = Exchange((Transfer("result", "link", (("cable", 100),)),))
ALONE = Program((Group("all", ("a",), (Phase("step", 1, {"a": (Work("think", (("busy", 50),)), SEND)}, "wait"),)),))


def slows(control: Control) -> Generator[Any, Any, None]:
    yield control.wait(100)
    control.set_speed("cable", 0.5)


def test_a_process_slows_a_channel() -> None:
    """50 ps of work, 50 of 100 ps at full speed, and the other half at half speed: 50 + 50 + 100 ps."""
    assert execute(ALONE).makespan_ps == 150
    assert execute(ALONE, processes=[slows]).makespan_ps == 200


def test_a_process_without_an_end_does_not_keep_a_program_from_ending() -> None:
    def clock(control: Control) -> Generator[Any, Any, None]:
        while True:
            yield control.wait(7)

    assert execute(ALONE, processes=[clock]).makespan_ps == 150


def test_an_observer_sees_the_start_and_the_end_of_each_task() -> None:
    seen: list[tuple[str, str, str, int]] = []
    execute(ALONE, observe=lambda *what: seen.append(what))
    assert seen == [
        ("start", "a", "think", 0),
        ("end", "a", "think", 50),
        ("start", "a", "result", 50),
        ("end", "a", "result", 150),
    ]


def test_the_compiled_engine_cannot_call_functions() -> None:
    with pytest.raises(EngineError, match="calls no functions of Python"):
        execute(ALONE, processes=[slows], engine="compiled")


def test_a_deadlock_is_found_next_to_a_process() -> None:
    stuck = {"a": (Barrier("never", "wait"),), "b": (Work("think", (("busy", 5),)), Barrier("other", "wait"))}
    others = {"a": (Barrier("other", "wait"),), "b": (Barrier("never", "wait"),)}
    program = Program((Group("all", ("a", "b"), (Phase("one", 1, stuck, "wait"), Phase("two", 1, others, "wait"))),))
    with pytest.raises(DeadlockError):
        execute(program, processes=[slows])
