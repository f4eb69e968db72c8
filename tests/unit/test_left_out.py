"""Errors of runs that are left out, and the scatter that follows from them, by hand."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import pytest

from podsim.cli.app import main
from podsim.result.ranges import NORMAL_P90 as Z
from podsim.result.scatter import ALL, Covered, ScatterTable, Traits, scatter_of, table
from podsim.scenario import load_scenario
from podsim.validation.left_out import (
    BY,
    GROUPS,
    PARAMETERS,
    LeftOut,
    LeftOutPart,
    LeftOutRow,
    LeftOutRun,
    as_plain,
    left_out,
    shipped,
    together,
)
from tools.update_readme import CARD, LEFT_OUT, PAGE, ROOT, left_out_by_stack, left_out_in_parts, renewed

SAID = {each.name: each.without for each in PARAMETERS}
COMMITTED = {
    name: value if isinstance(value, float) else float(SAID[value])  # as if each had what its base has
    for name, value in SAID.items()
}
CALL = "session call of TensorFlow"
POINT = LeftOutRun(
    *("a", "a", "configuration a", "hold-out", "training", "TensorFlow", "2.3", "resnet", "GC200", 16),
    *({"ipu.clock": 1e9}, 0.0, 0.0, 0.0, {}, {}),
)


def points(*errors: float, **changes: object) -> list[LeftOutRun]:
    """One configuration for each error."""
    letters = "abcdefghijkl"[: len(errors)]
    return [
        replace(POINT, name=name, configuration=name, error=error, **changes)  # type: ignore[arg-type]
        for name, error in zip(letters, errors, strict=True)
    ]


def test_a_constant_is_fitted_without_the_rows_that_are_left_out() -> None:
    """One row, 3 % slow, 10 more per second: with it the call is 20.0 / 401 of its spread of 60 ms shorter.

    The spread counts as one row of weight 1, the row as one of weight 10 · 0.06 / 0.03 = 20. Left out, nothing is
    known but the value without rows, which is committed here.
    """
    (row,) = points(0.03, role="calibration", slopes={CALL: 10.0})
    (other,) = points(0.0, slopes={CALL: 10.0})
    other = replace(other, name="other", configuration="other")
    found = LeftOut([row, other], COMMITTED)
    shorter_s = 20 * 1 / 401 * 0.06
    assert found.errors([row])["a"] == pytest.approx(0.03 + 10 * shorter_s)
    assert found.errors([other]) == {"other": 0.0}
    assert found.errors([other], without=[row])["other"] == pytest.approx(10 * shorter_s)


def test_a_switch_is_taken_back_where_all_of_its_rows_are_left_out() -> None:
    """Four rings of SDK 3.0 and later rest on three rows; without all of them they are not known."""
    rows = ("ALCF-005", "LLM-001", "LLM-002")
    *chosen, other = points(0.0, 0.0, 0.0, 0.0, sdk="3.1", switches={"software.collective_rings": -0.1})
    chosen = [replace(each, name=name) for each, name in zip(chosen, rows, strict=True)]
    older = replace(other, name="older", configuration="older", sdk="2.5")
    found = LeftOut([*chosen, other, older], COMMITTED)
    assert found.errors([*chosen[1:], other])["d"] == 0.0
    assert found.errors([*chosen, other, older]) == {**dict.fromkeys((*rows, "d"), -0.1), "older": 0.0}


def test_a_constant_without_rows_is_that_of_its_base() -> None:
    """The call of TensorFlow is 50 ms; without rows it is PopART's, 130 ms, and without those, too, 80 ms.

    With its row, 10 more per second, it is 50 ms within a share of 1 / 401 of what is said without.
    """
    (row,) = points(0.0, role="calibration", slopes={CALL: 10.0})
    (base,) = points(0.0, framework="PopART", role="calibration", slopes={"session call of PopART": 10.0})
    base = replace(base, name="base", configuration="base")
    found = LeftOut([row, base], COMMITTED | {CALL: 0.05, "session call of PopART": 0.13})
    assert found.errors([row])["a"] == pytest.approx(10 * (0.13 - 0.05) * 400 / 401)
    assert found.errors([row], without=[base])["a"] == pytest.approx(10 * ((0.08 - 0.05) - (0.13 - 0.05) / 401))
    assert found.replaced([row]) == (f"{CALL}: 130 ms, as session call of PopART, 70 ms to 190 ms",)
    assert found.replaced([row, base])[1:] == (f"{CALL}: 80 ms, as session call of PopART, 20 ms to 140 ms",)
    assert found.replaced([base]) == ("session call of PopART: 80 ms, 20 ms to 140 ms",)


def test_what_stands_for_switches_and_shares_is_told() -> None:
    switches, slopes = {"software.collective_rings": -0.1}, {"layout changes": 0.5}
    *chosen, other = points(0.0, 0.0, 0.0, 0.0, sdk="3.1", framework="PyTorch", switches=switches, slopes=slopes)
    rows = ("ALCF-005", "LLM-001", "LLM-002")
    chosen = [replace(each, name=name, role="calibration") for each, name in zip(chosen, rows, strict=True)]
    found = LeftOut([*chosen, other], COMMITTED)
    assert found.replaced(chosen) == (
        "layout changes: 0.52 cycles/B, 0.37 cycles/B to 0.67 cycles/B",
        "collective_rings: 2",
    )
    assert found.replaced([other]) == ()


def test_parts_have_the_sizes_of_their_errors() -> None:
    """-3 % and +4 %: a bias of 0.5 %, a mean of 3.5 %, a root mean square of 3.536 %; 2 % with the rows."""
    part = LeftOutPart("a", (LeftOutRow("x", -0.03, 0.01), LeftOutRow("y", 0.04, -0.03)), 2, 1.0)
    sizes = part.sizes
    assert (sizes.bias, sizes.mean, sizes.rms, sizes.worst) == pytest.approx((0.005, 0.035, math.sqrt(0.00125), 0.04))
    both = together([part, LeftOutPart("b", (LeftOutRow("z", -0.2, 0.0),), 1, 0.5)])
    assert (len(both.rows), both.configurations, both.inside, both.sizes.worst) == (3, 3, 1.5, -0.2)
    assert part.mean_now == pytest.approx(0.02)


def test_the_scatter_holds_four_fifths_of_the_errors() -> None:
    """Nine configurations: the eighth of ten intervals ends at the eighth error; what is known is taken out."""
    errors = [each / 100 for each in range(1, 10)]
    made = LeftOut(points(*errors), COMMITTED).table(points(*errors))
    assert made.covered["training"].base["TensorFlow"] == pytest.approx(0.08 / Z)
    known = points(*errors, input_sigma=0.03, data_sigma=0.04)
    (base,) = {LeftOut(known, COMMITTED).table(known).covered["training"].base["TensorFlow"]}
    assert base == pytest.approx(math.sqrt((0.08 / Z) ** 2 - 0.03**2 - 0.04**2))


def test_rows_of_one_configuration_weigh_as_one() -> None:
    """Four rows of 10 % in one configuration beside four of 1 to 4 % each: five, of which the greatest is taken."""
    same = [replace(each, configuration="same") for each in points(0.1, 0.1, 0.1, 0.1)]
    others = [replace(each, name=each.name * 2, configuration=each.name) for each in points(0.01, 0.02, 0.03, 0.04)]
    chosen = [*same, *others]
    base = LeftOut(chosen, COMMITTED).table(chosen).covered["training"].base["TensorFlow"]
    assert base == pytest.approx(math.sqrt(0.04**2 + 0.8 * (0.1**2 - 0.04**2)) / Z)


def test_few_configurations_of_a_framework_are_no_surer_than_all() -> None:
    many, few = points(0.1, 0.1, 0.1, 0.1), points(0.01, 0.01, 0.01, framework="PyTorch")
    few = [replace(each, name=each.name * 2, configuration=each.name * 2) for each in few]
    base = LeftOut([*many, *few], COMMITTED).table([*many, *few]).covered["training"].base
    assert base["PyTorch"] == pytest.approx(0.1 / Z)


COVERED = Covered({ALL: 0.03, "PopART": 0.04}, ("bert",), 64, {"ipu.clock": (1e9, 2e9)})
STEPS = {
    "activity": {ALL: 0.3},
    "framework": {ALL: 0.5, "training": 0.12},
    "family": {ALL: 0.2},
    "size": {ALL: 0.03},
    "hardware": {ALL: 0.1},
}
MADE = ScatterTable({"training": COVERED}, 0.05, STEPS)
KNOWN = Traits("training", "PopART", "bert", 64, {"ipu.clock": 1.5e9})


@pytest.mark.parametrize(
    ("changes", "variance", "reason"),
    [
        ({}, 0.04**2, None),
        ({"framework": "JAX"}, 0.03**2 + 0.12**2, "no training with JAX is among the runs that ranges come from"),
        (
            {"family": "dlrm"},
            0.04**2 + 0.2**2,
            "no training of a model of kind `dlrm` is among the runs that ranges come from",
        ),
        ({"ipu_count": 256}, 0.04**2 + 2 * 0.03**2, "256 IPUs, where at most 64 have been compared"),
        ({"hardware": {"ipu.clock": 4e9}}, 0.04**2 + (0.1 * math.log(2)) ** 2, "`ipu.clock` (2 × the greatest)"),
        ({"hardware": {"ipu.clock": 0.5e9}}, 0.04**2 + (0.1 * math.log(2)) ** 2, "`ipu.clock` (0.5 × the least)"),
        ({"activity": "generation"}, 0.05**2 + 0.3**2, "generation has never been compared"),
    ],
)
def test_each_distance_adds_its_variance_and_says_so(
    changes: dict[str, object], variance: float, reason: str | None
) -> None:
    found = MADE.of(replace(KNOWN, **changes))  # type: ignore[arg-type]
    assert found.sigma == pytest.approx(math.sqrt(variance))
    assert (found.reasons == ()) if reason is None else (reason in found.reasons[0])


def test_what_was_never_compared_is_wider() -> None:
    """A faster chip, faster links and more IPUs than any that was compared, by their numbers."""
    name = "bert_v1.1_pod64_open"
    known = scatter_of(load_scenario(name).spec)
    assert known.reasons == () and 0.005 <= known.sigma < 0.05
    changes = (
        ["system.machine.ipu.clock=3 GHz"],
        ["system.machine.ipu_link.bandwidth_per_direction=64 GB/s"],
        ["system=ipu_pod256", "system.machine_count=256", "parallelism.replication_factor=128"],
    )
    for overrides in changes:
        found = scatter_of(load_scenario(name, overrides=overrides).spec)
        assert found.sigma > known.sigma and len(found.reasons) == 1, overrides


def test_a_chip_of_another_name_and_the_same_numbers_is_known() -> None:
    name = "bert_v1.1_pod64_open"
    renamed = load_scenario(name, overrides=["system.machine.ipu.name=Renamed"]).spec
    assert scatter_of(renamed) == scatter_of(load_scenario(name).spec)


def test_a_stack_that_says_its_scatter_is_believed() -> None:
    spec = load_scenario("bert_v1.1_pod64_open", overrides=["software.model_scatter=5 %"]).spec
    assert scatter_of(spec).sigma == 0.05


def test_the_table_that_ships_follows_from_the_rows_that_ship() -> None:
    found = shipped()
    assert as_plain(found)["table"] == json.loads(json.dumps(as_plain(found)["table"]))
    again = found.table(found.points)
    for activity, covered in table().covered.items():
        assert again.covered[activity].base == pytest.approx(dict(covered.base), rel=1e-4)
    assert {kind: pytest.approx(dict(steps), rel=1e-4) for kind, steps in again.steps.items()} == table().steps


def test_ranges_of_the_rest_hold_what_was_left_out() -> None:
    """All of PyTorch, of MLPerf v2.0, Bow, convolutional networks, pods above 64: four fifths.

    Give or take two standard errors of a count, as if all were independent.
    """
    held = left_out(shipped(), GROUPS)
    inside, count = sum(each.inside for each in held), sum(each.configurations for each in held)
    assert count > 60
    assert inside / count == pytest.approx(0.8, abs=2 * math.sqrt(0.8 * 0.2 / count))


def test_left_out_errors_are_larger_than_those_of_the_fit() -> None:
    every = together(left_out(shipped(), "stack"))
    assert every.sizes.mean > every.mean_now > 0


def test_pages_quote_the_errors_of_what_was_left_out() -> None:
    """`tools/update_readme.py` writes them, between markers of the section alone."""
    points = shipped()
    for page, written in ((CARD, left_out_by_stack(points)), (PAGE, left_out_in_parts(points))):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert renewed(text, LEFT_OUT, written) == text, page
    text = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb"
    assert renewed(text, "x", "new\n") == "a\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\nb"
    with pytest.raises(ValueError, match="no section between"):
        renewed(text, "y", "new")


@pytest.mark.parametrize("by", BY)
def test_errors_of_left_out_rows_are_printed(
    by: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["podsim", "calibrate", "--leave-out", by, "--format", "json"])
    with pytest.raises(SystemExit) as end:
        main()
    told = json.loads(capsys.readouterr().out)
    assert (end.value.code, told["left_out"]) == (0, by)
    assert by == GROUPS or len(told["rows"]) == len(shipped().points)
    assert sum(part["rows"] for part in told["groups"]) == len(told["rows"])
    sizes = [abs(each["error"]) for each in told["rows"]]
    assert told["mean_error"] == pytest.approx(sum(sizes) / len(sizes))


@pytest.mark.parametrize("output_format", ["csv", "markdown"])
def test_rows_are_printed_if_they_are_asked_for(
    output_format: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for arguments in ([], ["--rows"]):
        command = ["podsim", "calibrate", "--leave-out", "stack", "--format", output_format, *arguments]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit):
            main()
        told.append(capsys.readouterr().out)
    assert ["bert_v1.1_pod64_open" in each for each in told] == [False, True]
    assert "left out" in told[0] and "mean error" in told[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--leave-out", "pod"], "error: --leave-out: nothing is left out by `pod`\n  do: give one of configuration"),
        (["--rows"], "error: --rows shows rows that were left out\n  do: say of what: `--leave-out stack --rows`"),
        (["--leave-out", "stack", "--write", "x.yaml"], "error: --leave-out looks at the published rows of podsim"),
    ],
)
def test_what_cannot_be_left_out_is_told(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["podsim", "calibrate", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2 and capsys.readouterr().err.startswith(told)
