"""`podsim calibrate --with`: a constant moved by hand, constants found again, the stack that is written, bad files."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import podsim
from podsim.cli.app import main
from podsim.errors import PodsimError
from podsim.result.influence import Measure
from podsim.scenario import load_scenario
from podsim.scenario.csv_file import Row
from podsim.scenario.scenario import Scenario
from podsim.scenario.training import TrainingScenario
from podsim.show.text import report_as_text
from podsim.validation import cluster
from podsim.validation.cluster import Modelled, fit_cluster
from podsim.validation.fit import Fit, correlated, correlated_pairs, least_squares
from podsim.validation.measurements import Measurement, read_measurements
from tools import refit

POD16, POD64 = "bert_v1.1_pod16_open", "bert_v1.1_pod64_open"
HEADER = "scenario,metric,value,unit,source"
CALL, UNEXPLAINED = "software.host_call", "software.unexplained_cycles_per_byte"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """`podsim calibrate` in an empty folder: exit code, output and what is said beside it."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["podsim", "calibrate", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run


# The fit


class Call:
    """A run of a second and a session call."""

    metric = "weight_update_s"

    def __call__(self, spec: Scenario, *, resplit: bool) -> Measure:
        assert isinstance(spec, TrainingScenario)
        time_s = 1 + float(spec.software.host_call_s)
        return Measure(time_s, time_s, {"weight_update_s": time_s, "throughput_samples_per_s": 1 / time_s})


def measured(figure: str, value: float, error: float) -> Measurement:
    row = Row("mine.csv:2", dict.fromkeys(HEADER.split(","), ""))
    return Measurement(row, POD64, (), figure, value, f"{value} s", "our logs", error)


