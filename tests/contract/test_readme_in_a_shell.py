"""The commands of README, pasted one after the other into a shell that has never heard of podsim.

What each `podsim` command does is for `test_docs.py`; here it only has to be found. `./dev` is the real one: its
environment is one that it takes for finished.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.test_docs import TEXTS, blocks, commands

ROOT = Path(__file__).resolve().parents[2]
STUB = """#!/bin/sh
echo "podsim $*" >> "$(dirname "$0")/called"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout after `./dev demo` has made `.venv`, with a `podsim` that only notes how it is called."""
    core = ROOT / "podsim" / "engine" / "_core.c"
    for path in (ROOT / "dev", ROOT / "pyproject.toml", ROOT / "hatch_build.py", core, *ROOT.glob("*.lock")):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    loader = importlib.machinery.SourceFileLoader("dev_of_checkout", str(tmp_path / "dev"))
    spec = importlib.util.spec_from_loader("dev_of_checkout", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    stub = tmp_path / ".venv" / "bin" / "podsim"
    stub.write_text(STUB)
    stub.chmod(0o755)
    module.STAMP.write_text(f"{module.fingerprint()} {module.DEV}", encoding="utf-8")
    return tmp_path


def pasted(folder: Path, lines: list[str]) -> subprocess.CompletedProcess[str]:
    """In a new shell whose path has an interpreter and no podsim."""
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(sys.executable)
    environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "SHELL": "/bin/bash"}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-c", "\n".join(lines)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="README's commands are for a POSIX shell")
def test_every_command_of_readme_is_found_in_the_order_it_stands(checkout: Path) -> None:
    readme = TEXTS[ROOT / "README.md"]
    lines = [line for block in blocks(readme) if block.language == "console" for line in commands(block)]
    ended = pasted(checkout, lines)
    assert (ended.returncode, ended.stderr) == (0, "")
    called = (checkout / ".venv" / "bin" / "called").read_text().splitlines()
    assert len(called) == len([line for line in lines if not line.startswith("source ")])
    assert called[0].startswith("podsim run bert_v1.1_pod16_open ")
    assert "source .venv/bin/activate" in ended.stdout


def test_without_the_environment_podsim_is_not_found(checkout: Path) -> None:
    """So that the test above can fail."""
    ended = pasted(checkout, ["./dev demo", "podsim list"])
    assert ended.returncode == 127
