"""The checkers of MLCommons accept what podsim writes: rules of each round, and convergence of reference runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from podsim import simulate
from tools.mlperf_log import RULES, write_result_files


@cache
def compliance() -> Any:
    """The checker of log files; imported by tests only, as it brings half of scipy."""
    return pytest.importorskip("mlperf_logging.compliance_checker.mlp_compliance")


@cache
def convergence() -> Any:
    """The checker of whole submissions against reference runs."""
    return pytest.importorskip("mlperf_logging.rcp_checker.rcp_checker")


REFERENCE = ("run.samples_to_converge.reference_convergence=true",)
ACCEPTED = [
    *((name, "1.1", ()) for name in ("bert_v1.1_pod128_closed", "resnet50_v1.1_pod16", "resnet50_v1.1_pod256")),
    *((f"bert_v1.1_pod{ipus}_closed", "1.1", REFERENCE) for ipus in (16, 64)),
    *((f"bert_v2.0_pod{ipus}_closed", "2.0", ()) for ipus in (16, 64)),
    *((f"bert_v2.0_pod{ipus}_closed", "2.0", REFERENCE) for ipus in (128, 256)),
    *((f"resnet50_v2.0_pod{ipus}", "2.0", ()) for ipus in (16, 64, 128, 256)),
]


@pytest.fixture(autouse=True)
def _nothing_is_left_over() -> Iterator[None]:
    """The checker keeps a list of rules to come in its module."""
    compliance().enqueued_configs.clear()
    yield
    compliance().enqueued_configs.clear()


def written(folder: Path, name: str, round_name: str, overrides: tuple[str, ...], division: str) -> tuple[Path, ...]:
    benchmark = "bert" if name.startswith("bert") else "resnet"
    result = simulate(name, overrides=overrides)
    return write_result_files(result, benchmark, folder, round_name, division).paths


def complies(path: Path, round_name: str) -> bool:
    """By the rules of a round; warnings count as errors."""
    checker = compliance().make_checker("training", f"{round_name}.0", quiet=False, werror=True)
    return bool(compliance().main(str(path), f"training_{round_name}.0/common.yaml", checker)[0])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "round_name", "overrides"), ACCEPTED)
def test_closed_submissions_are_accepted(
    tmp_path: Path, name: str, round_name: str, overrides: tuple[str, ...]
) -> None:
    for path in written(tmp_path, name, round_name, overrides, "closed"):
        assert complies(path, round_name)
    for by_samples in (False, True):
        for points in ("pruned_rcps", "full_rcps"):
            arguments = (str(tmp_path), "training", f"{round_name}.0", False, by_samples)
            passed, message, _ = convergence().check_directory(*arguments, rcp_pass=points)
            assert passed, message


@pytest.mark.parametrize("round_name", ["1.1", "2.0"])
@pytest.mark.parametrize("name", ["bert_v1.1_pod64_open", "resnet50_v2.0_pod16"])
def test_open_submissions_are_accepted(tmp_path: Path, name: str, round_name: str) -> None:
    for path in written(tmp_path, name, round_name, (), "open"):
        assert complies(path, round_name)


@pytest.mark.parametrize(
    "key", ["run_stop", "eval_accuracy", "global_batch_size", "weights_initialization", "init_stop"]
)
def test_the_checker_misses_what_is_left_out(tmp_path: Path, key: str) -> None:
    path = written(tmp_path, "resnet50_v2.0_pod16", "2.0", (), "closed")[0]
    kept = [line for line in path.read_text(encoding="utf-8").splitlines() if f'"key": "{key}"' not in line]
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    assert not complies(path, "2.0")


def test_a_submission_that_mlperf_scaled_is_refused_as_it_was(tmp_path: Path) -> None:
    """The closed submission of v1.1 on IPU-POD16 converged 1.098 times as fast as the reference runs."""
    written(tmp_path, "bert_v1.1_pod16_closed", "1.1", (), "closed")
    arguments = (str(tmp_path), "training", "1.1.0", False, True)
    passed, _, scale = convergence().check_directory(*arguments, rcp_pass="pruned_rcps")
    assert not passed
    assert scale == pytest.approx(1.098, abs=0.001)


def test_the_checkers_ask_for_as_many_runs() -> None:
    asked = convergence().submission_runs["training"]
    assert {name: each.run_count for name, each in RULES.items()} == {name: asked[name] for name in RULES}