@pytest.mark.parametrize("figure", ["weight_update_s", "throughput_samples_per_s"])
def test_a_measurement_moves_a_constant_by_what_both_are_worth(figure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call lies in a symmetric triangle of 35 ms either way: its standard deviation is 35/√6 = 14.3 ms.

    A second and 235 ms with the same standard error has as much to say: the call goes half of the way from 135 ms,
    and what is left of its error is 1/√2.
    """
    spread_s, time_s = 0.035 / math.sqrt(6), 1.235
    call = f"{CALL}={{value: 135 ms, source: estimate, basis: calibrated, range: [100 ms, 170 ms]}}"
    loaded = load_scenario(POD64, overrides=[call, "software.model_scatter=0"])
    monkeypatch.setattr(cluster, "_model", lambda each: Modelled(each, loaded, loaded.spec, Call()))
    value = time_s if figure == "weight_update_s" else 1 / time_s
    found = fit_cluster([measured(figure, value, spread_s / time_s)], list)
    (fit,) = found.fits
    assert (fit.key, fit.committed) == (CALL, 0.135)
    assert fit.fitted == pytest.approx(0.185)
    assert fit.standard_error == pytest.approx(spread_s / math.sqrt(2))
    (row,) = found.rows
    sign = 1 if figure == "weight_update_s" else -1
    assert (1 + row.before) ** sign == pytest.approx(1.135 / 1.235)
    assert (1 + row.after) ** sign == pytest.approx(1.185 / 1.235)


def test_measurements_that_agree_with_other_constants_find_them(tmp_path: Path) -> None:
    """Weight updates of two pods made with 60 unexplained cycles a byte and a call of 150 ms, with hardly any error."""
    changed = [f"{CALL}=150 ms", f"{UNEXPLAINED}=60"]
    lines = [
        f"{name},weight_update,{podsim.simulate(name, overrides=changed).weight_update_s},s,made up,{sure}"
        for name, sure in ((POD16, "1e-6,software.model_scatter=0"), (POD64, "1e-6,software.model_scatter=0"))
    ]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join([f"{HEADER},standard_error,overrides", *lines]), encoding="utf-8")
    found = fit_cluster(read_measurements(path), list)
    assert {fit.key: fit.fitted for fit in found.fits} == pytest.approx({CALL: 0.15, UNEXPLAINED: 60}, rel=1e-3)
    assert all(abs(row.after) < 1e-4 < abs(row.before) for row in found.rows)


def test_a_constant_below_zero_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_scenario(POD64)
    monkeypatch.setattr(cluster, "_model", lambda each: Modelled(each, loaded, loaded.spec, Call()))
    with pytest.raises(PodsimError, match=r"ask for a software.host_call of -") as caught:
        fit_cluster([measured("weight_update_s", 0.1, 1e-6)], list)
    assert "check the units" in str(caught.value)


# Correlations


def test_constants_that_rows_cannot_tell_apart_are_named() -> None:
    """Two equations in nearly the same direction: (1, 1) and (1, 1.01)."""
    solution = least_squares([[1, 1], [1, 1.01]], [1, 1], [1, 1])
    fits = correlated([Fit("a", 1, 1, "s", ""), Fit("b", 1, 1, "s", "")], solution)
    ((one, other, correlation),) = correlated_pairs(fits)
    assert (one, other) == ("a", "b") and correlation < -0.9999
    apart = correlated(fits, least_squares([[1, 1], [1, -1]], [1, 1], [1, 1]))
    assert list(correlated_pairs(apart)) == [] and apart[0].correlations == (("b", pytest.approx(0)),)


def test_correlations_need_no_more_rows_than_constants() -> None:
    """(AᵀA)⁻¹ = ((5, -3), (-3, 2)) of the rows (1, 1) and (1, 2): -3/√10."""
    found = least_squares([[1, 1], [1, 2]], [3, 5], [1, 1])
    assert found.standard_errors == (None, None)
    assert found.correlations[0][1] == pytest.approx(-3 / math.sqrt(10))


def test_what_goes_together_is_told() -> None:
    pair = (
        Fit("a", 1, 2, "s", "X", 0.1, (("b", -0.97),), configurations=3, constants=2),
        Fit("b", 3, 4, "s", "X", None, (("a", -0.97),), configurations=4, constants=2),
    )
    refitted = refit.Refitted(pair)
    told = " ".join(report_as_text(refitted.report(), 200).split())
    # Three configurations are one too few for two constants, four are enough.
    assert "a 1 2 0.1 s 3 2 not" in told
    assert "b 3 4 s 4 2 yes X" in told
    assert "correlation of a and b: -0.97" in told
    assert "warning: the rows cannot tell a and b apart (-0.970): trust both together only" in told
    report = json.loads(refitted.to_json())
    assert report["constants"][0]["correlations"] == {"b": -0.97}
    assert [each["is_identified"] for each in report["constants"]] == [False, True]
    assert report["alike"] == [{"constants": ["a", "b"], "correlation": -0.97}]


# The file that is written


def test_the_stack_that_is_written_gives_what_was_fitted(command: Command) -> None:
    Path("mine.csv").write_text(
        f'{HEADER},standard_error\n{POD16},weight_update,2.2,s,"logs, three: runs",0.02\n', encoding="utf-8"
    )
    code, out, err = command("--with", "mine.csv", "--write", "mine.yaml", "--format", "json")
    assert code == 0 and err.startswith("wrote mine.yaml")
    report = json.loads(out)
    fitted = {each["key"]: each for each in report["constants"]}
    assert set(fitted) == {CALL, UNEXPLAINED}
    stack = YAML(typ="safe").load(Path("mine.yaml"))
    assert set(stack) == {"kind", "base", "name", "host_call", "unexplained_cycles_per_byte"}
    assert stack["base"] == "popart_sdk_2.3"
    call = stack["host_call"]
    assert (call["basis"], call["source"]) == ("calibrated", "logs, three: runs")
    assert "standard error" in call["note"] and "104 ms before" in call["note"]
    assert call["value"] == f"{1000 * fitted[CALL]['fitted']:.4g} ms"
    result = podsim.simulate(POD16, overrides=["software=mine.yaml"])
    (row,) = report["measurements"]
    assert result.weight_update_s / 2.2 - 1 == pytest.approx(row["error_after"], abs=1e-4)
    assert abs(row["error_after"]) < abs(row["error_before"])
    assert command("--with", "mine.csv", "--write", "mine.yaml")[0] == 2  # it exists
    assert command("--with", "mine.csv", "--write", "mine.yaml", "--force")[0] == 0


def test_a_stack_is_derived_from_the_one_that_was_written(command: Command) -> None:
    Path("mine.csv").write_text(f"{HEADER}\n{POD16},weight_update,2.2,s,logs\n", encoding="utf-8")
    assert command("--with", "mine.csv", "--write", "one.yaml")[0] == 0
    Path("again.csv").write_text(
        f"{HEADER},overrides\n{POD16},weight_update,2.3,s,logs,software=one.yaml\n", encoding="utf-8"
    )
    assert command("--with", "again.csv", "--write", "two.yaml")[0] == 0
    assert YAML(typ="safe").load(Path("two.yaml"))["base"] == "one.yaml"
    changed = [f"software={name}.yaml" for name in ("one", "two")]
    one, two = (podsim.simulate(POD16, overrides=[each]).weight_update_s for each in changed)
    assert one < two < 2.3


def test_a_row_that_no_constant_accounts_for_is_named(command: Command) -> None:
    Path("mine.csv").write_text(f"{HEADER}\n{POD64},weight_update,3,s,logs\n", encoding="utf-8")
    code, out, _ = command("--with", "mine.csv")
    assert code == 0
    told = " ".join(out.split())
    assert "warning: mine.csv:2 stays -" in told and "check its unit" in told


# Bad files

ROW = f"{POD64},weight_update,640,ms,logs"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "",
            "mine.csv:1:1: columns `scenario`, `metric`, `value`, `unit`, `source` not found\n  do: let the first",
        ),
        (HEADER, "mine.csv:1:1: there are no rows\n  do: add a line"),
        (
            "scenario,metric,value,unit\n",
            "mine.csv:1:1: column `source` not found\n  do: let the first line be scenario,",
        ),
        (f"{HEADER},sigma\n{ROW},1", "mine.csv:1:6: column `sigma` is not known\n  do: "),
        (f"{HEADER},standard_eror\n{ROW},1", "mine.csv:1:6: column `standard_eror` is not known\n  do: did you mean"),
        (f"{HEADER},value\n{ROW},1", "mine.csv:1:6 [value]: this column is there twice\n  do: remove one"),
        (f"{HEADER}\n{POD64},weight_update,640,ms", "mine.csv:2:1: has 4 values, not 5\n  do: give one value"),
        (
            f"{HEADER}\n{POD64},weight_update,640,,logs",
            "mine.csv:2:4 [unit]: unit nothing does not fit `weight_update`\n  do: write for example",
        ),
        (
            f"{HEADER}\n{POD64},weight_update,640,samples/s,logs",
            "mine.csv:2:4 [unit]: unit `samples/s` does not fit `weight_update`\n  do: write for example `ms`",
        ),
        (f"{HEADER}\n{POD64},throughput,640,ms,logs", "mine.csv:2:4 [unit]: unit `ms` does not fit `throughput`"),
        (f"{HEADER}\n{POD64},weight_update,640,ms,", "mine.csv:2:5 [source]: is empty\n  do: say who measured it"),
        (f"{HEADER}\n,weight_update,640,ms,logs", "mine.csv:2:1 [scenario]: is empty\n  do: name the scenario"),
        (f"{HEADER}\n{POD64},weight_updat,1,ms,logs", "mine.csv:2:2 [metric]: `weight_updat` is not known\n  do: did"),
        (f"{HEADER}\n{POD64},weight_update,fast,ms,logs", "mine.csv:2:3 [value]: needs a number above 0, not `fast`"),
        (f"{HEADER}\n{POD64},weight_update,-640,ms,logs", "mine.csv:2:3 [value]: needs a number above 0, not `-640`"),
        (f"{HEADER}\n{POD64},weight_update,nan,ms,logs", "mine.csv:2:3 [value]: needs a number above 0, not `nan`"),
        (f"{HEADER}\n{POD64},weight_update,0,ms,logs", "mine.csv:2:3 [value]: needs a number above 0, not `0`"),
        (
            f"{HEADER},standard_error\n{ROW},-1",
            "mine.csv:2:6 [standard_error]: needs a number above 0, not `-1`\n  do: write for example `0.2`",
        ),
        (
            f"{HEADER}\n{ROW}\n{ROW}",
            "mine.csv:3:1 [scenario]: the same was measured at mine.csv:2\n  do: give",
        ),
        (
            f'{HEADER}\n{POD64},weight_update,640,ms,"logs',
            "mine.csv:2:1: cannot be read: unexpected end of data\n  do: ",
        ),
        (
            f"{HEADER}\nbert_v9,weight_update,640,ms,logs",
            "mine.csv:2:1 [scenario]: no scenario `bert_v9` was found\n  do: ",
        ),
        (
            f"{HEADER}\n{POD64}@fast,weight_update,640,ms,logs",
            "mine.csv:2:1 [scenario]: scenarios/mlperf/bert_v1.1_pod64_open.yaml:1:1 [variants]: there is no variant "
            "`fast`\n  do: write the scenario alone, or one of its variants behind `@`",
        ),
        (
            f"{HEADER},overrides\n{ROW},software.host_cal=1 ms",
            "mine.csv:2:6 [overrides]: --set software.host_cal=1 ms [software]: unknown key `host_cal`\n  do: "
            "did you mean `host_call`?",
        ),
        (
            f"{HEADER},overrides\n{ROW},parallelism.recomputation=none",
            "mine.csv:2:6 [overrides]: --set parallelism.recomputation=none [parallelism]: IPU 3 of each ",
        ),
        (
            f"{HEADER}\ngpt2_small_pod4,time_to_train,1,h,logs",
            "mine.csv:2:1 [scenario]: gpt2_small_pod4 has no time_to_train_s to compare with\n  do: measure one",
        ),
        (
            f"{HEADER}\n{ROW}\nresnet50_v1.1_pod16,throughput,1,images/s,logs",
            "mine.csv:3:1 [scenario]: this runs on TensorFlow 1, SDK 2.3, not PopART, SDK 2.3 as the scenario of "
            "mine.csv:2\n  do: keep the measurements of each stack in a file",
        ),
    ],
)
def test_what_is_no_measurement_is_told_with_its_place(text: str, told: str, command: Command) -> None:
    Path("mine.csv").write_text(text, encoding="utf-8")
    code, out, err = command("--with", "mine.csv")
    assert (code, out) == (2, "") and err.startswith(f"error: {told}"), err
    assert "\n  do: " in err


def test_every_bad_row_is_told(command: Command) -> None:
    Path("mine.csv").write_text(f"{HEADER}\na,b,c,d,e\n{POD64},weight_update,x,ms,logs\n", encoding="utf-8")
    err = command("--with", "mine.csv")[2]
    assert "mine.csv:2:2 [metric]" in err and "mine.csv:3:3 [value]" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--write", "mine.yaml"], "error: podsim calibrate needs --with, which is missing"),
        (["--with", "none.csv"], "error: none.csv:1:1: the file cannot be read: No such file or directory\n  do: "),
        (["--with", "."], "error: .:1:1: this is a folder, not a file\n  do: name a file in it"),
        (["--with", "mine.csv", "--write", "mine.csv"], "error: "),
    ],
)
def test_files_that_cannot_be_used_are_told(arguments: list[str], told: str, command: Command) -> None:
    Path("mine.csv").write_text(f"{HEADER}\n{ROW}\n", encoding="utf-8")
    code, out, err = command(*arguments)
    assert (code, out) == (2, "") and err.startswith(told) and "\n  do: " in err
    assert Path("mine.csv").read_text(encoding="utf-8").startswith(HEADER)


def test_a_file_that_is_no_text_is_told(command: Command) -> None:
    Path("mine.csv").write_bytes(HEADER.encode() + b"\n\xff\xfe")
    assert command("--with", "mine.csv")[2].startswith("error: mine.csv:2:1: the file is not text in UTF-8")


def test_a_stack_that_a_scenario_describes_cannot_be_derived_from(command: Command) -> None:
    Path("mine.csv").write_text(f"{HEADER},overrides\n{ROW},software.setup=1 s\n", encoding="utf-8")
    code, _, err = command("--with", "mine.csv", "--write", "mine.yaml")
    assert code == 2 and "keys of a software stack of its own" in err and not Path("mine.yaml").exists()
