"""What the lines of a breakdown stand on: shares by hand, and prices that hold where numbers are moved."""

from pathlib import Path

import pytest

from podsim import generate, infer, run, serve, simulate
from podsim.engine import execute
from podsim.placement import make_plan
from podsim.placement.forward_job import forward_job
from podsim.placement.generation import generation_cost_model, generation_job, plan_generation
from podsim.placement.job import training_job
from podsim.placement.plan import Plan, cost_model
from podsim.program.compile import compile_program
from podsim.program.forward import compile_calls
from podsim.program.generation import compile_step
from podsim.program.prices import FORWARD_CALLS, TRAINING_CALLS, Prices, generation_calls, task_prices
from podsim.program.task import Barrier, Exchange, Group, Phase, Program, Transfer, Work
from podsim.result.breakdown import mean_account
from podsim.result.kinds import is_waiting
from podsim.result.sources import Sources, divided
from podsim.scenario import ForwardScenario, GenerationScenario, TrainingScenario, load_scenario
from podsim.scenario.assumptions import assumptions, with_number
from podsim.scenario.scenario import Scenario
from podsim.tiles.model import CostModel
from podsim.watch import silent

MACHINE = "system.machine"
MATMUL, CALL, READ, SHARED = ("chip",), ("call",), ("read",), ("memory",)
BASES = {"chip.clock": "published", "chip.cycles": "measured", "call": "calibrated", "read": "derived"}


def test_a_line_is_worth_its_weakest_number() -> None:
    """`chip` stands for clock and cycles, of which the cycles are weaker."""
    found = divided({"matmul": 5, "host": 5}, {"matmul": {MATMUL: 1}, "host": {CALL: 1}}, BASES)
    assert found.by_kind_ps == {"matmul": {"measured": 5}, "host": {"calibrated": 5}}


def test_a_kind_is_divided_as_its_tasks_are() -> None:
    """30 ps of calls and 10 ps of reads in the tasks: three quarters and one quarter of 100 ps of hosts."""
    found = divided({"host": 100}, {"host": {CALL: 30, READ: 10}}, BASES)
    assert found.by_kind_ps == {"host": {"derived": 25, "calibrated": 75}}


def test_a_wait_is_worth_what_is_waited_for() -> None:
    """Work is 60 ps measured and 20 ps calibrated, so 40 ps of waiting are 30 and 10."""
    breakdown = {"matmul": 60, "host": 20, "bubble": 40}
    found = divided(breakdown, {"matmul": {MATMUL: 1}, "host": {CALL: 1}}, BASES)
    assert found.by_kind_ps["bubble"] == {"measured": 30, "calibrated": 10}
    assert found.total_ps == {"measured": 90, "calibrated": 30}
    assert found.text == "75.0 % published or measured, 25.0 % calibrated"


def test_what_no_number_prices_is_assumed() -> None:
    assert divided({"matmul": 3}, {"matmul": {("elsewhere",): 1}}, BASES).by_kind_ps == {"matmul": {"assumed": 3}}
    assert divided({"idle": 3}, {}, BASES).by_kind_ps == {"idle": {"assumed": 3}}


def test_printed_shares_add_up() -> None:
    """Thirds are 33.3 % each, and what is left over goes to the first."""
    found = Sources((("a", {"published": 1, "derived": 1, "assumed": 1}),))
    assert found.text == "33.4 % published or measured, 33.3 % derived, 33.3 % assumed"
    assert Sources().text == ""


def phases_of(*steps: Exchange | Work | Barrier, lanes: int = 2, count: int = 1) -> Program:
    """The same steps in so many lanes."""
    phase = Phase("phase", count, {f"ipu{lane}": steps for lane in range(lanes)}, "bubble")
    return Program((Group("replica0", tuple(phase.steps), (phase,)),))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(training_job(load_scenario("bert_v1.1_pod16_closed").require(TrainingScenario)))


def test_a_transfer_has_a_latency_and_the_fullest_of_its_channels(plan: Plan) -> None:
    """Two IPUs read 50 ps each alone, 40 ps of it in the memory they share: 80 ps together, after 5 ps; three times."""
    channels = (("ipu0/streaming/read", 25), ("machine0/streaming", 40))
    exchange = Exchange((Transfer("state", "streaming", channels, 5),))
    found = task_prices(phases_of(exchange, Barrier("here", "all_reduce"), count=3), plan, {})
    memory = f"{MACHINE}.streaming_memory"
    assert found == {
        "streaming": {(f"{memory}.latency",): 2 * 3 * 5, (f"{memory}.bandwidth_per_machine",): 2 * 3 * 80},
    }


def test_steps_that_come_again_are_counted_again(plan: Plan) -> None:
    """A call of 7 ps four times in one lane; its name says what it is priced by."""
    call = Work("session call", (("host", 7),))
    found = task_prices(phases_of(*[call] * 4, lanes=1), plan, {"session call": CALL})
    assert found == {"host": {CALL: 28}}


def test_helpers_price_the_wait_for_them(plan: Plan) -> None:
    """A loader is not accounted; what waits for it waits for its read."""
    step = Exchange((Transfer("weights", "streaming", (("ipu0/streaming/write", 9),)),))
    load = Phase("load", 2, {"loader0": (step,)}, "weights_wait")
    program = Program((Group("loader0", ("loader0",), (load,), accounted=False),))
    write = (f"{MACHINE}.streaming_memory.write_bandwidth_per_ipu",)
    assert task_prices(program, plan, {}) == {"weights_wait": {write: 18}}


