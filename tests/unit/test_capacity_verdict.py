"""The verdict of a plan: met or not, how likely, and what was never compared; better parts never count less."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from podsim import run
from podsim.draws import Range
from podsim.scenario.parameters import PARAMETERS
from podsim.study.plan import Goal, Job, Option, Part, PlanResult, find_systems, read_goal
from podsim.study.plan.confidence import Confidence, Contender, Spread, likelihood
from podsim.study.plan.goal import limit
from tests.cases import every_case

BERT, RESNET = "bert_v1.1_pod16_open", "resnet50_v1.1_pod16"
TIME = "time_to_train_s"


def option(name: str, time_s: float, reason: str = "", ipus: int = 16) -> Option:
    figures = {TIME: time_s, "ipus": ipus}
    return Option(
        name, "as given", name, ipus, 4, ipus // 4, figures, reason, parts=(Part("a", name, ipus, 4, 4, figures),)
    )


@every_case(
    "limits, expected",
    lambda: [
        ((limit("time", "< 110 s"),), 0.9),
        ((limit("time", "< 90 s"),), 0.1),
        ((limit("time", f"< {math.sqrt(90 * 110)} s"),), 0.5),
        ((limit("time", f"< {110 * math.sqrt(110 / 90)} s"),), 0.99),
        ((limit("time", "> 90 s"),), 0.9),
        ((limit("time", "100 s ± 10 s"),), 0.8),
        ((limit("time", "< 110 s"), limit("time", "> 105 s"), limit("time", "< 1 h")), 0.25),
        ((limit("ipus", "<= 16"),), 1.0),
        ((limit("ipus", "< 16"),), 0.0),
        ((limit("mfu", "> 10 %"),), 0.0),
        ((), 1.0),
    ],
)
def test_likelihoods_follow_from_the_ends_of_a_range(limits: tuple[Any, ...], expected: float) -> None:
    """P10 is 90 s and P90 is 110 s: the median of the logarithm is √(90 · 110) = 99.5 s.

    121.6 s are as far above P90 as that is above the median, twice 1.2816 standard deviations: 99.5 %, told as 99.
    105 s are 0.0538 above the median in logarithms, of a standard deviation of 0.0783: 0.69, beyond which 25 % lie.
    """
    ends = {TIME: Range(90.0, 110.0), "ipus": Range(16, 16)}
    assert likelihood(Goal(BERT, limits=limits), option("a", 100.0), ends) == expected


def test_without_a_range_nothing_is_known() -> None:
    assert likelihood(Goal(BERT, limits=(limit("time", "< 1 h"),)), option("a", 100.0), {}) is None


def test_limits_of_jobs_count_as_well() -> None:
    job = Job("a", BERT, limits=(limit("time", "< 90 s"),))
    ranges = {TIME: Range(90.0, 110.0), f"a: {TIME}": Range(90.0, 110.0)}
    assert likelihood(Goal(jobs=(job,), limits=(limit("time", "< 110 s"),)), option("a", 100.0), ranges) == 0.1


LIMITED = Goal(BERT, limits=(limit("time", "< 110 s"),), draws=0)
SPREAD = {"a, as given": Spread({TIME: Range(90.0, 110.0)})}
NEW = {"a, as given": Spread({TIME: Range(90.0, 110.0)}, ("IPUs 128 (4 to 64)", "training in fp8"))}
ASKED = f"least time to train of {BERT}"
LATE = option("b", 120.0, "time_to_train_s < 110 s: +9.1%")
DRAWN = Confidence(20, 0, 19, [Contender(option("a", 100.0), 1.0, 0.85, 0.9), Contender(LATE, 0.0, 0.25, 1.0)])


BEST = option("a", 100.0)
MET = f"{ASKED}, time_to_train_s < 110 s: met by a, as given, 100 s"
NOT_MET = f"{ASKED}, time_to_train_s < 110 s: not met, nothing reaches the goal"


@every_case(
    "found, expected",
    lambda: [
        (PlanResult(LIMITED, [BEST], [LATE], spreads=SPREAD), f"{MET} (80 %: 90 to 110), 90 % likely"),
        (PlanResult(LIMITED, [BEST], [], confidence=DRAWN), f"{MET}, holds in 85 % of 20 draws"),
        (PlanResult(LIMITED, [BEST], []), f"{MET}, how likely is not known"),
        (
            PlanResult(Goal(BERT), [BEST], [], spreads=SPREAD),
            f"{ASKED}: the best is a, as given, 100 s (80 %: 90 to 110)",
        ),
        (
            PlanResult(Goal(BERT), [BEST], [], spreads=NEW),
            f"unknown: {ASKED}: the best is a, as given, 100 s (80 %: 90 to 110); never compared with a published run: "
            "IPUs 128 (4 to 64); training in fp8",
        ),
        (
            PlanResult(LIMITED, [], [LATE], confidence=DRAWN),
            f"{NOT_MET}; b, as given comes closest, time_to_train_s < 110 s: +9.1%, holds in 25 % of 20 draws",
        ),
        (PlanResult(LIMITED, [], []), NOT_MET),
    ],
)
def test_the_verdict_is_one_sentence(found: PlanResult, expected: str) -> None:
    assert found.report().verdict == (expected,)
    assert found.to_dict()["verdict"] == [expected]


def test_options_that_are_as_good_share_a_place() -> None:
    ranked = [option("a", 90.0), option("b", 100.0), option("c", 100.0), option("d", 100.0, ipus=64)]
    found = PlanResult(LIMITED, ranked, [])
    assert found.ranks == [1, 2, 2, 4]
    assert [row["rank"] for row in found._records()] == [1, 2, 2, 4]
    assert [str(row[0]) for row in next(block for block in found.report().short()).rows] == ["1", "2", "2", "4"]  # type: ignore[union-attr]


def varied(folder: Path, scenario: str, lever: str, values: list[list[str]], draws: int, most_s: float) -> PlanResult:
    """A plan over a part of the machine that gets faster from candidate to candidate."""
    keys = PARAMETERS[lever][: len(values)]
    lines = ["kind: goal", f"scenario: {scenario}", "systems: [ipu_pod16]", "divisions: [as given]", f"draws: {draws}"]
    lines += [f"limits: {{time: < {most_s} s}}", "vary:", *(f"  {k}: {v}" for k, v in zip(keys, values, strict=True))]
    lines += [f"zipped: [[{', '.join(keys)}]]"] * (len(keys) > 1)
    (folder / "g.yaml").write_text("\n".join(lines) + "\n")
    return find_systems(read_goal(folder / "g.yaml"), processes=1)


STREAMED = ["8 GB/s", "10 GB/s", "32 GB/s"]


@pytest.mark.parametrize(
    ("lever", "values", "draws"),
    [
        ("clock", [["1.33 GHz", "1.4 GHz", "2.66 GHz"]], 8),
        ("ipu_links", [["16 GB/s", "20 GB/s", "64 GB/s"]], 0),
        ("exchange", [["4 B", "5 B", "16 B"]], 0),
        ("streaming", [STREAMED, STREAMED, STREAMED], 8),
    ],
)
def test_a_faster_part_lowers_neither_rank_nor_likelihood(
    lever: str, values: list[list[str]], draws: int, tmp_path: Path
) -> None:
    found = varied(tmp_path, BERT, lever, values, draws, 1600.0)
    by_number = sorted((*found.ranked, *found.ruled_out), key=lambda each: each.number)
    times = [each.value(TIME) or 0.0 for each in by_number]
    assert times == sorted(times, reverse=True) and times[0] > times[-1]
    places = dict(zip((each.number for each in found.ranked), found.ranks, strict=True))
    ranks = [places.get(each.number, math.inf) for each in by_number]
    assert ranks == sorted(ranks, reverse=True)
    known = [share for each in by_number if (share := found.likelihood(each)) is not None]
    assert known == sorted(known) and (known or (draws, lever) == (0, "exchange"))


@pytest.mark.parametrize("draws", [0, 8])
def test_a_pod_with_more_than_a_run_uses_is_neither_better_nor_less_likely(draws: int, tmp_path: Path) -> None:
    """ResNet-50 has its state on the chip, so that four times the Streaming Memory change nothing."""
    memory = "{capacity_per_ipu: 448 GB, read_bandwidth_per_ipu: 27 GB/s, write_bandwidth_per_ipu: 30 GB/s}"
    pod = f"kind: pod\nbase: ipu_pod16\nname: Better\nmachine: {{streaming_memory: {memory}}}\n"
    (tmp_path / "better.yaml").write_text(pod)
    systems = ("ipu_pod16", str(tmp_path / "better.yaml"))
    time_s = run(RESNET).time_to_train_s
    limits = (limit("time", f"<= {time_s} s"),)
    goal = Goal(RESNET, systems=systems, divisions=("as given",), draws=draws, limits=limits)
    found = find_systems(goal, processes=1)
    assert found.ranks == [1, 1]
    first, second = (found.likelihood(each) for each in found.ranked)
    assert first == second and first is not None and 0 < first < 1
    assert len({(ends.low, ends.high) for each in found.ranked if (ends := found.range(each, TIME))}) == 1


def test_the_range_of_an_option_is_that_of_its_run() -> None:
    goal = Goal(BERT, systems=("bow_pod16",), divisions=("as given",), draws=0)
    found = find_systems(goal, processes=1)
    assert found.best is not None
    assert found.range(found.best, TIME) == run(BERT, overrides=["system=bow_pod16"]).ranges[TIME]
