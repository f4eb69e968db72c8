"""What varies: every combination and a refusal of too many; killed, and gone on."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

from podsim import run
from podsim.errors import OutputError, PodsimError, SpecError
from podsim.study.plan import Goal, Option, PlanResult, candidates, find_systems, read_goal
from podsim.study.plan.report import pareto_front

BERT = "bert_v1.1_pod16_open"
VARIED = f"""\
kind: goal
scenario: {BERT}
systems: [ipu_pod16, bow_pod16]
divisions: [as given]
draws: 0
vary:
  parallelism.micro_batch_size: [1, 2, 3]
  system.machine.ipu.clock: {{from: 1.4 GHz, to: 1.8 GHz, count: COUNT}}
derived:
  parallelism.accumulation_factor: ${{1536 // (4 * micro_batch_size)}}
where:
- micro_batch_size > 1
"""


def goal(folder: Path, count: int = 2, more: str = "") -> Goal:
    (folder / "g.yaml").write_text(VARIED.replace("COUNT", str(count)) + more)
    return read_goal(folder / "g.yaml")


def test_every_combination_is_looked_at_and_the_best_is_that_of_all(tmp_path: Path) -> None:
    """Two pods, micro-batches of 2 and 3, two clocks; those of 1 are left out."""
    answer = find_systems(goal(tmp_path), processes=1)
    assert answer.candidate_count == 12 and not answer.ruled_out
    times = {}
    for pod, size, clock in product(("ipu_pod16", "bow_pod16"), (2, 3), ("1.4 GHz", "1.8 GHz")):
        keys = [f"parallelism.micro_batch_size={size}", f"parallelism.accumulation_factor={384 // size}"]
        times[pod, size, clock] = run(BERT, overrides=[f"system={pod}", *keys, f"system.machine.ipu.clock={clock}"])
    expected = sorted(result.time_to_train_s or 0.0 for result in times.values())
    assert [(option.figures or {})["time_to_train_s"] for option in answer.ranked] == expected
    best = answer.ranked[0]
    assert best.varied == "micro_batch_size 3, clock 1.8 GHz"
    assert best.name == f"{best.system}-as-given-micro_batch_size-3-clock-1.8-GHz"
    (tmp_path / "best.yaml").write_text(best.written)
    assert run(tmp_path / "best.yaml").time_to_train_s == expected[0]


def test_a_candidate_has_a_number_and_a_number_its_candidate(tmp_path: Path) -> None:
    wanted = goal(tmp_path, 5)
    assert wanted.candidate_count == 30
    for number, (pod, size, _) in enumerate(product(("ipu_pod16", "bow_pod16"), (1, 2, 3), range(5))):
        found = candidates.candidate(wanted, number)
        assert (found is None) == (size == 1)
        if found is not None:
            option, overrides = found
            assert (option.number, option.system) == (number, pod)
            assert option.values["parallelism.micro_batch_size"] == size
            assert f"parallelism.accumulation_factor={384 // size}" in overrides


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vary:\n  system: [ipu_pod16]\n", "list pods under `systems`"),
        ("where: [1 > 2]\n", "nothing varies"),
        ("vary:\n  system.machine.ipu.clock: {from: 1 GHz, to: 2 GB, count: 2}\n", "different units"),
        ("vary:\n  a.b: [1]\nwhere: [c > 2]\n", "`c` is no key of this study"),
    ],
)
def test_what_cannot_vary_is_told(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(f"kind: goal\nscenario: {BERT}\n{text}")
    with pytest.raises(SpecError, match=words):
        read_goal(tmp_path / "g.yaml")


def test_a_goal_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PodsimError, match="leaves out all of 12 candidates"):
        find_systems(goal(tmp_path, more="- micro_batch_size > 3\n"), processes=1)


def test_nothing_that_is_not_beaten_is_missing_from_a_front() -> None:
    """Against all pairs: an option is on the front if no other is as good in both and better in one."""
    draws = random.Random(1)
    for _ in range(50):
        numbers = [(draws.randint(0, 6), draws.randint(0, 6)) for _ in range(8)]
        options = [
            Option("a", "chosen", figures={"time_to_train_s": a, "mfu": b}, number=i)
            for i, (a, b) in enumerate(numbers)
        ]
        front = {numbers[option.number] for option in pareto_front(options, "time_to_train_s", "mfu")}
        beaten = {
            (a, b) for a, b in numbers for c, d in numbers if c <= a and d >= b and (c < a or d > b)
        }  # less time, more of the peak
        assert front == set(numbers) - beaten


# Many


class Killed(BaseException):
    """Stands for the end of the process."""


def interrupted(after: int, monkeypatch: pytest.MonkeyPatch, simulated: list[int]) -> None:
    """Let the process end after so many candidates, and note those that are simulated."""
    real = candidates.option_for

    def option_for(wanted: Goal, number: int) -> Option:
        if len(simulated) == after:
            raise Killed
        simulated.append(number)
        return real(wanted, number)

    monkeypatch.setattr(candidates, "option_for", option_for)


def numbers(answer: PlanResult) -> list[int]:
    return [option.number for option in (*answer.ranked, *answer.ruled_out)]


def test_a_plan_that_was_killed_goes_on_to_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pods, micro-batches of 2 and 3, seven clocks: 28 candidates, of which 13 were kept."""
    wanted, journal = goal(tmp_path, 7), tmp_path / "kept.journal"
    monkeypatch.setattr("podsim.study.plan.spreads_of", lambda *_: {})
    said: list[str] = []
    whole = find_systems(wanted, processes=2, say=said.append)
    assert said[0] == "42 candidates: all are looked at"
    assert whole.ranked[0].values == {"parallelism.micro_batch_size": 3, "system.machine.ipu.clock": "1.8 GHz"}
    simulated: list[int] = []
    with monkeypatch.context() as patch:
        interrupted(13, patch, simulated)
        with pytest.raises(Killed):
            find_systems(wanted, processes=1, journal=journal)
    rest: list[int] = []
    with monkeypatch.context() as patch:
        interrupted(-1, patch, rest)
        again = find_systems(wanted, processes=1, journal=journal)
    assert numbers(again) == numbers(whole)
    assert again.to_dict() == whole.to_dict()
    assert len(simulated) == 13 and len(rest) == 15 and not set(simulated) & set(rest)


def test_what_was_found_serves_other_limits_and_no_other_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tmp_path / "kept.journal"
    first = find_systems(goal(tmp_path), processes=1, journal=journal)
    simulated: list[int] = []
    interrupted(0, monkeypatch, simulated)  # nothing may be simulated
    strict = goal(tmp_path, more="deadline: 1 min\nobjective: energy\n")
    answer = find_systems(strict, processes=1, journal=journal)
    assert len(answer.ruled_out) == len(first.ranked) == 8 and not simulated
    with pytest.raises(OutputError, match="rows of another goal") as refused:
        find_systems(goal(tmp_path, 3), processes=1, journal=journal)
    assert "--journal" in str(refused.value)


def test_what_was_found_with_another_pod_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = Goal(BERT, systems=("mine.yaml",), divisions=("as given",), draws=0)
    for hosts in (1, 2):
        Path("mine.yaml").write_text(f"kind: pod\nbase: ipu_pod16\nname: Mine\nhost_count: {hosts}\n")
        if hosts == 1:
            find_systems(wanted, processes=1, journal=Path("kept.journal"))
    with pytest.raises(OutputError, match="other inputs"):
        find_systems(wanted, processes=1, journal=Path("kept.journal"))


def test_more_candidates_than_are_looked_at_are_refused_with_what_to_do(tmp_path: Path) -> None:
    """Two pods, three micro-batches and 134 clocks; a Sobol sequence of four clocks instead."""
    wanted = goal(tmp_path, 134)
    with pytest.raises(PodsimError, match="804 candidates are more than the 200 that are looked at") as told:
        find_systems(wanted, processes=1)
    assert "`samples: {count: 64}`" in told.value.do and "--trials 804" in told.value.do
    sampled = VARIED.partition("where:")[0].replace(", count: COUNT", "").replace("[1, 2, 3]", "[3]")
    (tmp_path / "g.yaml").write_text(f"{sampled.replace(', bow_pod16', '')}samples: {{count: 4}}\n")
    assert find_systems(read_goal(tmp_path / "g.yaml"), processes=1).candidate_count == 4
