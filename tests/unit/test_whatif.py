"""What each change of a machine brings: factors, ranks, ranges, and what is impossible."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from typing import Any, cast

import pytest

import podsim
from podsim.cli.app import main
from podsim.draws import Range
from podsim.errors import PodsimError
from podsim.report.chart import Bars
from podsim.report.table import Table
from podsim.result.evidence import residuals
from podsim.result.influence import MACHINE, StandsOn, spread_of_change
from podsim.scenario.assumptions import Assumption
from podsim.scenario.parameters import PARAMETERS
from podsim.study.whatif import Effect, Effects, WhatIf, whatif
from tests.unit.bad_input_cases import Run

CARD, POD, BERT = "bert_base_c600", "conductivity_cnn_pod4", "bert_v1.1_pod64_open"
LINKS = "system.machine.ipu_link.bandwidth_per_direction"


def number(key: str, value: float = 2.0, source: str = "here") -> Assumption:
    return Assumption(key, f"{value}", "assumed", source, None, (1.0, 3.0), (1.0, 3.0), value)


class Stands:
    """What a result stands on, as it was measured: inputs from 1 to 3, whose value is 2 if nothing else is said."""

    slowdown = 0.0

    def __init__(
        self, moved: dict[str, tuple[float, float]], unmeasured: tuple[str, ...] = (), *others: Assumption
    ) -> None:
        self._moved, self._unmeasured = moved, unmeasured
        self.inputs = {key: number(key) for key in ("latency", "memory")} | {other.key: other for other in others}

    def is_like(self, _other: Stands) -> bool:
        return True

    def unmeasured(self) -> tuple[str, ...]:
        return self._unmeasured

    def moved(self, _name: str) -> dict[str, tuple[float, float]]:
        return self._moved


def doubt(before: Stands, after: Stands) -> tuple[float, float] | None:
    found = spread_of_change(cast(Any, before), cast(Any, after), "throughput_samples_per_s", 1.0)
    return None if found is None else found.factors


def side(name: str, *, replanned: bool = False, **shares: float | None) -> Effects:
    effects = tuple(Effect(change, share=share, value=1.0) for change, share in shares.items())
    return Effects(name, "throughput_samples_per_s", replanned, 1000.0, Range(900, 1100), None, effects, ())


def test_an_input_that_moves_both_alike_leaves_no_doubt_about_the_change() -> None:
    both = Stands({"latency": (0.8, 1.3)})
    assert doubt(both, both) == (1.0, 1.0)


def test_an_input_of_one_of_them_leaves_its_own() -> None:
    # (1.1 / 1, 1.1 / 1) at both ends: all of the triangle is that or less; the change itself is inside of its range.
    found = doubt(Stands({}), Stands({"latency": (1.1, 1.1)}))
    assert found is not None
    assert 1.0 == found[0] < found[1] < 1.1
    # The other way round it is 1 / 1.1: the mirror image in logarithms.
    mirrored = doubt(Stands({"latency": (1.1, 1.1)}), Stands({}))
    assert mirrored is not None
    assert mirrored == pytest.approx((1 / found[1], 1.0), abs=0.01)


def test_what_was_asked_is_certain_and_may_be_unmeasured() -> None:
    asked = number("memory", 4.0, "given")
    assert doubt(Stands({"memory": (0.8, 1.3)}), Stands({}, ("memory",), asked)) == (1.0, 1.0)
    assert doubt(Stands({}), Stands({}, ("memory",))) is None


def test_an_input_that_each_has_of_its_own_counts_in_both() -> None:
    """As with two stacks: where one input would cancel, two leave √2 of the scatter that one leaves."""
    before, after = Stands({"latency": (0.8, 1.25)}), Stands({"latency": (0.8, 1.25)}, (), number("latency", 2.0001))
    assert doubt(before, before) == (1.0, 1.0)
    both, one = (
        spread_of_change(cast(Any, before), cast(Any, each), "throughput_samples_per_s", 1.0)
        for each in (after, Stands({}, (), number("latency", 2.0001)))
    )
    assert both is not None and one is not None
    assert both.variance == pytest.approx(2 * one.variance, rel=0.01)


def test_a_comparison_says_the_same_of_the_same_question() -> None:
    """Twice the links by `whatif`, and beside the run with 32 and 25 GB/s written out."""
    (workload,) = whatif(BERT, times={"links": 2}, processes=1).workloads
    (effect,) = workload.effects
    gw_links = "system.machine.gw_link.bandwidth_per_direction"
    fast = podsim.load(BERT, overrides=[f"{LINKS}=32 GB/s", f"{gw_links}=25 GB/s"])
    row = podsim.compare(BERT, fast).differences[0].headline
    assert row.metric == workload.metric
    assert (row.a, row.b, row.change) == (workload.value, effect.value, effect.share)
    assert effect.share_range is not None
    assert row.change_range == effect.share_range
    assert 0 < effect.share_range.low < effect.share_range.high < 2 * effect.share  # type: ignore[operator]


def test_another_pod_is_a_change_next_to_factors() -> None:
    """The share of `--to` is the throughput of the run with that value over the one without, less 1."""
    (workload,) = whatif(BERT, to={"system": "bow_pod64"}, times={"links": 2}, processes=1).workloads
    assert {effect.change for effect in workload.effects} == {"system=bow_pod64", "links x2"}
    effect = next(effect for effect in workload.effects if effect.change == "system=bow_pod64")
    there = podsim.run(BERT, overrides=["system=bow_pod64"]).throughput_samples_per_s
    assert effect.value == there and effect.share == pytest.approx(there / workload.value - 1)
    (alone,) = whatif(BERT, to=["system=bow_pod64"], processes=1).workloads
    assert [each.change for each in alone.effects] == ["system=bow_pod64"]


def test_a_value_that_cannot_be_is_refused_and_one_that_does_not_fit_is_a_row() -> None:
    for text, words in (
        ("system=bow_pod46", "no pod `bow_pod46`"),
        ("sytem=bow_pod64", "unknown key `sytem`"),
        ("system", "this is not KEY=VALUE"),
        ("system=", "this is not KEY=VALUE"),
    ):
        with pytest.raises(PodsimError, match=words) as found:
            whatif(BERT, to=[text])
        assert str(found.value).startswith(f"--to {text}") and found.value.do
    (workload,) = whatif(BERT, to=["system=ipu_pod16"], processes=1).workloads
    (effect,) = workload.effects
    assert effect.share is None and "8 replicas of 8 IPUs need 64 IPUs; IPU-POD16 has 16" in effect.reason


def test_together_is_the_geometric_mean_and_leaves_out_what_one_cannot_do() -> None:
    found = WhatIf((side("a", clock=0.21, links=0.5, memory=None), side("b", memory=0.1, clock=0.0, links=-0.5)))
    together = dict(found.mean_factors(replanned=False))
    # √(1.21 x 1.00) = 1.1, √(1.5 x 0.5) = √0.75
    assert together == pytest.approx({"clock": 1.1, "links": 0.75**0.5})
    assert list(together) == ["clock", "links"]
    report = found.report()
    (table,) = report.sections[0].blocks
    assert isinstance(table, Table)
    assert [[*map(str, row)] for row in table.rows] == [
        ["clock", "+21.0 %", "0.0 %", "+10.0 %"],
        ["links", "+50.0 %", "-50.0 %", "-13.4 %"],
        ["memory", "–", "+10.0 %", "–"],
    ]
    assert table in list(report.short())
    assert report.verdict[0] == "together, division kept: clock brings most, +10.0 %"


def test_the_verdict_comes_first_and_names_what_was_never_compared() -> None:
    """A plain sentence for each workload, whatever its changes bring."""
    best = Effect("links x2", share=0.2, share_range=Range(0.1, 0.3), value=1.0, beyond=True)
    for effects, told in (
        ((best, Effect("clock x2", share=0.1, value=1.0)), "links x2 brings most, +20.0 % (80 %: +10.0 to +30.0 %)"),
        (
            (Effect("clock x2", share=0.2, share_range=Range(-0.1, 0.2), value=1.0),),
            "clock x2 brings most, +20.0 % (80 %: -10.0 to +20.0 %), which may be no change",
        ),
        ((Effect("clock x2", share=0.0, value=1.0),), "no change brings anything"),
        ((Effect("clock x2", share=-0.1, value=1.0),), "no change brings anything"),
        ((Effect("clock x2", reason="there is none here"),), "no change is possible"),
    ):
        found = replace(side("a"), effects=effects)
        report = WhatIf((found, replace(found, replanned=True))).report()
        assert report.verdict == [f"a, division kept: {told}", f"a, division chosen anew: {told}"]
        assert report.about[0] == "a, division kept: throughput 1,000 samples/s as it is (80 %: 900 to 1,100)"
        assert report.warnings == [
            f"no published run is like a, division {each}, with links x2"
            for each in ("kept", "chosen anew") * (best in effects)
        ]


def test_what_a_change_brings_and_the_run_with_it_say_the_same() -> None:
    """Twice the links of a POD64: the run is no less sure for it than by a share of what they brought."""
    (workload,) = whatif(BERT, times={LINKS: 2}, processes=1).workloads
    (effect,) = workload.effects
    plain, fast = (podsim.simulate(BERT, overrides=each) for each in ([], [f"{LINKS}=32 GB/s"]))
    before, after = plain.assumptions, fast.assumptions
    assert isinstance(before, StandsOn) and isinstance(after, StandsOn)
    name = workload.metric
    assert plain.time_to_train_s and fast.time_to_train_s
    change = math.log(plain.time_to_train_s / fast.time_to_train_s)
    added = after.spreads()[name].parts[MACHINE].variance
    assert added == pytest.approx((residuals().change * change) ** 2)
    assert MACHINE not in before.spreads()[name].parts
    assert effect.share_range is not None and effect.share is not None
    assert 0 < effect.share_range.low <= effect.share <= effect.share_range.high


def test_no_change_lies_beyond_its_own_range() -> None:
    """Half the bandwidth of IPU-Links, where an input stands at an end of its range."""
    (workload,) = whatif("resnet50_v1.1_pod16", times={"ipu_links": 0.5, "clock": 0.9}, processes=1).workloads
    for effect in workload.effects:
        assert effect.share is not None and effect.share_range is not None
        assert effect.share_range.low <= effect.share <= effect.share_range.high


def test_a_chart_has_a_bar_for_each_change_that_is_possible() -> None:
    found = WhatIf((side("a", clock=0.21, memory=-0.04, links=None),))
    ((chart,),) = found.report().sheet().rows
    assert isinstance(chart.drawn, Bars)
    assert [(bar.row, bar.text) for bar in chart.drawn.bars] == [("clock", "+21.0 %"), ("memory", "-4.0 %")]
    assert [bar.end for bar in chart.drawn.bars] == pytest.approx([21, -4])
    # A quarter more than the longest bar on either side.
    assert chart.drawn.ends == pytest.approx((-5, 26.25))


def test_a_change_is_that_of_the_run_with_the_number_written_out() -> None:
    found = whatif(CARD, times={"links": 2, "clock": 2, "system.machine.host_link.latency": 0.5}, processes=1)
    (workload,) = found.workloads
    effects = {effect.change: effect for effect in workload.effects}
    # The clock of a C600 is 1.486 GHz.
    base, fast = (podsim.infer(CARD, overrides=each) for each in ([], ["system.machine.ipu.clock=2.972 GHz"]))
    clock = effects["clock x2"]
    assert workload.value == base.throughput_samples_per_s
    assert clock.value == fast.throughput_samples_per_s
    assert clock.share == fast.throughput_samples_per_s / base.throughput_samples_per_s - 1
    assert clock.share_range is not None and clock.share_range.low <= clock.share <= clock.share_range.high
    assert clock.keys == PARAMETERS["clock"]
    assert workload.effects[0] is clock
    # A card has no links to others, and half the latency of its host is one more change of a run.
    assert effects["links x2"] == Effect("links x2", reason="there is none here")
    assert effects["system.machine.host_link.latency x0.5"].share is not None


def test_a_change_that_leaves_what_was_compared_says_so() -> None:
    """Twice the clock of a card is no part that anybody measured; its own clock is. From outside nothing leaves."""
    (workload,) = whatif(CARD, times={"clock": 2, "host_links": 0.999}, processes=1).workloads
    assert {effect.change: effect.beyond for effect in workload.effects} == {
        "clock x2": True,
        "host_links x0.999": False,
    }
    warnings = [line for line in WhatIf((workload,)).text().splitlines() if line.startswith("warning: ")]
    assert warnings == ["warning: no published run is like bert_base_c600, division kept, with clock x2"]
    unlike = podsim.load_scenario(CARD, overrides=["system.machine.ipu.clock=2.972 GHz"])
    (workload,) = whatif(unlike, times={"clock": 1.1}, processes=1).workloads
    assert [effect.beyond for effect in workload.effects] == [False]


def test_what_is_impossible_says_why_and_comes_last() -> None:
    (workload,) = whatif(CARD, times={"memory": 0.01, "clock": 0.5}, processes=1).workloads
    slow, small = workload.effects
    assert (slow.change, small.change) == ("clock x0.5", "memory x0.01")
    assert slow.share is not None and slow.share < 0
    assert small.share is None and small.reason


def test_a_number_that_cannot_be_is_named_in_a_line() -> None:
    """A chip has 1,472 tiles, and a part of a tile is none: 1,472 x 0.001 = 1.472."""
    (workload,) = whatif(CARD, times={"tiles": 0.001}, processes=1).workloads
    (effect,) = workload.effects
    assert effect.reason == "system.machine.ipu.tile.count: `1.472` is not a whole number"


def test_a_division_chosen_anew_is_compared_with_the_best_one_of_the_machine_as_it_is() -> None:
    kept, anew = whatif(POD, times={"clock": 1.1}, replan=True, processes=1).workloads
    assert (kept.replanned, anew.replanned) == (False, True)
    assert kept.alone is None and anew.alone is not None
    assert anew.value == pytest.approx(kept.value * (1 + anew.alone))
    best = podsim.simulate(POD, overrides=["parallelism=auto"])
    assert anew.value == best.throughput_samples_per_s
    assert "the choice of a division alone: " in WhatIf((kept, anew)).text()


def test_wrong_words(podsim: Run) -> None:
    where = "error: --times link=2: bert_base_c600 has no number `link` to change\n  do: did you mean `links`?"
    code, message = podsim("whatif", CARD, "--times", "link=2")
    assert (code, message.startswith(where)) == (2, True)
    assert podsim("whatif", CARD, "--times", "links=x") == (
        2,
        "error: --times links=x: this is not NAME=FACTOR\n  do: write for example `--times links=2 clock=1.1`\n",
    )
    assert podsim("whatif", CARD, "--times", "clock=2", "clock=3") == (
        2,
        "error: --times: clock is given more than once\n"
        "  do: write one factor for `clock`, and run the command again for another\n",
    )
    for factor in (0.0, -1.0, float("inf"), float("nan"), 1e300, cast(Any, "2"), cast(Any, None), True):
        with pytest.raises(PodsimError, match="is no factor"):
            whatif(CARD, times={"links": factor})
    with pytest.raises(PodsimError, match="which is no number"):
        whatif(CARD, times={"model.kind": 2})
    with pytest.raises(PodsimError, match="there is no scenario"):
        whatif()


def test_the_command_takes_several_factors_after_one_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["podsim", "whatif", CARD, "--times", "clock=1.1", "links=2", "--format", "json"])
    with pytest.raises(SystemExit):
        main()
    (workload,) = json.loads(capsys.readouterr().out)["workloads"]
    assert [each["change"] for each in workload["effects"]] == ["clock x1.1", "links x2"]
