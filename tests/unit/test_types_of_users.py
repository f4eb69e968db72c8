"""A user's file passes a strict type checker without a cast, and a wrong name in it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import podsim

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = """\
import podsim

loaded = podsim.load("bert_v1.1_pod16_open")
result = podsim.run(loaded, overrides={"system": "bow_pod16"}, noise=20)
rate: float = result.throughput_samples_per_s
hours: float = (result.time_to_train_s or 0) / 3600
trained: podsim.RunResult = podsim.run("bert_v1.1_pod16_open")
first_s: float = podsim.run("llama2_7b_pods").time_to_first_token_s
calls: podsim.ForwardResult = podsim.infer("image_template")
answer = podsim.plan("bert_v1.1_pod16_open", systems=["ipu_pod16"])
names = [each.name for each in podsim.list().scenarios]
rows = podsim.sweep("gw_links").rows() if podsim.check("bert_v1.1_pod16_open").holds else []
both = podsim.compare("bert_v1.1_pod16_open", "bert_v1.1_pod64_open").to_dict()
"""


def checked(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), "mine.py"]
    path = {"PYTHONPATH": str(ROOT), "MYPYPATH": ""}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=path, timeout=300)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_file_of_a_user_passes_a_strict_type_checker(tmp_path: Path) -> None:
    assert "Success: no issues found in 1 source file" in checked(tmp_path, FILE)
    wrong = checked(tmp_path, FILE + "result.throughput_samples\npodsim.runn\n")
    assert '"ResultOfRun" has no attribute "throughput_samples"' in wrong
    assert 'has no attribute "runn"' in wrong


def test_completion_offers_public_names_alone() -> None:
    offered = {name for name in dir(podsim) if not name.startswith("__")}
    assert offered == {*podsim.__all__, "list"} - {"__version__"}
