"""git: what hooks hand down does not reach it, and the repository of the user stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from podsim.git import blobs, commit_of, extract, first_change, git, top_of

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

SCENARIO = "base: conductivity_cnn_pod4\n"
FASTER = f"{SCENARIO}system: {{base: ipu_pod4, machine: {{ipu: {{clock: 1.6 GHz}}}}}}\n"
_AUTHOR = {f"GIT_{who}_{what}": f"{who}@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def run(folder: Path, *arguments: str) -> str:
    """git as a user calls it, hooks included."""
    own = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "commit.gpgsign=false", *arguments],
        cwd=folder,
        env=own | _AUTHOR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A commit with a scenario and a text, and a hook that holds the scenario against it."""
    folder = tmp_path / "repository"
    (folder / "runs").mkdir(parents=True)
    run(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "runs" / "s.yaml").write_text(SCENARIO)
    (folder / "notes.txt").write_text("one\n")
    run(folder, "add", "--all")
    run(folder, "commit", "--quiet", "--message=first")
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m podsim check runs/s.yaml --against HEAD\n')
    hook.chmod(0o755)
    return folder


def committed(folder: Path) -> list[str]:
    """Files that the last commit changed."""
    return run(folder, "show", "--format=", "--name-only", "HEAD").split()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "-a", "partial", "subfolder", "worktree"])
def test_a_check_in_a_hook_leaves_the_commit_as_it_is(way: str, repository: Path, tmp_path: Path) -> None:
    """`-a` and partial commits hand down an index of their own, linked worktrees a folder."""
    folder = repository
    if way == "worktree":
        folder = tmp_path / "linked"
        run(repository, "worktree", "add", "--quiet", "-b", "other", str(folder))
    (folder / "notes.txt").write_text("two\n")
    (folder / "new.txt").write_text("new\n")
    run(folder, "add", "new.txt")
    match way:
        case "-a":
            said, files = run(folder, "commit", "-am", "second"), ["new.txt", "notes.txt"]
        case "partial":
            said, files = run(folder, "commit", "-m", "second", "notes.txt"), ["notes.txt"]
        case "subfolder":
            said, files = run(folder / "runs", "commit", "-am", "second"), ["new.txt", "notes.txt"]
        case _:
            said, files = run(folder, "commit", "-m", "second"), ["new.txt"]
    assert "holds: 1 scenario, " in said
    assert "nothing was compared" not in said
    assert committed(folder) == files
    assert sorted(run(folder, "ls-tree", "-r", "--name-only", "HEAD").split()) == [
        *(["new.txt"] if way != "partial" else []),
        "notes.txt",
        "runs/s.yaml",
    ]
    assert run(folder, "worktree", "list").count("\n") == (2 if way == "worktree" else 1)


@pytest.mark.slow
def test_a_check_in_a_hook_refuses_what_moved(repository: Path) -> None:
    (repository / "runs" / "s.yaml").write_text(FASTER)
    with pytest.raises(AssertionError, match="gain: got better"):
        run(repository, "commit", "-am", "second")
    assert run(repository, "log", "--format=%s").split() == ["first"]
    assert run(repository, "status", "--porcelain").split() == ["M", "runs/s.yaml"]


@pytest.mark.parametrize(
    "name",
    [
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE"),
        *("GIT_QUARANTINE_PATH", "GIT_GRAFT_FILE", "GIT_INTERNAL_SUPER_PREFIX"),
    ],
)
def test_no_variable_that_names_a_place_reaches_git(
    name: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    shown = git(repository, "here", "do", "-c", "alias.shown=!env", "shown").decode()
    assert f"{name}=" not in shown.replace(f"GIT_DIR={repository}", "").replace("GIT_PREFIX=\n", "")
    top = top_of(repository / "runs", "here", "do")
    assert top == repository.resolve()
    assert [str(path) for path in blobs(top, "here", commit_of(top, "here", "main"))] == ["notes.txt", "runs/s.yaml"]


def test_links_are_written_if_they_stay_inside(repository: Path, tmp_path: Path) -> None:
    for name, text in (("near", "s.yaml"), ("up", "../notes.txt"), ("out", "../../x"), ("away", "/etc/passwd")):
        (repository / "runs" / name).symlink_to(text)
    run(repository, "add", "--all")
    run(repository, "commit", "--no-verify", "--quiet", "--message=links")
    (tmp_path / "out").mkdir()
    extract(repository, "here", commit_of(repository, "here", "HEAD"), tmp_path / "out", lambda _: True)
    there = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*"))
    assert there == ["notes.txt", "runs", "runs/near", "runs/s.yaml", "runs/up"]
    assert (tmp_path / "out" / "runs" / "up").read_text() == "one\n"


def test_the_first_line_that_changed(repository: Path) -> None:
    file = repository / "runs" / "s.yaml"
    for number, text in enumerate(("a\nb\nc\n", "a\nB\nc\n")):
        file.write_text(text)
        run(repository, "commit", "--no-verify", "--quiet", "-am", str(number))
    agreed = [sha256(b"a\nb\nc\n").hexdigest()]
    for text, line in (("a\nB\nc\n", 2), ("a\nb\nc\nd\n", 4), ("a\n", 1)):
        file.write_text(text)
        assert first_change(file, agreed) == line
    assert first_change(file, []) is None
    assert first_change(repository.parent / "none.yaml", agreed) is None
