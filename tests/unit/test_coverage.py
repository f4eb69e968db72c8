"""`podsim validate --coverage`: ranges of runs whose origin is left out, by hand; what was chosen."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from podsim.cli.app import main
from podsim.draws import Z
from podsim.result.evidence import Compared, Residuals, interval_score, residuals
from podsim.show.markdown import report_as_markdown
from podsim.show.text import report_as_text
from podsim.validation.comparison import RowComparison
from podsim.validation.coverage import (
    SIGMAS,
    TARGET,
    constant_sigma,
    coverage,
    left_out_runs,
    mean_sigma,
    share_of,
    without_origin,
)
from podsim.validation.identifiability import MOST_OF_NOISE, identifiability
from podsim.validation.show import RangesHeld
from tools.make_residuals import derived, plain_of

POD64 = "bert_v1.1_pod64_open"


def compared(origin: str, error: float, configuration: str = "one", variance: float = 0.0) -> Compared:
    names = {"activity": "training", "stack": "PopART", "family": "bert"}
    return Compared(
        f"{origin} {error}", origin, configuration, "hold-out", names, {"ipu_count": 4.0}, error, variance, 1.0
    )


TABLE = Residuals(
    (
        compared("logs", 0.05),
        compared("paper", 0.1),
        compared("paper", 0.3, variance=0.01),
        compared("blog", 0.2, "two"),
    ),
)
NORMAL = math.sqrt(math.pi / 2)
"""Standard deviation of normal errors whose mean size is 1."""
"""The rows of the paper share a configuration."""


def test_an_origin_is_left_out_whole() -> None:
    """For logs: (0.1 + 0.3) / 2, as they share one, and 0.2; for the paper 0.05 and 0.2; for the blog 0.05 and 0.2."""
    sigmas = [each.sigma for each in left_out_runs(TABLE)]
    expected = [NORMAL * 0.2, NORMAL * 0.125, math.hypot(NORMAL * 0.125, 0.1), NORMAL * 0.125]
    assert sigmas == pytest.approx(expected)
    assert [run.origin for run in without_origin(TABLE, "paper").runs] == ["logs", "blog"]


def test_shares_widths_and_scores_by_hand() -> None:
    """Halves of ranges: 0.321, 0.201, 0.238 and 0.201; outside is 0.3, by 0.062."""
    found = coverage(TABLE)
    assert [run.is_inside for run in found.runs] == [True, True, False, True]
    halves = [Z * NORMAL * 0.2, Z * NORMAL * 0.125, Z * math.hypot(NORMAL * 0.125, 0.1), Z * NORMAL * 0.125]
    total = found.total
    assert (total.rows, total.configurations) == (4, 3)
    assert total.inside == pytest.approx((1 + 0.5 + 1) / 3)
    assert total.mean_error == pytest.approx((0.05 + 0.2 + 0.2) / 3)
    assert total.width == pytest.approx((2 * halves[0] + halves[1] + halves[2] + 2 * halves[3]) / 3)
    missed = 5 * (0.3 - halves[2]) / 3
    assert total.score == pytest.approx(total.width + missed)
    assert [each.run.error for each in found.outside] == [0.3]
    assert found.error_of_share == pytest.approx(math.sqrt(0.8 * 0.2 / 3))


def test_a_constant_band_is_chosen_from_the_others() -> None:
    """Of ten errors of 0.1 and one of 0.2: it ends where the ten do, as it would be too wide for them."""
    runs = [compared(str(number), 0.1, str(number)) for number in range(10)]
    found = constant_sigma([*runs, compared("far", 0.2, "far")])
    assert found == min(SIGMAS, key=lambda sigma: abs(Z * sigma - 0.1))


def test_a_score_has_ten_times_what_is_missed() -> None:
    assert interval_score(0.1, 0.12816 + 0.01) == pytest.approx(0.25632 + 0.1)
    assert share_of("none is missed", left_out_runs(TABLE)[:1]).score == pytest.approx(2 * Z * NORMAL * 0.2)


def test_changes_are_off_by_a_share_that_pairs_show() -> None:
    """Sixteen times the IPUs, e times as fast; the error differs by 0.1282, of which a share of 0.1 is 1.2816 sigma."""
    one = compared("logs", 0.0)
    names, sizes = one.names, {"ipu_count": 64.0}
    other = Compared("64", "logs", "more", "hold-out", names, sizes, 0.1281, 0.0, math.exp(-1))
    assert derived([one, replace(other, origin="paper")]).change == pytest.approx(0.1)


def test_what_ships_follows_from_its_rows() -> None:
    found = plain_of(residuals().runs)
    assert found["other_activity"] == residuals().other_activity
    assert found["step"] == pytest.approx(residuals().step, rel=1e-4)
    assert found["change"] == pytest.approx(residuals().change)


def test_ranges_hold_what_they_promise_and_are_no_wider_than_constant_bands() -> None:
    """Of known rows four in five at least; the score is at most 5 % above that of any band of constant width."""
    found = coverage(residuals())
    assert found.total.inside >= TARGET[0] - found.error_of_share
    assert all(found.total.score < 1.05 * band.score for band in found.bands)


def test_a_band_has_the_mean_size_of_the_errors_of_others() -> None:
    """For logs (0.2 + 0.2) / 2 of paper and blog; for the blog (0.05 + 0.2) / 2 of logs and paper."""
    rows = [replace(run, known_variance=0.0) for run in TABLE.runs]
    assert mean_sigma(rows[1:]) == pytest.approx(NORMAL * 0.2)
    assert mean_sigma(rows[:3]) == pytest.approx(NORMAL * 0.125)


@pytest.mark.slow
def test_what_is_chosen_from_all_rows_flatters_little() -> None:
    """Weights and step that are chosen anew without each origin: a tenth more at most."""
    table, found = residuals(), []
    for origin in dict.fromkeys(run.origin for run in table.runs):
        plain = plain_of(without_origin(table, origin).runs)
        anew = Residuals(table.runs, plain["other_activity"], plain["step"])
        found += [each for each in left_out_runs(anew) if each.run.origin == origin]
    assert share_of("", found).score < 1.1 * coverage(table).total.score


def test_the_output_has_origins_all_and_bands() -> None:
    found = coverage(TABLE)
    text, report = report_as_text(RangesHeld(found).report()), json.loads(RangesHeld(found).to_json())
    assert text.index("logs") < text.index("all") < text.index("one band for all") < text.index("a band for each stack")
    assert "80% to 100% of configurations should be inside, ± 23% for their number" in text
    assert report["total"]["score"] == pytest.approx(found.total.score)
    assert [each["is_inside"] for each in report["rows"]] == [True, True, False, True]
    assert "| logs | 1 | 1 | 100% | 5.0% |" in report_as_markdown(RangesHeld(found).report())


def test_configurations_that_differ_in_name_alone_count_once(tmp_path: Path) -> None:
    """Two files of one network, and a third on another pod."""
    titles = []
    for name, system in (("one", "ipu_pod4"), ("two", "ipu_pod4"), ("three", "bow_pod4")):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"base: e5_large_pod4\ndescription: {name}\nsystem: {system}\n", encoding="utf-8")
        titles.append(str(path))
    rows = [RowComparison("A", title, 1.0, 1.0, "s", "hold-out", "logs", (), (title,)) for title in titles]
    both = [*rows, RowComparison("B", "two", 1.0, 1.0, "s", "calibration", "logs", (), (titles[1],))]
    found = identifiability(both)
    assert found.configurations == {"hold-out": 2, "calibration": 1}
    assert found.shared == 1


def test_what_was_chosen_for_one_stack_is_no_switch() -> None:
    row = RowComparison("A", POD64, 1.0, 1.0, "s", "hold-out", "logs", (), (POD64,))
    other = RowComparison("A", "b", 1.0, 1.0, "s", "hold-out", "logs", (), ("bert_v2.0_pod64_closed",))
    assert identifiability([row]).switches == ()
    assert identifiability([row, other]).switches == ("software.collectives_merged", "software.evaluation")
    assert "software.host_call = 104 ms" in identifiability([row]).fitted["update or pass"]


def test_the_card_says_how_many_constants_are_fitted() -> None:
    """Counted in the files of all shipped specifications; those of noise move no time without it."""
    root = Path(__file__).resolve().parent.parent.parent
    stacks = [YAML(typ="safe").load(path) for path in (root / "hardware_specs").rglob("*.yaml")]
    fitted, of_noise = (
        {(key, str(each.get("value")), each["source"]) for stack in stacks for key, each in calibrated(part(stack))}
        for part in (lambda stack: {**stack, "noise": None}, lambda stack: stack.get("noise"))
    )
    in_tables = {found for found in fitted if found[1] == "None"}
    card = (root / "docs/model-card.md").read_text(encoding="utf-8")
    assert f"| fitted constants | {len(fitted)} | {len(in_tables)} of them in tables of cycles of vertices |" in card
    assert {key for key, _, _ in in_tables} == {
        *("call.word_copy.found", "call.word_copy.added", "call.word_copy.summed"),
        *("gather.divide", "elementwise.cast"),
    }
    assert 0 < len(of_noise) <= MOST_OF_NOISE == 7


def calibrated(node: object, name: str = "") -> list[tuple[str, dict[str, object]]]:
    if not isinstance(node, dict):
        return []
    own = [(name, node)] if node.get("basis") == "calibrated" else []
    return own + [found for key, each in node.items() for found in calibrated(each, str(key))]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--coverage", "--max-mean", "5"], "error: --coverage looks at ranges, not at errors, and goes with --format"),
        (["--coverage", "--group", "AMP"], "error: --coverage looks at ranges, not at errors, and goes with --format"),
    ],
)
def test_what_cannot_be_covered_is_told(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["podsim", "validate", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and err.startswith(told)
