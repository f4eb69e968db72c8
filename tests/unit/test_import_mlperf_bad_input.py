"""Result files that cannot be compared: what is wrong, where, and what to do, never a traceback."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from podsim.errors import PodsimError
from tests.cases import every_case
from tests.unit.mlperf_logs import BERT, RESNET, changed, line, text, without
from tools.mlperf.compare import compare_logs, matching_scenario
from tools.mlperf.logged import logged, read_log
from tools.truth import main

GOOD = text(BERT)
SECOND = text((key, time_s + 1000, value) for key, time_s, value in BERT)
FOLLOWED = len(BERT)
"""Lines of one run."""

CASES = {
    "cut between lines": (text(BERT[:12]), ":12: the log ends without `run_stop`: the run that starts on line 7"),
    "cut in a line": (GOOD[:-30], f":{FOLLOWED}:"),
    "no line of the logger": ("epoch 1\nepoch 2\n", ": no line of the file begins with `:::MLLOG`"),
    "empty": ("", ": no line of the file begins with `:::MLLOG`"),
    "no JSON": (GOOD.replace('"value": "bert"', '"value": bert', 1), ":1:68: behind `:::MLLOG` there is no JSON"),
    "no object": (":::MLLOG [1]\n", ":1:10: the line has no `key`"),
    "many levels": (f":::MLLOG {'[' * 100_000}\n\n", ":1:9: behind `:::MLLOG` there is no JSON: too many levels"),
    "no time": (GOOD.replace('"time_ms": 0', '"time_ms": NaN', 1), ":1:13: `time_ms` of `submission_benchmark`"),
    "a long time": (GOOD.replace('"time_ms": 0', f'"time_ms": {"9" * 400}', 1), ":1:13: `time_ms` of"),
    "two runs": (GOOD + SECOND, f":{FOLLOWED + 7}: a second run starts here, the first one on line 7"),
    "cut, then another": (text(BERT[:12]) + SECOND, ":19: a second run starts here, the first one on line 7"),
    "no run": (text(without(BERT, "run_start")), ": the log has no `run_start`"),
    "stops first": (text(changed(BERT)).replace("170500.0", "99000.0"), ": the run stops before it starts on line 7"),
    "block ends first": (GOOD.replace("169000", "141500", 1), ":14: `block_stop` lies before `block_start` on line 13"),
    "block without end": (text(each for each in BERT if each[:2] != ("block_stop", 140)), "which has no `block_stop`"),
    "unknown benchmark": (text(changed(BERT, submission_benchmark="ssd")), ":1: benchmark `ssd` is none that podsim"),
    "no benchmark": (text(without(BERT, "submission_benchmark")), ": the log does not say its benchmark"),
    "no batch": (text(without(BERT, "global_batch_size")), ": the log has no `global_batch_size`"),
    "batch of text": (text(changed(BERT, global_batch_size="x")), ":4: `global_batch_size` is not a whole number"),
    "no training": (text(without(BERT, "block_start")), ": the log has neither `block_start` nor `epoch_start`"),
    "unknown batch": (text(changed(BERT, global_batch_size=77)), ": no shipped scenario is of BERT-Large at batch"),
    "several scenarios": (
        text(changed(BERT, global_batch_size=3072, submission_platform="IPU-POD16")),
        ": 3 shipped scenarios are of BERT-Large at batch size 3,072",
    ),
    "another pod": (
        text(changed(BERT, submission_platform="Bow Pod512")),
        "--scenario bert_v2.0_pod64_closed",
    ),
}

Import = Callable[..., tuple[int, str]]


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Import:
    """`truth mlperf` in an empty folder: exit code and error."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["truth", "mlperf", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), capsys.readouterr().err

    return run


@pytest.mark.parametrize("case", CASES)
def test_bad_files_are_refused_with_place_and_cure(imported: Import, tmp_path: Path, case: str) -> None:
    content, expected = CASES[case]
    (tmp_path / "log.txt").write_text(content, encoding="utf-8")
    code, said = imported("log.txt")
    assert code == 2
    assert said.startswith("error: log.txt:")
    assert expected in said
    assert "\n  do: " in said


def test_what_cannot_be_read_is_refused(imported: Import, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "folder: this is a folder, not a file\n  do: name the files in it" in imported("folder")[1]
    assert "missing.txt: the file cannot be read: No such file" in imported("missing.txt")[1]
    assert "truth mlperf needs LOG" in imported()[1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["bert_v2.0_pod16_closed"], "use `--set parallelism.accumulation_factor=384`"),
        (["resnet50_v2.0_pod16"], "the log is of BERT-Large, and resnet50_v2.0_pod16 is not"),
        (["llama2_7b_pods"], "llama2_7b_pods trains nothing"),
        (["bert_v2.0_pod64_closed", "--set", "run=null"], "does not say how its run goes on"),
    ],
)
def test_a_scenario_that_does_not_go_with_the_log_is_refused(
    imported: Import, tmp_path: Path, options: list[str], expected: str
) -> None:
    (tmp_path / "log.txt").write_text(GOOD, encoding="utf-8")
    code, said = imported("log.txt", "--scenario", *options)
    assert (code, expected in said) == (2, True), said


def test_the_advice_about_the_batch_can_be_pasted(imported: Import, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(GOOD, encoding="utf-8")
    advice = ("--scenario", "bert_v2.0_pod16_closed", "--set", "parallelism.accumulation_factor=384")
    code, said = imported("log.txt", *advice)
    assert (code, said) == (0, "")


def test_a_log_in_epochs_is_not_compared_with_blocks(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(text(without(RESNET, "epoch_start", "epoch_stop")), encoding="utf-8")
    with pytest.raises(PodsimError, match="the log counts blocks, and resnet50"):
        compare_logs([path])


@every_case("seed", lambda: range(300 if os.environ.get("CI") else 30))
def test_mutated_files_end_in_a_result_or_an_error_that_says_what_to_do(tmp_path: Path, seed: int) -> None:
    """Characters of a file replaced, removed, or doubled."""
    draw = random.Random(seed)
    content = list(text(BERT if seed % 2 else RESNET))
    for _ in range(draw.choice((1, 3, 30))):
        place = draw.randrange(len(content))
        content[place] = draw.choice(("", "\n", '"', "9", "{", "é", "-", content[place] * 2, line("run_stop", 1, {})))
    path = tmp_path / "log.txt"
    path.write_text("".join(content), encoding="utf-8")
    try:
        assert matching_scenario(logged(read_log(path)))
    except PodsimError as error:
        assert error.do
