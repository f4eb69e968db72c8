"""`tools/mlperf_log.py`: what result files say, and what they are refused for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podsim import simulate
from podsim.cli.ending import run_to_the_end
from tools.mlperf.benchmark import nominal_batch
from tools.mlperf_log import RULES, hyperparameters, main, reference_mean, round_of

Run = Callable[..., tuple[int, str]]
BERT, RESNET = "bert_v2.0_pod64_closed", "resnet50_v2.0_pod16"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The tool in an empty folder: exit code, and what is said."""

    def tool(*arguments: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["mlperf_log.py", *arguments])
        return run_to_the_end(main), capsys.readouterr().err

    return tool


def lines(path: Path) -> list[dict[str, Any]]:
    texts = path.read_text(encoding="utf-8").splitlines()
    assert all(text.startswith(":::MLLOG ") for text in texts)
    return [json.loads(text.removeprefix(":::MLLOG ")) for text in texts]


def values(events: list[dict[str, Any]], key: str) -> list[Any]:
    return [event["value"] for event in events if event["key"] == key]


def times(events: list[dict[str, Any]], key: str) -> list[int]:
    return [event["time_ms"] for event in events if event["key"] == key]


def test_ten_runs_of_bert_take_what_was_simulated(run: Run, tmp_path: Path) -> None:
    code, said = run(BERT, "log")
    files = sorted((tmp_path / "log").iterdir())
    assert (code, len(files)) == (0, 10)
    assert "10 result files, BERT-Large by the rules of MLPerf Training 2.0, closed division" in said
    totals = []
    for file in files:
        events = lines(file)
        (start,), (stop,) = times(events, "run_start"), times(events, "run_stop")
        totals.append((stop - start) / 1000)
    score = sum(sorted(totals)[1:-1]) / 8
    assert score == pytest.approx(simulate(BERT).time_to_train_s, abs=0.001)


