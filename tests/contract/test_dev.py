"""`./dev` and its lock files, which are complete, fresh, and name no index."""

from __future__ import annotations

import contextlib
import ensurepip
import hashlib
import importlib.metadata
import importlib.util
import io
import os
import re
import subprocess
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = re.compile(r"[\w.-]+")


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command as a module, without byte code in the root of the repository."""
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
    """Return the lines of every package with their hashes, by name."""
    entries = re.split(r"\n(?=\w)", text.partition("\n")[2].strip())
    return {normal(NAME.match(entry)[0]): entry for entry in entries}  # type: ignore[index]


def lock_text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def requirements(dev: Any, extra: str) -> set[str]:
    project = dev.project()["project"]
    wanted = project["dependencies"] + (project["optional-dependencies"][extra] if extra else [])
    return {normal(NAME.match(each)[0]) for each in wanted}  # type: ignore[index]


def test_every_lock_file_pins_its_packages_by_hash(dev: Any) -> None:
    for name in dev.locks():
        for entry in pins(lock_text(name)).values():
            assert re.match(r"[\w.-]+==[\w.+!]+( ; [^\n]+)? \\\n +--hash=sha256:[0-9a-f]{64}", entry), entry
            assert "://" not in entry


@pytest.mark.parametrize("extra", ["", "dev"])
def test_a_lock_file_has_what_pyproject_requires(dev: Any, extra: str) -> None:
    assert requirements(dev, extra) <= set(pins(lock_text(dev.LOCKS[extra])))


@pytest.mark.parametrize("extra", ["", "dev"])
def test_a_lock_file_is_complete(dev: Any, extra: str) -> None:
    """What `pip check` finds after an installation without dependencies, for this Python, from installed metadata."""
    locked = pins(lock_text(dev.LOCKS[extra]))
    wanted = [Requirement(each) for each in dev.project()["project"]["dependencies"]]
    wanted += [Requirement(each) for each in dev.project()["project"]["optional-dependencies"].get(extra, ())]
    seen = set()
    while wanted:
        each = wanted.pop()
        extras = each.extras or {""}
        key = (normal(each.name), frozenset(extras))
        if key in seen:
            continue
        seen.add(key)
        assert key[0] in locked, f"{dev.LOCKS[extra]} lacks {each}"
        version = locked[key[0]].split("==")[1].split()[0]
        assert each.specifier.contains(version, prereleases=True), f"{each} does not allow {version}"
        for line in importlib.metadata.requires(each.name) or ():
            inner = Requirement(line)
            if inner.marker is None or any(inner.marker.evaluate({"extra": name}) for name in extras):
                wanted.append(inner)
    assert len(seen) > 10


def test_both_lock_files_have_the_same_versions(dev: Any) -> None:
    few, all_ = (pins(lock_text(name)) for name in dev.LOCKS.values())
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
    assert (
        "requirements.lock was made for other requirements than pyproject.toml has; run `./dev lock requirements.lock`"
        in told
    )


def test_settings_of_tools_do_not_renew_the_environment(dev: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dev.fingerprint()
    assert "tool" not in dev.project()
    changed = dev.project()
    changed["project"]["requires-python"] = ">=3.12"
    monkeypatch.setattr(dev, "project", lambda: changed)
    assert dev.fingerprint() != before


def test_the_lowest_lock_has_the_versions_that_pyproject_promises(dev: Any) -> None:
    found = pins(lock_text(dev.LOWEST))
    whole = dev.project()
    promised = list(whole["project"]["dependencies"]) + whole["dependency-groups"]["lowest"]
    for extra in dev.TRIED_LOWEST:
        promised += whole["project"]["optional-dependencies"][extra]
    assert len(promised) >= 14
    for each in map(Requirement, promised):
        ((lowest),) = (one.version for one in each.specifier)
        pinned = found[normal(each.name)].split("==")[1].split()[0]
        assert Version(pinned).release[: len(Version(lowest).release)] == Version(lowest).release, each


def make_wheel(folder: Path, name: str, version: str, requires: str = "", extra: str = "") -> Path:
    """Write a wheel that holds metadata and one empty module."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requires}"] if requires else []
    lines += [f"Provides-Extra: {extra}"] if extra else []
    path, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


def line_of_lock(wheel: Path) -> str:
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


