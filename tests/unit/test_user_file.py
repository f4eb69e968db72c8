"""Files of users that are no files, or are larger than they say, are refused at once and never read whole."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from podsim.errors import SpecError
from podsim.user_file import content_of, read_at_most
from tests.unit.bad_input_cases import Run

DEVICE = "this is not a file but a device or a pipe"
pytestmark = pytest.mark.skipif(not Path("/dev/zero").exists(), reason="devices of Unix")


def problem_of(path: Path, most_bytes: int = 10) -> str:
    with pytest.raises(SpecError) as caught:
        content_of(path, most_bytes, "name another")
    return str(caught.value)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"0123456789")
    assert content_of(file, 10, "name another") == b"0123456789"
    assert problem_of(file, 9) == f"{file}: the file has more than 9 B\n  do: name another"


def test_a_file_whose_size_is_a_lie_is_read_up_to_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As one that grows after its size was asked for: 3 MB and a byte, where the limit is 2 MiB."""
    file = tmp_path / "f"
    file.write_bytes(bytes(3_000_001))
    true = os.fstat

    def size_of_0(handle: int) -> os.stat_result:
        given = list(true(handle))
        given[6] = 0  # st_size
        return os.stat_result(given)

    monkeypatch.setattr(os, "fstat", size_of_0)
    assert read_at_most(file, 3_000_001) == bytes(3_000_001)
    assert len(read_at_most(file, 2 << 20)) == (2 << 20) + 1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="files of Linux")
def test_a_file_of_size_0_with_content_is_read() -> None:
    status = Path("/proc/self/status")
    assert status.stat().st_size == 0
    assert b"VmPeak" in content_of(status, 1 << 20, "name another")
    assert "more than 10 B" in problem_of(status)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe that nobody writes to would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "link", tmp_path / "pipe"):
        assert problem_of(path) == f"{path}: {DEVICE}\n  do: name another"
    assert problem_of(tmp_path) == f"{tmp_path}: this is a folder, not a file\n  do: name a file in it"
    assert problem_of(tmp_path / "none").startswith(f"{tmp_path / 'none'}: the file cannot be read: No such file")
    assert problem_of(Path("a\0b")).startswith("a\0b: the file cannot be read: the path is not valid")


COMMANDS = [
    ["run", "{}.yaml"],
    ["sweep", "{}.yaml"],
    ["plan", "{}.yaml"],
    ["compare", "good.yaml", "{}.json"],
    ["check", "good.yaml", "--baseline", "{}.json"],
    ["import", "{}.json"],
    ["import", "{}.onnx"],
    ["import", "{}.shapes.json"],
    ["serve", "llama2_13b_pod16", "--arrivals", "{}.csv"],
    ["calibrate", "--with", "{}.csv"],
    ["replay", "{}_traces", "--system", "ipu_pod4"],
]


@pytest.fixture
def endless() -> None:
    """Links to a device and a pipe with the name of every kind of file."""
    for suffix in ("yaml", "json", "onnx", "shapes.json", "csv"):
        Path(f"zero.{suffix}").symlink_to("/dev/zero")
        os.mkfifo(f"pipe.{suffix}")
    for name in ("zero", "pipe"):
        Path(f"{name}_traces").mkdir()
    Path("zero_traces/t.0.et").symlink_to("/dev/zero")
    os.mkfifo("pipe_traces/t.0.et")


@pytest.mark.parametrize("name", ["zero", "pipe"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_reads_a_device_or_waits_for_a_pipe(
    podsim: Run, endless: None, command: list[str], name: str
) -> None:
    code, text = podsim(*[word.format(name) for word in command])
    assert code != 0
    assert any(told in text for told in (DEVICE, "is no ordinary file"))
    assert "Traceback" not in text


@pytest.mark.slow
@pytest.mark.parametrize("target", ["folder", "/dev/zero"])
@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is limited as in Linux")
def test_a_check_of_a_device_needs_little_memory(tmp_path: Path, target: str) -> None:
    (tmp_path / "a.yaml").symlink_to("/dev/zero")
    path = str(tmp_path) if target == "folder" else target
    command = [sys.executable, "-m", "podsim", "check", path, "--format", "json"]
    most = 4 << 30
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    assert (done.returncode, "MemoryError" in done.stderr) == (1, False)
    assert "is no ordinary file" in done.stdout