def test_a_number_of_the_users_own_is_assumed() -> None:
    """The call of PopART is calibrated in its file; the same number without a source is not. No batch is copied."""
    alone, other = "software.collation_bandwidth=null", "software.host_call=136 ms"
    shipped = run("bert_v1.1_pod16_closed", overrides=[alone]).to_dict()["breakdown_basis"]
    given = run("bert_v1.1_pod16_closed", overrides=[alone, other]).to_dict()["breakdown_basis"]
    assert isinstance(shipped, dict) and isinstance(given, dict)
    assert shipped["kinds"]["host"]["calibrated"] > 0.99
    assert given["kinds"]["host"]["assumed"] > 0.99
    assert given["kinds"]["matmul"] == shipped["kinds"]["matmul"] == {"published": 1.0}


def test_lines_add_up_to_the_breakdown() -> None:
    """In picoseconds, for training, text generation and forward passes."""
    trained, written, passed = simulate("bert_base_squad_pod16"), generate("gptj_6b_pod16"), infer("bert_base_c600")
    for part in (trained, written.prefill, written.decode, passed.batch, passed.call):
        sums = {kind: sum(times.values()) for kind, times in part.sources.by_kind_ps.items()}
        assert sums == dict(part.breakdown_ps)


def test_explicit_replicas_stand_on_the_same() -> None:
    folded, explicit = (simulate("resnet50_v1.1_pod16", explicit=each) for each in (False, True))
    assert explicit.breakdown_basis == folded.breakdown_basis


def test_serving_says_what_its_steps_stand_on() -> None:
    """The decode step of the same batch, text generation says; both call the host for each token."""
    overrides = ["serving.request_count=50", "serving.loads=[0.5]"]
    kinds = serve("serving_llama2_7b_pod64", overrides=overrides).breakdown_basis["kinds"]
    assert isinstance(kinds, dict)
    assert kinds["host"] == {"assumed": 1.0}
    assert kinds["matmul"] == {"published": 1.0}


Found = tuple[Prices, dict[str, int]]


def found(spec: Scenario, splits: list[CostModel]) -> Found | None:
    """Prices and breakdown of a run; None if its products would have to be split anew."""
    match spec:
        case TrainingScenario():
            job = training_job(spec)
            model = cost_model(job)
        case ForwardScenario():
            workload = spec.model.read(spec, Path(), silent).workload
            passes = forward_job(spec, workload)
            model = cost_model(passes)
        case GenerationScenario():
            asked = generation_job(spec)
            model = generation_cost_model(asked)
    held = model.with_splits(splits[0]) if splits else model
    if held is None:
        return None
    splits.append(held)
    match spec:
        case TrainingScenario():
            plan = make_plan(job, held, advise=False)
            program, calls = compile_program(plan), TRAINING_CALLS
        case ForwardScenario():
            plan = make_plan(passes, held, advise=False)
            program, calls = compile_calls(plan), FORWARD_CALLS
        case GenerationScenario():
            plan = plan_generation(asked, held, advise=False).decode
            program, calls = compile_step(plan), generation_calls(plan)
    return task_prices(program, plan, calls), mean_account(execute(program).lanes)


SHORT = ("model.layer_count=16",)
COUNTS = ("software.sharding_threshold", "software.code_memory_per_tile")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("bert_v1.1_pod128_open", ()),
        ("resnet50_v1.1_pod256", ()),
        ("resnet50_pytorch_pod4", ()),
        ("resnet50_pod4", ()),
        ("e5_large_pod4", ("model.layer_count=2",)),
        ("llama2_7b_pod16_streamed", ("model.layer_count=4", "generation.output_tokens=64")),
        ("llama2_7b_pod16_streamed", (*SHORT, "generation.kv_cache=in_processor_memory")),
    ],
)
def test_a_number_moves_what_it_prices_and_nothing_else(name: str, overrides: tuple[str, ...]) -> None:
    """A fifth more of a number that is not certain; waits follow what they wait for, so they are left out."""
    spec = load_scenario(name, overrides=overrides).spec
    splits: list[CostModel] = []
    base = found(spec, splits)
    assert base is not None
    prices, before = base
    for assumption in assumptions(spec):
        if (
            assumption.key in COUNTS
            or (moved := found(with_number(spec, assumption.key, 1.2 * assumption.number), splits)) is None
        ):
            continue
        after = moved[1]
        for kind, time_ps in before.items():
            shares = prices.get(kind, {})
            whole = sum(shares.values()) or 1
            share = sum(time for price, time in shares.items() if prices_it(price, assumption.key)) / whole
            alone = shares.get((assumption.key,), 0) / whole
            change = abs(after.get(kind, 0) / time_ps - 1) if time_ps else 0.0
            if is_waiting(kind):
                continue
            assert share > 0 or change < 1e-3, f"{assumption.key} moves {kind}, and does not price it"
            if alone > 0.9:
                assert change > 0.1, f"{assumption.key} prices {kind}, and does not move it"


def prices_it(price: tuple[str, ...], key: str) -> bool:
    return any(key == each or key.startswith(f"{each}.") for each in price)