@pytest.fixture
def old_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with the pip that this Python ships, offline, which finds wheels in `tmp_path`."""
    (bundled,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    subprocess.check_call([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")])
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(bundled))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("_".join(("PIP", "FIND", "LINKS")), str(tmp_path))
    return next((tmp_path / "venv").glob("[bS]*/python*"))


def test_set_up_installs_the_lock_after_a_newer_release_was_published(dev: Any, old_pip: Path, tmp_path: Path) -> None:
    """`a` asks for `b` with an extra, which pip below 23.3 resolves to the newest release, apart from the pin."""
    lock = tmp_path / "all.lock"
    locked = [make_wheel(tmp_path, "a", "1", "b[x]>=1"), make_wheel(tmp_path, "b", "1", extra="x")]
    make_wheel(tmp_path, "b", "9999", extra="x")
    lock.write_text("".join(map(line_of_lock, locked)), encoding="utf-8")
    dev.install_lock(old_pip, lock)
    dev.check_environment(old_pip)
    assert [path.name for path in sorted((tmp_path / "venv").glob("**/*.dist-info"))] == [
        "a-1.dist-info",
        "b-1.dist-info",
    ]


def test_a_lock_that_lacks_a_package_is_named_incomplete(
    dev: Any, old_pip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "all.lock"
    lock.write_text(line_of_lock(make_wheel(tmp_path, "a", "1", "b>=1")), encoding="utf-8")
    dev.install_lock(old_pip, lock)
    with pytest.raises(SystemExit):
        dev.check_environment(old_pip)
    assert capsys.readouterr().err == (
        "dev: the lock file is incomplete:\na 1 requires b, which is not installed.\n  do: run `./dev lock`\n"
    )


def test_a_failure_of_pip_is_shown_with_its_own_last_line_and_a_cure(
    dev: Any, old_pip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that differs from its hash, a release that the index lacks: neither blames the network."""
    wheel, lock = make_wheel(tmp_path, "a", "1"), tmp_path / "all.lock"
    for text, reason, advice in (
        (f"a==1 --hash=sha256:{'0' * 64}\n", "", "the index serves another file than the lock file names"),
        (f"a==2 --hash=sha256:{'0' * 64}\n", "No matching distribution found for a==2", "the index lacks this release"),
    ):
        lock.write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit):
            dev.install_lock(old_pip, lock)
        told = capsys.readouterr().err
        assert told.startswith("dev: pip could not install: ")
        assert reason in told
        assert f"do: {advice}" in told
        assert "in reach" not in told
    assert wheel.is_file()


def test_an_index_is_called_unreachable_only_if_it_is(
    dev: Any, old_pip: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """A closed port of this machine stands for an index that cannot be reached."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("_".join(("PIP", "INDEX", "URL")), "http" + "://127.0.0.1:9/simple")
    lock = tmp_path / "all.lock"
    lock.write_text(f"a==2 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    with pytest.raises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as told:
        dev.install_lock(old_pip, lock)
    assert "no package index is in reach" in told.getvalue()


def test_the_environment_starts_in_a_folder_outside_ascii(dev: Any, monkeypatch: Any, tmp_path: Path) -> None:
    """Python 3.12 reads path files in the encoding of the locale, which is ASCII under `LC_ALL=C`."""
    root = tmp_path / "Übung 测试"
    packages = root / ".venv" / "lib" / "python3.12" / "site-packages"
    (packages / "pip").mkdir(parents=True)
    (packages / "_podsim.pth").write_text(str(root), encoding="utf-8")
    monkeypatch.setattr(dev, "ROOT", root)
    monkeypatch.setattr(dev, "VENV", root / ".venv")
    dev.relative_path_file()
    line = (packages / "_podsim.pth").read_bytes().decode("ascii").strip()
    assert (packages / line).resolve() == root.resolve()


def test_workflows_pin_their_actions_by_hash() -> None:
    used = [
        line
        for file in (ROOT / ".github/workflows").glob("*.yml")
        for line in re.findall(r"uses: .*", lock_text(str(file)))
    ]
    assert used
    for line in used:
        assert re.fullmatch(r"uses: [\w./-]+@[0-9a-f]{40} # v[\d.]+", line), line


def test_the_newest_python_is_no_older_than_this_one(dev: Any) -> None:
    version = subprocess.check_output([dev.pythons()[-1], "-c", "import sys; print(*sys.version_info[:2])"])
    assert tuple(map(int, version.split())) >= sys.version_info[:2]


# Commands that run side by side

COMMAND = """import sys, time
if sys.argv[1] == "slow":
    time.sleep(0.5)
print("said by", *sys.argv[1:])
sys.exit(sys.argv[1].startswith("bad"))
"""


def side_by_side(dev: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, *lanes: tuple[Any, ...]) -> None:
    monkeypatch.setattr(dev, "ROOT", folder)
    (folder / "dev").write_text(COMMAND, encoding="utf-8")
    dev.side_by_side(*lanes)


def test_what_fails_side_by_side_is_named_and_stops_nothing(
    dev: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        side_by_side(dev, tmp_path, monkeypatch, (("slow", "-x"),), (("bad", "y"), ("good",)))
    assert end.value.code == 1
    out, err = capfd.readouterr()
    lines = [re.sub(r" after \d+ s", "", line) for line in out.splitlines()]
    assert lines == [
        *("dev: `./dev bad y` failed", "said by bad y"),
        *("dev: `./dev good` passed", "said by good"),
        *("dev: `./dev slow -x` passed", "said by slow -x"),
    ]
    assert err == "dev: `./dev bad y` failed\n"


def test_all_that_failed_is_named_the_first_first(
    dev: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        side_by_side(dev, tmp_path, monkeypatch, (("bad",), ("good",), ("bad_too",)))
    assert capfd.readouterr().err == "dev: `./dev bad` failed, and so did bad_too\n"


def test_nothing_is_said_of_failures_if_all_pass(
    dev: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    side_by_side(dev, tmp_path, monkeypatch, (("good",),), (("slow",),))
    assert capfd.readouterr().err == ""


def test_all_that_ci_runs_is_a_command(dev: Any) -> None:
    for command, *_ in (dev.TESTS, *dev.CHECKS, *dev.ENVIRONMENTS):
        assert command in dev.jobs([])
    pages = (ROOT / "tests" / "contract" / "test_docs.py").read_text(encoding="utf-8")
    assert f"def {dev.PAGE.partition('::')[2].partition('[')[0]}(" in pages
    assert all((ROOT / page).is_file() for page in dev.STRANGER)
