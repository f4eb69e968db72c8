"""`podsim validate`: what is shown of comparisons, and limits on their errors."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from podsim.cli.app import main
from podsim.report.table import Table, columns
from podsim.show.text import WIDTH, to_text
from podsim.validation import compare
from podsim.validation.comparison import Blind, NotRun, RowComparison, Validation, summarize, verdicts_on
from podsim.validation.show import figure

FITTED = RowComparison("weight update of A", "fitted", 101.0, 100.0, "ms", "calibration", "logs")
CLOSE = RowComparison("weight update of A", "close", 104.0, 100.0, "ms", "hold-out", "logs")
FAR = RowComparison(
    "throughput of B", "far", 80.0, 100.0, "1/s", "hold-out", "logs", blind=(Blind("far", 70.0, "", "0.1.0"),)
)
MISSING = NotRun("throughput of B", "missing", 100.0, "1/s", "hold-out", "logs", "it does not fit")
FOUND = Validation((FITTED, CLOSE, FAR), (MISSING,))

Validate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def validate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Validate:
    """The command on four rows: exit code, output and what is said beside it."""

    def run(*arguments: str, rows: Sequence[RowComparison] = ()) -> tuple[int, str, str]:
        found = Validation(tuple(rows), ()) if rows else FOUND
        monkeypatch.setattr(compare, "validation", lambda progress: found)
        monkeypatch.setattr(sys, "argv", ["podsim", "validate", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        output = capsys.readouterr()
        return int(end.value.code or 0), output.out, output.err

    return run


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--max-mean", "8.4"], 0),  # 1, 4 and 20 %: 25 % over three rows
        (["--max-mean", "8.3"], 4),
        (["--max-worst", "20"], 0),
        (["--max-worst", "19.9"], 4),
        (["--max-mean", "8.4", "--max-worst", "19.9"], 4),
        (["--max-mean", "11.9", "--role", "hold_out"], 4),  # 4 and 20 %
        (["--max-worst", "1.1", "--role", "calibration"], 0),
        (["--max-worst", "4.1", "--group", "Weight Update"], 0),
        (["--max-worst", "4", "--group", "weight", "--group", "throughput"], 4),
    ],
)
def test_limits_hold_for_the_rows_that_are_asked_for(validate: Validate, arguments: list[str], code: int) -> None:
    assert validate("--summary", *arguments)[0] == code


def test_the_verdict_names_the_row_that_is_furthest_off(validate: Validate) -> None:
    _, out, _ = validate("--role", "hold_out", "--max-mean", "15", "--max-worst", "15")
    assert out.endswith(
        "mean error 12.0% (2 rows): within 15%\n\nworst error -20.0% (throughput of B, far): beyond 15%\n"
    )


def test_calibration_and_hold_out_stand_apart_and_every_row_is_shown(validate: Validate) -> None:
    _, out, _ = validate("--role", "hold_out")
    assert "Calibration" not in out and "fitted" not in out.replace("is fitted to", "")
    _, out, _ = validate()
    calibration, rest = out.split("Hold-out: ")
    assert "fitted  " in calibration and "close" not in calibration
    hold_out, rest = rest.split("Blind: ")
    assert "close" in hold_out and "far" in hold_out
    blind, rest = rest.split("Published figures without a prediction")
    assert "-30.0%" in blind and "-20.0%" in blind
    assert "it does not fit" in rest.split("Summary")[0]


def test_an_error_beyond_twice_the_uncertainty_of_the_data_is_marked(validate: Validate) -> None:
    """4 % of error: twice 1.9 % do not explain it, twice 2.1 % do."""
    at = [replace(CLOSE, name=name, uncertainty=share) for name, share in (("sharp", 0.019), ("blunt", 0.021))]
    assert [row.is_beyond() for row in (*at, CLOSE)] == [True, False, None]
    assert at[0].is_beyond(0.0063) is False and at[0].is_beyond(0.0062) is True  # 2.0017 and 1.9986 %
    _, out, _ = validate(rows=(*at, CLOSE))
    lines = {line.split()[0]: line.split()[-2:] for line in out.splitlines() if line.startswith(("sharp", "blunt"))}
    assert lines == {"sharp": ["3.8%", "no"], "blunt": ["4.2%", "yes"]}
    assert summarize((*at, CLOSE))[0].beyond == 1
    _, out, _ = validate("--format", "json", rows=(*at, CLOSE))
    assert [row["is_beyond_data"] for row in json.loads(out)["comparisons"]] == [True, False, None]


def test_rows_of_one_configuration_count_once_beside_rows() -> None:
    rows = [replace(CLOSE, name=name, configuration=run) for name, run in (("a", "x"), ("b", "x"), ("c", "y"))]
    (found,) = summarize(rows)
    assert (found.count, found.configurations) == (3, 2)
    (unnamed,) = summarize([replace(row, configuration="") for row in rows])
    assert unnamed.configurations == 3


def test_blind_predictions_say_which_version_made_them_and_of_what(validate: Validate) -> None:
    made = Blind("FAR-1", 150.0, "as it was run", "0.6.0"), Blind("FAR-1", 90.0, "otherwise", "0.11.0")
    _, out, _ = validate(rows=(replace(FAR, blind=made),))
    _, _, table = out.partition("Blind: ")
    found = [line.split() for line in table.splitlines() if "FAR-1" in line]
    assert [(words[0], words[-2]) for words in found] == [("0.6.0", "+50.0%"), ("0.11.0", "-10.0%")]


def test_the_summary_alone_has_no_rows(validate: Validate) -> None:
    _, out, _ = validate("--summary")
    assert "close" not in out and "\n\nSummary\n" in out
    _, out, _ = validate("--summary", "--format", "json")
    assert list(json.loads(out)) == ["summary"]


def test_json_has_rows_with_and_without_prediction_and_limits(validate: Validate) -> None:
    code, out, _ = validate("--format", "json", "--group", "B", "--max-worst", "10")
    report = json.loads(out)
    assert code == 4
    assert [(row["name"], row["error"], row["blind"][0]["predicted"]) for row in report["comparisons"]] == [
        ("far", pytest.approx(-0.2), 70.0)
    ]
    assert [(row["name"], row["reason"]) for row in report["not_run"]] == [("missing", "it does not fit")]
    assert [(each["what"], each["limit"], each["is_kept"]) for each in report["limits"]] == [
        ("worst error", 0.1, False)
    ]


def test_csv_has_every_row_with_its_group_and_role(validate: Validate) -> None:
    """Errors of 1, 4 and -20 %; twice 2.5 % of uncertainty is 5 %."""
    code, out, _ = validate("--format", "csv", rows=(FITTED, replace(CLOSE, uncertainty=0.025), FAR))
    head, *rows = list(csv.reader(out.splitlines()))
    assert (code, head[:7]) == (0, ["group", "row", "predicted", "published", "unit", "error", "data"])
    assert [row[:5] + row[7:] for row in rows] == [
        ["weight update of A", "fitted", "101.0", "100.0", "ms", "", "calibration"],
        ["weight update of A", "close", "104.0", "100.0", "ms", "yes", "hold-out"],
        ["throughput of B", "far", "80.0", "100.0", "1/s", "", "hold-out"],
    ]
    assert [float(row[5]) for row in rows] == pytest.approx([0.01, 0.04, -0.2])
    assert [row[6] for row in rows] == ["", "0.05", ""]
    _, out, _ = validate("--format", "csv", "--summary")
    assert out.startswith("level,group,role,rows,configurations,bias,")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--group", "nothing"],
            "error: no row with a prediction is left\n"
            "  do: leave `--role` out, or `--group` with part of: weight update of A, throughput of B\n",
        ),
        (["--max-mean", "nan"], "error: --max-mean: `nan` is no percentage\n  do: write `--max-mean 5` for 5 %\n"),
        (["--max-worst", "inf"], "error: --max-worst: `inf` is no percentage\n  do: write `--max-worst 5` for 5 %\n"),
    ],
)
def test_what_cannot_be_asked_is_told(validate: Validate, arguments: list[str], told: str) -> None:
    assert validate(*arguments) == (2, "", told)


@pytest.mark.parametrize("arguments", [["--max-mean", "-1"], ["--role", "blind"]])
def test_what_the_options_do_not_take_is_refused(validate: Validate, arguments: list[str]) -> None:
    code, out, err = validate(*arguments)
    assert (code, out) == (2, "") and err.startswith(f"error: {arguments[0]}")


def test_a_table_stays_within_a_terminal() -> None:
    long = "LONG-001: a_scenario_with_a_long_name@a_variant_with_a_long_name"
    text = to_text(Table(columns("row", ">predicted", "why"), [("group",), (long, "1,234", "words " * 20)]))
    assert max(map(len, text.splitlines())) == WIDTH
    cells = [(line[:40] + " ").split("  ")[0].strip() for line in text.splitlines()[3:]]
    assert "".join(cells) == long
    assert text.count("words") == 20


def test_figures_have_four_digits() -> None:
    assert [str(figure(value)) for value in (0.86597, 27.8654, 631.79, 12686.3, -157.6)] == [
        "0.866",
        "27.87",
        "631.8",
        "12,686",
        "-157.6",
    ]


def test_limits_that_are_not_given_are_not_judged() -> None:
    assert verdicts_on([CLOSE], None, None) == ()
