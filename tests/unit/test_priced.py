"""A program whose durations a tape computes again is the program that the compiler makes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim import memo
from podsim.engine import execute
from podsim.engine.compiled import Structure
from podsim.placement import Plan
from podsim.program.compile import compile_program
from podsim.program.priced import PricedProgram
from podsim.scenario.assumptions import with_value
from tests.examples import plan_of

SCENARIOS = ("bert_v1.1_pod64_open", "resnet50_v1.1_pod256", "gpt3_2_7b_pod64")
CLOCK, LATENCY = "machine.ipu.clock", "machine.ipu_link.first_hop_latency"


def with_system(plan: Plan, key: str, factor: float) -> Plan:
    """The plan on machines with another number."""
    number: object = plan.system
    for name in {CLOCK: "machine.ipu.clock_hz", LATENCY: "machine.ipu_link.first_hop_latency_s"}[key].split("."):
        number = getattr(number, name)
    assert isinstance(number, float)
    return replace(plan, system=with_value(plan.system, key, number * factor))


def with_costs(plan: Plan, factor: float) -> Plan:
    """The plan with longer passes."""
    stages = tuple(replace(each, forward=each.forward.times(factor)) for each in plan.stages)
    phases = tuple(
        replace(each, cost=replace(each.cost, forward=each.cost.forward.times(factor))) for each in plan.phases
    )
    return replace(plan, stages=stages, phases=phases)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_other_numbers(scenario: str) -> None:
    plan = plan_of(scenario)
    priced = PricedProgram(plan, compile_program)
    structure, first = Structure(priced.program), priced.values(plan)
    assert first is not None
    changed = (
        *(with_system(plan, key, factor) for key in (CLOCK, LATENCY) for factor in (0.9, 1.1)),
        with_costs(plan, 1.25),
    )
    makespans = set()
    for other in (plan, *changed):
        values = priced.values(other)
        assert values is not None
        assert structure.differs(values, first) is (other is not plan)
        found, expected = structure.run(values), execute(compile_program(other), explicit=False)
        assert found == expected
        makespans.add(expected.makespan_ps)
    assert len(makespans) == 1 + len(changed)


def test_another_shape_is_compiled() -> None:
    """Rings over which data is divided, and micro-batches, shape a program; what nothing reads does not."""
    plan = plan_of("bert_v1.1_pod64_open")
    priced = PricedProgram(plan, compile_program)
    software, layout = plan.software, plan.layout
    assert priced.values(replace(plan, software=with_value(software, "collective_rings", 4))) is None
    assert priced.values(replace(plan, layout=replace(layout, accumulation_factor=50))) is None
    assert (
        priced.values(replace(plan, system=with_value(plan.system, "machine.ipu.superstep.overhead", 1.0))) is not None
    )


def test_a_branch_is_compiled() -> None:
    """A stack that broadcasts tiny tensors adds up other latencies than one that does not."""
    plan = plan_of("bert_base_phase1_pytorch_pod16")
    priced = PricedProgram(plan, compile_program)
    for size, same in ((2049, True), (0, False)):
        found = priced.values(replace(plan, software=with_value(plan.software, "broadcast_collective_size", size)))
        assert (found is not None) is same


def test_caches_hold_plain_numbers_only() -> None:
    plan = plan_of(SCENARIOS[0])
    before = execute(compile_program(plan), explicit=False)
    memo.ROUTES.forget()
    memo.RINGS.forget()
    PricedProgram(plan, compile_program)
    assert len(memo.ROUTES) == len(memo.RINGS) == 0
    assert execute(compile_program(plan), explicit=False) == before
