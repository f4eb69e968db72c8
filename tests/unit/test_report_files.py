"""Files are written whole or not at all."""

import os
from pathlib import Path

import pytest

from podsim.errors import OutputError
from podsim.result.files import check_writable, write_atomically


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_atomically(path, b"one")
    write_atomically(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_usual_permissions_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    path = tmp_path / "out"
    write_atomically(path, b"one")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    write_atomically(path, b"two")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_keeps_pointing_where_it_did(tmp_path: Path) -> None:
    path, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(path)
    write_atomically(link, b"data")
    assert link.is_symlink()
    assert path.read_bytes() == b"data"


def test_a_device_is_written_and_stays_a_device() -> None:
    write_atomically(os.devnull, b"data")
    assert Path(os.devnull).is_char_device()


def test_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "no" / "out.json"
    with pytest.raises(OutputError) as caught:
        write_atomically(path, b"data")
    assert str(caught.value) == (
        f"{path}: the folder `{path.parent}` does not exist\n  do: make the folder, or give another path"
    )
    assert not path.parent.exists()


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        write_atomically(tmp_path, b"data")
    assert str(caught.value) == (
        f"{tmp_path}: this is a folder, not a file\n  do: give the name of a file inside the folder"
    )


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    parent = tmp_path / "file"
    parent.touch()
    with pytest.raises(OutputError) as caught:
        check_writable(parent / "out.json")
    assert str(caught.value) == f"{parent / 'out.json'}: `{parent}` is not a folder\n  do: give a path inside a folder"


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    path = tmp_path / "out.json"
    with pytest.raises(OutputError) as caught:
        check_writable(path)
    assert str(caught.value) == f"{path}: cannot be written: no permission\n  do: give a path that you may write"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_bytes(b"old")

    def no_space(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OutputError) as caught:
        write_atomically(path, b"new")
    assert str(caught.value) == (
        f"{path}: cannot be written: No space left on device\n"
        "  do: give a path that can be written, or make room for the file"
    )
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "out.json", b"new")
    assert list(tmp_path.iterdir()) == []
