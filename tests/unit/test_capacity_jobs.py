"""Partitions of pods, and several jobs one after another or side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim import run
from podsim.errors import NoPlanError, SpecError
from podsim.report.table import Cell
from podsim.scenario import System, load_hardware, load_scenario
from podsim.scenario.expectations import expectation
from podsim.study.plan import Goal, Job, Part, PlanResult, find_systems, read_goal
from podsim.study.plan.candidates import totals
from podsim.study.plan.goal import Place, place_named, with_unique_names
from podsim.study.plan.report import jobs_table
from tests.cases import every_case
from tests.unit.bad_input_cases import Run, error_of

BERT16, BERT64 = "bert_v1.1_pod16_open", "bert_v1.1_pod64_open"
RENT = "cost.price_per_ipu_hour=1.5 USD"


def pod(name: str) -> System:
    found, _ = load_hardware(name, "pod")
    assert isinstance(found, System)
    return found


# Partitions


def test_half_a_pod_has_an_open_ladder_and_half_of_its_host_server_and_switch() -> None:
    """8 of 16 machines; half of one host server and of one switch."""
    place = place_named("32 of ipu_pod64")
    found = run(BERT16, overrides=[*place.overrides(), "parallelism.replication_factor=8", RENT])
    whole = run(BERT16, overrides=["system=ipu_pod64", "parallelism.replication_factor=8", RENT])
    assert found.simulated.machine.startswith("32 of IPU-POD64, 32 of 32 IPUs in use")
    assert found.energy is not None and whole.energy is not None
    assert (found.energy.meter.machine_count, found.energy.meter.share) == (8, 0.5)
    assert (
        found.energy.component_power.hosts_w == whole.energy.component_power.hosts_w
    )  # half of the pod is in use there as well
    assert found.cost is not None and found.cost.fixed_per_hour == 32 * 1.5
    assert found.weight_update_s == whole.weight_update_s


def test_a_partition_of_16_is_as_fast_as_a_pod_of_16() -> None:
    part = run(BERT16, overrides=place_named("16 of ipu_pod64").overrides())
    assert part.weight_update_s == run(BERT16, overrides=["system=ipu_pod16"]).weight_update_s


def test_a_whole_link_domain_of_a_larger_pod_stays_a_torus() -> None:
    assert "system.topology=ladder" not in place_named("64 of ipu_pod256").overrides()
    spec = load_scenario(BERT16, overrides=place_named("64 of ipu_pod256").overrides()).spec
    assert (spec.system.ipu_count, spec.system.own_host_count, spec.system.topology) == (64, 4, "torus")


def test_a_purchase_of_the_pod_is_divided_among_all_its_ipus() -> None:
    """584,000 USD over two years of 8,760 hours: 33.33 USD an hour for 64 IPUs, half of it for 32."""
    bought = ["cost.purchase=584000 USD", "cost.years=2"]
    place = place_named("32 of ipu_pod64").overrides()
    cost = run(BERT16, overrides=[*place, "parallelism.replication_factor=8", *bought]).cost
    assert cost is not None and cost.fixed_per_hour == pytest.approx(584_000 / (2 * 8760) / 2)
    for lease, of_half in (("machines", 0.5), ("partition", 1), ("pod", 2)):
        cost = run(BERT16, overrides=[*place, *bought, f"cost.lease={lease}"]).cost  # 16 IPUs of 32 of 64
        assert cost is not None and cost.fixed_per_hour == pytest.approx(584_000 / (2 * 8760) / 2 * of_half)


@pytest.mark.parametrize(("ipus", "use"), [(48, 32), (2, 4), (128, 64)])
def test_what_is_no_partition_says_what_is_one(ipus: int, use: int) -> None:
    words = f"{ipus} IPUs are no partition of IPU-POD64: one has a power of two, 4 to 64"
    with pytest.raises(NoPlanError, match=f"{words}\n  do: use {use} of them"):
        place_named(f"{ipus} of ipu_pod64").overrides()
    answer = find_systems(Goal(BERT16, systems=(f"{ipus} of ipu_pod64",), draws=0), processes=1)
    assert not answer.ranked and [each.reason for each in answer.ruled_out] == [words, words]


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "\u0663", "0016", "+8", "1e1", "1000000", "8,"])
def test_a_partition_without_a_whole_number_of_ipus_is_refused(count: str, tmp_path: Path, podsim: Run) -> None:
    words = f"`{count} of ipu_pod16` is no partition: `{count}` is not a number of IPUs from 1 to 999999"
    do = "write a whole number in the digits 0 to 9, without zeros in front, as in `8 of ipu_pod16`"
    assert podsim("plan", BERT16, f"--system={count} of ipu_pod16") == error_of(f"{words}\n  do: {do}")
    Path("goal.yaml").write_text(f"kind: goal\nscenario: {BERT16}\nsystems:\n  - '{count} of ipu_pod16'\n")
    assert podsim("plan", "goal.yaml") == error_of(f"goal.yaml:4:5 [systems.0]: {words}\n  do: {do}")


def test_a_file_whose_name_has_an_of_is_a_pod() -> None:
    assert place_named("pods of mine.yaml") == Place("pods of mine.yaml")
    assert place_named("./0 of mine.yaml") == Place("./0 of mine.yaml")
    assert place_named(" 8 of  ipu_pod16 ") == Place("ipu_pod16", 8)


@every_case(
    "keys, words",
    lambda: [
        (["system.machine_count=8"], "ends of a partition of 8 machines are not joined"),
        (["system.machine_count=6", "system.topology=ladder"], "powers of two"),
        (["system.machine_count=32", "system.link_domain_machine_count=32"], "32 machines are no partition of 16"),
    ],
)
def test_a_partition_in_a_file_is_checked(keys: list[str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_scenario(BERT16, overrides=["system=ipu_pod64", "system.pod_machine_count=16", *keys])


def test_a_pod_and_a_name_of_a_file_are_places() -> None:
    assert place_named(" 32  of ./my pod.yaml ") == Place("./my pod.yaml", 32)
    assert place_named("ipu_pod64").overrides() == ("system=ipu_pod64",)
    with pytest.raises(SpecError, match="no pod `ipu_pod63` was found"):
        find_systems(Goal(BERT16, systems=("ipu_pod16", "ipu_pod63"), draws=0), processes=1)


# Totals


def part(name: str, time_s: float, power_w: float, replicas: int, lease: str = "machines", rate: float = 2.0) -> Part:
    """A job on machines of four IPUs at 2 USD per IPU and hour, and energy at 0.1 USD per kWh."""
    leased = 64 if lease == "pod" else 4 * replicas
    energy_j = power_w * time_s
    bill = {"lease": lease, "currency": "USD", "fixed_per_hour": rate * leased, "energy_per_run": energy_j / 3.6e7}
    cost = rate * leased * time_s / 3600 + energy_j / 3.6e7
    rack_power = {"mean_power_w": power_w, "rack_power_w": power_w, "energy_per_run_j": energy_j}
    return Part(
        name, "ipu_pod64", 64, 4, replicas, {"time_to_train_s": time_s, "cost_per_run": cost, **rack_power}, bill
    )


def test_one_after_another_adds_up() -> None:
    """An hour at 8 kW on 64 IPUs, then half an hour at 3 kW on 16: 128 + 0.8 + 16 + 0.15 USD."""
    found = totals([part("a", 3600, 8000, 16), part("b", 1800, 3000, 4)], pod("ipu_pod64"), False)
    assert (found["time_to_train_s"], found["mean_power_w"], found["rack_power_w"]) == (5400, 8000, 8000)
    assert found["energy_per_run_j"] == 8000 * 3600 + 3000 * 1800
    assert found["cost_per_run"] == pytest.approx(128 + 0.8 + 16 + 0.15)


def test_side_by_side_the_longest_counts_and_power_adds_up() -> None:
    """32 and 16 IPUs: 64 + 0.8 + 16 + 0.15 USD for machines; 128 + 0.95 USD for an hour of the pod."""
    jobs = [part("a", 3600, 8000, 8), part("b", 1800, 3000, 4)]
    found = totals(jobs, pod("ipu_pod64"), True)
    assert (found["time_to_train_s"], found["mean_power_w"], found["rack_power_w"]) == (3600, 11000, 11000)
    assert found["cost_per_run"] == pytest.approx(64 + 0.8 + 16 + 0.15)
    leased = [part("a", 3600, 8000, 8, "pod"), part("b", 1800, 3000, 4, "pod")]
    assert totals(leased, pod("ipu_pod64"), True)["cost_per_run"] == pytest.approx(128 + 0.95)
    assert totals(leased, pod("ipu_pod64"), False)["cost_per_run"] == pytest.approx(128 + 64 + 0.95)


def test_a_rack_holds_the_machines_that_draw_most() -> None:
    """Of 8 machines at 1 kW and 32 at 0.5 kW, a rack of 16 has the 8 and 8 of the others: 12 kW."""
    jobs = [part("a", 60, 8000, 8), part("b", 60, 16000, 32)]
    assert totals(jobs, pod("ipu_pod256"), True)["rack_power_w"] == 12_000


# Jobs


TWO = with_unique_names([Job(BERT16, BERT16), Job(BERT16, BERT16)])
WIDE = ("parallelism.replication_factor=8", "parallelism.accumulation_factor=96")
SIDE_BY_SIDE = (Job("large", BERT16, overrides=WIDE, ipus=32), Job("small", BERT16))


@pytest.fixture(scope="module")
def twice() -> PlanResult:
    systems = ("ipu_pod16", "bow_pod16", "32 of bow_pod64")
    goal = Goal(jobs=TWO, systems=systems, divisions=("as given",), overrides=(RENT,), draws=0)
    return find_systems(goal, processes=1)


def test_two_runs_take_twice_as_long(twice: PlanResult) -> None:
    once = run(BERT16, overrides=["system=bow_pod16", RENT])
    found = {option.system: option for option in twice.ranked}["bow_pod16"]
    assert found.figures is not None and once.time_to_train_s is not None and once.cost_per_run is not None
    assert found.figures["time_to_train_s"] == 2 * once.time_to_train_s
    assert found.figures["cost_per_run"] == 2 * once.cost_per_run
    assert [each.name for each in found.parts] == [f"{BERT16} 1", f"{BERT16} 2"]
    assert found.arithmetic == "16 (= 4 × 4)"


def test_jobs_side_by_side_have_partitions_of_their_own() -> None:
    """32 IPUs for one, as it says; for the other a half of the pod, of which it uses 16."""
    goal = Goal(
        jobs=SIDE_BY_SIDE, order="together", systems=("bow_pod64", "bow_pod16"), divisions=("as given",), draws=0
    )
    answer = find_systems(goal, processes=1)
    (found,) = answer.ranked
    large, small = found.parts
    assert (large.system, small.system) == ("32 of bow_pod64", "32 of bow_pod64")
    assert found.arithmetic == "64 (48 used, 4 × 8 + 4 × 4)"
    assert found.figures is not None
    assert found.figures["time_to_train_s"] == small.figures["time_to_train_s"] > large.figures["time_to_train_s"]
    table = jobs_table(answer)
    assert table.title == "Each job, side by side"
    told = [[str(each) for each in row[:3]] for row in table.rows]
    assert told == [["1", "large", "32 (= 4 × 8)"], ["", "small", "16 (= 4 × 4)"]]
    at = next(place for place, column in enumerate(table.columns) if column.head == "time to train")
    numbers = [found_in.value for row in table.rows if isinstance(found_in := row[at], Cell)]
    assert numbers == [large.figures["time_to_train_s"], small.figures["time_to_train_s"]]
    assert table in [*answer.report().short()]
    (out,) = answer.ruled_out
    assert out.reason == "jobs side by side need 32 + 8 = 40 IPUs; bow_pod16 has 16"


def test_each_job_is_saved_and_gives_the_same(twice: PlanResult, tmp_path: Path) -> None:
    best = twice.best
    assert best is not None and len(best.files) == 2
    for (name, text), each in zip(best.files.items(), best.parts, strict=True):
        (tmp_path / name).write_text(text)
        again = run(tmp_path / name)
        assert again.time_to_train_s == each.figures["time_to_train_s"]
        assert again.cost_per_run == each.figures["cost_per_run"]


def test_what_is_saved_has_variant_overrides_and_partition(tmp_path: Path) -> None:
    goal = Goal(
        "serving_llama2_7b_pod64",
        variant="pod16_int4",
        objective="tokens_per_s",
        systems=("16 of bow_pod64",),
        overrides=("system.machine.ipu.clock=1.7 GHz", "generation.output_tokens=200"),
        draws=0,
    )
    answer = find_systems(goal, processes=2)
    assert {option.division for option in answer.ranked} == {"as given", "chosen"}
    for option in answer.ranked:
        (tmp_path / "s.yaml").write_text(option.written)
        again = run(tmp_path / "s.yaml")
        assert option.figures is not None
        assert again.tokens_per_s == option.figures["tokens_per_s"]
        assert again.mean_power_w == option.figures["mean_power_w"]
        assert "int4" in option.written and "1.7 GHz" in option.written


def test_a_limit_of_one_job_rules_out_and_names_it() -> None:
    strict = expectation("time_to_train_s", "< 1 min")
    goal = Goal(
        jobs=(TWO[0], Job("second", BERT16, limits=(strict,))), systems=("ipu_pod16",), divisions=("as given",), draws=0
    )
    answer = find_systems(goal, processes=1)
    assert all("second: time_to_train_s < 1 min: +" in option.reason for option in answer.ruled_out)


JOBS = f"kind: goal\njobs:\n- scenario: {BERT16}\n- {{scenario: {BERT16}, limits: {{time: < 2 h}}}}\n"


def test_a_file_names_jobs_apart_and_reads_their_limits(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(JOBS)
    goal = read_goal(tmp_path / "g.yaml")
    assert [job.name for job in goal.jobs] == [f"{BERT16} 1", f"{BERT16} 2"]
    assert [limit.high for limit in goal.jobs[1].limits] == [7200.0]
    assert goal.title == f"{BERT16} 1, then {BERT16} 2"


@every_case(
    "text, words",
    lambda: [
        (JOBS + f"scenario: {BERT16}\n", r"`scenario` and `jobs` are both there"),
        (JOBS.replace("< 2 h", "< 2 GB"), r"jobs\.1\.limits\.time\]: unit `GB` does not fit"),
        (JOBS.replace("limits: {time: < 2 h}", "ipus: 16"), "leave `ipus` out, or `order: together`"),
        (f"kind: goal\nscenario: {BERT16}\norder: together\n", "add `jobs:`"),
        ("kind: goal\nobjective: cost\n", "nothing says what is to run"),
    ],
)
def test_wrong_jobs_are_told(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(text)
    with pytest.raises(SpecError, match=words):
        read_goal(tmp_path / "g.yaml")


def test_pods_and_scenarios_lie_beside_the_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "half.yaml").write_text("kind: pod\nbase: ipu_pod64\nname: Half\nhost_count: 1\n")
    (tmp_path / "mine" / "bert.yaml").write_text(f"base: {BERT16}\ndescription: mine\n")
    goal = "kind: goal\nscenario: bert.yaml\nsystems: [16 of half.yaml]\ndivisions: [as given]\ndraws: 0\n"
    (tmp_path / "mine" / "g.yaml").write_text(goal)
    monkeypatch.chdir(tmp_path)
    (found,) = find_systems(read_goal(Path("mine/g.yaml")), processes=1).ranked
    assert found.title == "Half" and found.arithmetic == "16 (= 4 × 4)"
    (tmp_path / "saved.yaml").write_text(found.written)
    monkeypatch.chdir("/")
    assert found.figures is not None
    assert run(tmp_path / "saved.yaml").time_to_train_s == found.figures["time_to_train_s"]