def test_a_run_of_bert_is_logged_block_by_block(run: Run, tmp_path: Path) -> None:
    """3 packs x 96 x 8 replicas are 2,304 packs of 2.0368 sequences; logged 3,000,000 are 15 marks of 200,000."""
    run(BERT, "log")
    result, events = simulate(BERT), lines(tmp_path / "log" / "result_0.txt")
    update_ms, samples = 1000 * result.weight_update_s, 2304 * 2.0368
    starts, stops = times(events, "block_start"), times(events, "block_stop")
    updates = [-int(-mark * 200_000 // samples) for mark in range(16)]
    assert len(starts) == len(stops) == len(times(events, "eval_stop")) == 15
    assert starts[0] - times(events, "run_start")[0] == pytest.approx(1000 * result.run_breakdown["setup"], abs=1)
    for index in range(15):
        expected = (updates[index + 1] - updates[index]) * update_ms
        assert stops[index] - starts[index] == pytest.approx(expected, abs=1)
    assert values(events, "train_samples") == [round(updates[-1] * samples)]
    assert values(events, "global_batch_size") == [2 * 2304]
    last = [event for event in events if event["key"] == "eval_accuracy"]
    assert [(event["value"], event["metadata"]) for event in last] == [
        (0.72, {"epoch_num": round(updates[-1] * samples)})
    ]
    keys = [event["key"] for event in events if event["key"].startswith(("block", "eval_st", "run_st"))]
    one = ["block_start", "block_stop", "eval_start", "eval_stop"]
    assert keys == ["run_start", *one * 15, "run_stop"]


def test_five_runs_of_resnet_are_logged_epoch_by_epoch(run: Run, tmp_path: Path) -> None:
    run(RESNET, "log")
    assert len(list((tmp_path / "log").iterdir())) == 5
    events = lines(tmp_path / "log" / "result_4.txt")
    assert len(times(events, "epoch_start")) == len(times(events, "epoch_stop")) == 38
    assert len(times(events, "block_start")) == 1
    evaluated = [event["metadata"]["epoch_num"] for event in events if event["key"] == "eval_stop"]
    assert evaluated == list(range(2, 39, 4))
    assert values(events, "model_bn_span") == [2 * 22]
    assert values(events, "train_samples") == [1_281_167]
    (start,), (stop,) = times(events, "run_start"), times(events, "run_stop")
    assert stop - start == pytest.approx(1000 * (simulate(RESNET).time_to_train_s or 0), abs=1)


def test_every_file_says_that_it_is_simulated(run: Run, tmp_path: Path) -> None:
    run(BERT, "log", "--set", "system.machine.ipu.clock=1.5 GHz")
    for index, file in enumerate(sorted((tmp_path / "log").iterdir())):
        events = lines(file)
        assert values(events, "submission_org") == ["podsim (simulated)"]
        assert values(events, "submission_status") == ["research"]
        assert values(events, "seed") == [index]
        (said,) = [event["metadata"] for event in events if event["key"] == "podsim_simulated"]
        assert "nothing in this file was measured" in said["statement"]
        assert said["scenario"] == BERT
        assert "1.5 GHz" in said["difference"]


def test_hyperparameters_are_those_of_the_submission(run: Run, tmp_path: Path) -> None:
    """MLPERF v2.0, closed, Bow-Pod64: LAMB with 0.0029, 0.51, 0.72, decay 0.001 over 800 steps."""
    _, said = run(BERT, "log")
    events = lines(tmp_path / "log" / "result_0.txt")
    keys = ("opt_base_learning_rate", "opt_lamb_beta_1", "opt_lamb_beta_2", "opt_lamb_weight_decay_rate")
    assert [values(events, key) for key in keys] == [[0.0029], [0.51], [0.72], [0.001]]
    assert values(events, "opt_learning_rate_training_steps") == [800]
    assert "Graphcore's submission to MLPerf Training v2.0, closed division, 64 IPUs" in said


@pytest.mark.parametrize(
    ("arguments", "rate", "origin"),
    [
        (("bert", 3072, 192, "lamb", "1.1", "open", 16), 0.0022, "v1.1, open division, 16 IPUs"),
        (("bert", 3072, 96, "lamb", "1.1", "closed", 64), 0.002, "v1.1, closed division, 64 IPUs"),
        (("resnet", 5120, 4, "lars", "2.0", "closed", 64), 14.225, "v2.0, closed division, 64 IPUs"),
        (("resnet", 5120, 2, "lars", "2.0", "closed", 128), 12.1, "v2.0, closed division, 128 IPUs"),
        (("resnet", 4096, 2, "lars", "2.0", "closed", 128), 10, "reference runs at batch size 4096"),
    ],
)
def test_the_closest_published_hyperparameters_are_taken(arguments: Any, rate: float, origin: str) -> None:
    found = hyperparameters(*arguments)
    assert rate in dict(found.values).values()
    assert found.origin.endswith(origin)


def test_every_weight_of_the_networks_is_named_once() -> None:
    """BERT: 5 + 24 x 16 + 2 + 7. ResNet-50: 5, 16 units of 9, and 3 more in the 4 first ones."""
    counts = {name: (len(each.tensors), len(set(each.tensors))) for name, each in RULES.items()}
    assert counts == {"bert": (398, 398), "resnet": (161, 161)}


def test_the_round_is_that_of_the_sdk() -> None:
    assert [round_of(sdk) for sdk in ("2.3", "2.5")] == ["1.1", "2.0"]


def test_packs_count_as_a_whole_number_of_sequences() -> None:
    assert nominal_batch(1536, {"data": {}}) == 1536
    assert nominal_batch(1536, {"data": {"packing": {"sequences_per_pack": 2.0368}}}) == 3072


def test_the_mean_of_reference_runs_lies_between_those_that_the_checker_keeps() -> None:
    """3,264 images: 35.15 epochs, 32,768: 56; 3,520 is 256 ÷ 29,504 of the way."""
    low, high = reference_mean("resnet", "2.0", 3264), reference_mean("resnet", "2.0", 32768)
    assert low == pytest.approx(35.15, abs=0.01)
    assert high == 56
    assert low is not None
    assert reference_mean("resnet", "2.0", 3520) == pytest.approx(low + (56 - low) * 256 / 29_504)
    assert reference_mean("resnet", "2.0", 1000) is None


def test_runs_that_converge_faster_than_reference_runs_are_warned_of(run: Run) -> None:
    """MLPerf itself scaled this submission by 1.098."""
    _, said = run("bert_v1.1_pod16_closed", "log")
    assert "converge 1.098 times as fast" in said
    _, said = run("bert_v1.1_pod16_closed", "open", "--division", "open")
    assert "times as fast" not in said


@pytest.mark.parametrize(
    ("arguments", "what", "cure"),
    [
        (("gpt2_small_pod16",), "the model is no benchmark of MLPerf Training", "bert_v2.0_pod64_closed"),
        (("llama2_7b_pods",), "trains nothing", "run a scenario of training"),
        (("bert_v1.0_pod16_closed",), "SDK 2.1 took part in round 1.0", "--round 2.0"),
        (
            ("bert_large_phase2_packed_pod16", "--round", "2.0"),
            "there is no time to train",
            "--set run.samples_to_converge.reference_convergence=true",
        ),
        (
            (BERT, "--set", "run.samples_to_converge=null", "--set", "run.weight_updates=640"),
            "`run.weight_updates` says when the run ends, and nothing says that it converges",
            "--set run.weight_updates=null",
        ),
        ((BERT, "--set", "run.evaluation=null"), "no evaluation", "--set run.evaluation.samples=10000"),
        ((RESNET, "--set", "run.validation=null"), "no evaluation", "--set run.validation.samples=50000"),
        (
            (BERT, "--set", "parallelism.accumulation_factor=100"),
            "no learning rates are published for 4,800",
            "--set parallelism.accumulation_factor=96",
        ),
        (
            (RESNET, "--set", "optimizer.kind=sgd", "--set", "run.epochs=40"),
            "not for `sgd`",
            "--set optimizer.kind=lars",
        ),
    ],
)
def test_what_cannot_be_logged_is_refused(run: Run, tmp_path: Path, arguments: Any, what: str, cure: str) -> None:
    code, said = run(*arguments, "log")
    assert code == 2
    assert what in said
    assert cure in said.partition("do:")[2]
    assert not (tmp_path / "log").exists()


def test_a_folder_with_result_files_is_left_as_it_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "result_7.txt").write_text("mine", encoding="utf-8")
    code, said = run(BERT, "log")
    assert (code, "holds result files already" in said) == (2, True)
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["result_7.txt"]


def test_a_folder_that_cannot_be_made_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for name, what in (("file", "this is a file, not a folder"), ("a/b", "the folder `a` does not exist")):
        code, said = run(BERT, name)
        assert (code, what in said) == (2, True), said
