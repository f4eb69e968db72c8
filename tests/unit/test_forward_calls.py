"""What forward passes pay beside modelled work, fitted again."""

from __future__ import annotations

import pytest

import podsim
from podsim.engine import execute
from podsim.errors import SpecError
from podsim.placement.forward_job import forward_job
from podsim.placement.plan import make_plan
from podsim.program.forward import compile_calls, compile_one_batch
from podsim.program.task import Exchange
from podsim.scenario import ForwardScenario, load_scenario
from podsim.units import cycles_to_ps
from tools.refit import forward_fits


def test_fitted_again_the_shipped_values_come_out() -> None:
    """To the microsecond to which they are written."""
    for fit in forward_fits():
        assert fit.committed == pytest.approx(fit.fitted, abs=0.5e-6), fit.key


def test_with_the_fitted_values_the_rows_are_met() -> None:
    """3,118.81 images/s, and a least latency of 0.447 ms: two figures for two constants."""
    call, answer = forward_fits()
    changes = [f"software={{base: popart_sdk_3.1, forward_call: {call.fitted} s, forward_exchange: {answer.fitted} s}}"]
    result = podsim.infer("resnet50_c600", variant="one_image", overrides=changes)
    per_batch_s = 1 / result.throughput_samples_per_s - call.fitted / result.batches_per_call
    assert 1 / per_batch_s == pytest.approx(3118.81, rel=1e-6)
    assert result.latency_s == pytest.approx(0.447e-3, abs=1e-9)


def test_synthetic_data_is_not_exchanged_with_the_host() -> None:
    """A batch takes the cycles of its operations and nothing else; a call of 128 batches comes once."""
    loaded = load_scenario("resnet50_c600", "synthetic_4")
    spec = loaded.spec
    assert isinstance(spec, ForwardScenario)
    workload = spec.model.read(spec, loaded.folder, lambda _: None).workload
    plan = make_plan(forward_job(spec, workload))
    programs = compile_calls(plan), compile_one_batch(plan)
    steps = [
        step
        for program in programs
        for group in program.groups
        for phase in group.phases
        for lane in phase.steps.values()
        for step in lane
    ]
    assert not any(isinstance(step, Exchange) for step in steps)
    batch_ps = cycles_to_ps(plan.stages[0].forward.cycles, plan.system.machine.ipu.clock_hz)
    call_ps = round((spec.software.forward_call_s or 0.0) * 1e12)
    assert execute(programs[0]).makespan_ps == pytest.approx(128 * batch_ps + call_ps, abs=128)


def test_numbers_of_synthetic_results_are_not_converted() -> None:
    with pytest.raises(SpecError, match="no result reaches the process"):
        load_scenario("resnet50_c600", "synthetic_4", overrides=["forward.numbers_converted=true"])
