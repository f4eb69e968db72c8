"""`./dev` and what it installs: lock files that are complete, fresh, and name no place to fetch from."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = re.compile(r"[\w.-]+")


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command as a module; its byte code would lie in the root of the repository."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    spec = importlib.util.spec_from_loader("dev", SourceFileLoader("dev", str(ROOT / "dev")))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Lines of every package with their hashes, by name."""
    entries = re.split(r"\n(?=\w)", text.partition("\n")[2].strip())
    return {normal(NAME.match(entry)[0]): entry for entry in entries}  # type: ignore[index]


def requirements(dev: Any, extra: str) -> set[str]:
    project = dev.project()["project"]
    wanted = project["dependencies"] + (project["optional-dependencies"][extra] if extra else [])
    return {normal(NAME.match(each)[0]) for each in wanted}  # type: ignore[index]


@pytest.mark.parametrize("extra", ["", "dev"])
def test_a_lock_file_pins_all_that_is_needed_by_hash(dev: Any, extra: str) -> None:
    found = pins((ROOT / dev.LOCKS[extra]).read_text(encoding="utf-8"))
    assert requirements(dev, extra) <= set(found)
    for entry in found.values():
        assert re.match(r"[\w.-]+==[\w.+!]+( ; [^\n]+)? \\\n +--hash=sha256:[0-9a-f]{64}", entry), entry
        assert "://" not in entry


def test_both_lock_files_have_the_same_versions(dev: Any) -> None:
    few, all_ = (pins((ROOT / lock).read_text(encoding="utf-8")) for lock in dev.LOCKS.values())
    assert {name: all_.get(name) for name in few} == few


def test_lock_files_are_fresh(dev: Any) -> None:
    dev.check_locks()


def test_a_requirement_without_a_renewed_lock_is_noticed(
    dev: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = dev.project()
    changed["project"]["dependencies"].append("nothing>=1")
    monkeypatch.setattr(dev, "project", lambda: changed)
    with pytest.raises(SystemExit):
        dev.check_locks()
    told = capsys.readouterr().err
    assert "requirements.lock was made for other requirements than pyproject.toml has; run `./dev lock`" in told


def test_settings_of_tools_do_not_renew_the_environment(dev: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dev.fingerprint()
    assert "tool" not in dev.project()
    changed = dev.project()
    changed["project"]["requires-python"] = ">=3.12"
    monkeypatch.setattr(dev, "project", lambda: changed)
    assert dev.fingerprint() != before


def test_the_lowest_versions_are_those_that_are_promised(dev: Any) -> None:
    """Of what users install, and of pytest, which tries them out; the other tools have the locked versions."""
    pinned = dict(line.split("==") for line in dev.lowest().splitlines())
    assert (pinned["numpy"], pinned["pyarrow"], pinned["pytest"]) == ("1.26", "15", "8")
    extras = dev.project()["project"]["optional-dependencies"]
    assert {normal(name) for name in pinned} == requirements(dev, "").union(
        *(requirements(dev, extra) for extra in extras if extra != "dev"), {"pytest"}
    )


def test_the_newest_python_is_no_older_than_this_one(dev: Any) -> None:
    version = subprocess.check_output([dev.pythons()[-1], "-c", "import sys; print(*sys.version_info[:2])"])
    assert tuple(map(int, version.split())) >= sys.version_info[:2]
