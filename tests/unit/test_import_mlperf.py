"""`truth mlperf`: phases of logged runs beside predicted ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from podsim import simulate
from tests.unit.mlperf_logs import BERT, HEAD, RESNET, Line, changed, text, without
from tools.mlperf.compare import compare_logs, matching_scenario
from tools.mlperf.logged import Logged, logged, read_log
from tools.mlperf_log import write_result_files
from tools.truth import main

File = Callable[[Iterable[Line]], Path]
MAY_2022_S = 1_652_000_000


@pytest.fixture
def file(tmp_path: Path) -> File:
    """A result file of some lines."""

    def write(lines: Iterable[Line]) -> Path:
        path = tmp_path / "result_0.txt"
        path.write_text(text(lines), encoding="utf-8")
        return path

    return write


def read(path: Path) -> Logged:
    return logged(read_log(path))


def test_phases_are_taken_apart(file: File) -> None:
    run = read(file(BERT))
    assert (run.init_s, run.setup_s, run.training_s, run.evaluation_s) == (100, 10, (30, 27), (1, 1))
    assert (run.after_s, run.other_s, run.total_s) == (0.5, pytest.approx(1.0), 70.5)
    assert (run.batch_size, run.division, run.status) == (4608, "closed", "success")


def test_epochs_count_before_the_block_they_are_in(file: File) -> None:
    run = read(file(RESNET))
    assert (run.training_s, run.load_s, run.evaluation_s) == ((30, 30), (6,), (11,))
    assert (run.counts_epochs, run.other_s, run.init_s) == (True, 0, None)


def test_an_evaluation_without_start_and_stop_begins_where_training_ends(file: File) -> None:
    assert read(file(without(BERT, "eval_start", "eval_stop"))).evaluation_s == (1, 1)
    assert read(file(without(BERT, "eval_stop"))).evaluation_s == (1, 1)


def test_an_evaluation_inside_a_block_is_no_training(file: File) -> None:
    """From 110 to 169 s, with one evaluation of a second inside."""
    joined = [each for each in BERT if each[:2] not in {("block_stop", 140), ("block_start", 142)}]
    assert read(file(joined)).training_s == (58,)


def test_the_last_block_may_end_with_the_run(file: File) -> None:
    assert read(file([each for each in BERT if each[:2] != ("block_stop", 169)])).training_s == (30, 27.5)


def test_every_process_may_log_the_same_line(file: File) -> None:
    assert read(file(each for line in BERT for each in (line, line))) == read(file(BERT))


def test_the_prediction_has_as_many_evaluations_as_the_log(file: File) -> None:
    """200,000 and 400,000 samples of 2,304 x 2.0368 are 43 and 86 updates; logged are 57 s for them."""
    (found,) = compare_logs([file(BERT)])
    result = simulate("bert_v2.0_pod64_closed")
    setup_s, update_s = result.run_breakdown["setup"], result.weight_update_s
    assert found.scenario == "bert_v2.0_pod64_closed"
    assert found.phase("initialisation").predicted_s is None
    assert found.phase("set-up").predicted_s == setup_s
    assert [found.phase(f"block {index}").predicted_s for index in (1, 2)] == [pytest.approx(43 * update_s)] * 2
    assert found.phase("weight update").logged_s == pytest.approx(57 / 86)
    assert found.phase("weight update").predicted_s == pytest.approx(update_s)
    evaluation_s = found.phase("evaluation 1").predicted_s
    assert evaluation_s is not None
    assert found.phase("run").predicted_s == pytest.approx(setup_s + 86 * update_s + 2 * evaluation_s)
    assert found.phase("run").error == pytest.approx((setup_s + 86 * update_s + 2 * evaluation_s) / 70.5 - 1)


def test_logged_samples_count_the_updates(file: File) -> None:
    """90 updates of 4,692.8 samples are 422,350; where the size of the training set is logged, it counts nothing."""
    for samples, updates in ((422_350, 90), (156_725_653, 86)):
        (found,) = compare_logs([file([*HEAD, ("train_samples", 0, samples), *BERT[len(HEAD) :]])])
        assert (found.update_count, found.phase("weight update").logged_s) == (updates, pytest.approx(57 / updates))


def test_the_first_evaluation_of_epochs_is_compared_with_its_set_up(file: File) -> None:
    (found,) = compare_logs([file(RESNET)])
    assert found.scenario == "resnet50_v2.0_pod16"
    assert found.phase("validation set-up, evaluation 1").logged_s == 17
    assert sum(phase.predicted_s or 0 for phase in found.phases[:-2]) == pytest.approx(found.phase("run").predicted_s)


def test_a_run_that_stops_late_is_compared_up_to_its_last_evaluation(file: File) -> None:
    late = [(key, 200.0 if key == "run_stop" else time_s, value) for key, time_s, value in BERT]
    (found,) = compare_logs([file(late)])
    assert found.phase("run to its last evaluation").logged_s == 70
    assert any("30.0 s after its last evaluation" in note for note in found.notes)


@pytest.mark.parametrize("name", ["bert_v2.0_pod64_closed", "resnet50_v2.0_pod16", "bert_v1.1_pod16_closed"])
def test_what_podsim_writes_it_reads_again(name: str, tmp_path: Path) -> None:
    written = write_result_files(simulate(name), name.partition("_")[0].removesuffix("50"), tmp_path, "2.0")
    (found,) = compare_logs(written.paths[:1])
    assert found.scenario == found.run.simulated == name
    for phase in found.phases:
        assert phase.name == "initialisation" or phase.logged_s == pytest.approx(phase.predicted_s, abs=0.002)
    assert any("nothing in it was measured" in note for note in found.notes)


MATCHES = [
    ({"submission_platform": "Bow Pod16", "global_batch_size": 3072}, "bert_v2.0_pod16_closed"),
    ({"submission_platform": "IPU-POD128", "global_batch_size": 6144, "submission_division": "open"}, "pod128_open"),
    ({"submission_benchmark": "resnet", "submission_platform": "x", "global_batch_size": 3840}, "resnet50_v1.1_pod64"),
]


@pytest.mark.parametrize(("values", "name"), MATCHES)
def test_benchmark_batch_and_pod_say_which_scenario_it_is(file: File, values: dict[str, Any], name: str) -> None:
    assert matching_scenario(read(file(changed(BERT, **values)))).endswith(name)


def test_the_month_tells_rounds_apart(file: File) -> None:
    """IPU-POD16 and batch 3,072 are of three rounds; accumulation over 256 micro-batches is of v2.0 alone."""
    lines = changed(BERT, submission_platform="IPU-POD16", global_batch_size=3072)
    in_may = [(key, time_s + MAY_2022_S, value) for key, time_s, value in lines]
    assert matching_scenario(read(file(in_may))) == "bert_v2.0_pod16_closed"
    counted = [("gradient_accumulation_steps", 0.0, 256), *lines]
    assert matching_scenario(read(file(counted))) == "bert_v2.0_pod16_closed"


def podsim(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["truth", "mlperf", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_tables_and_json_hold_the_same(
    file: File, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(file(BERT))
    assert podsim(monkeypatch, path, path) == 0
    table = capsys.readouterr().out
    assert podsim(monkeypatch, path, path, "--format", "json") == 0
    data = json.loads(capsys.readouterr().out)
    shown = [phase["phase"] for phase in data["runs"][0]["phases"]]
    first_cells = [line.split("  ")[0] for line in table.splitlines() if "  " in line]
    assert first_cells[1 : len(shown) + 1] == shown  # below the heads
    assert data["score"]["logged_s"] == 70.5
    assert "MLPerf's mean of the runs" in table
    assert all(len(line) <= 100 for line in table.splitlines() if not line.startswith(("note:", "/", "beside")))
