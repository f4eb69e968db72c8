"""What is remembered, in the process and on disk: the same results, whatever happens to the memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import BaseModel

import podsim
from podsim import disk, memo
from podsim.errors import NoPlanError, PodsimError, SpecError
from podsim.models.op import Conv
from podsim.runs.training.outcome import ReferencePoint, draw_samples_to_converge
from podsim.scenario import load_ipu
from podsim.scenario.yaml_file import read_yaml
from podsim.tiles import Chip, MatMulShape, planned_conv, planned_matmul
from podsim.tiles.conv import plan_conv
from podsim.tiles.conv_shape import conv_shape
from podsim.tiles.matmul import plan_matmul
from podsim.tiles.planned import planner_files

GC200 = load_ipu("gc200")
PRODUCT = MatMulShape(96, 160, 64)
CONV = conv_shape(
    Conv(
        name="conv",
        shape=(1,),
        batch=2,
        in_channels=16,
        out_channels=32,
        input_size=(8, 8),
        output_size=(8, 8),
        kernel=(3, 3),
        stride=(1, 1),
    )
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder, and a process that remembers nothing."""
    monkeypatch.setenv(disk.SWITCH, str(tmp_path / "kept"))
    memo.forget()
    yield tmp_path / "kept"
    memo.forget()


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def modules_of(part: object) -> Iterator[str]:
    """Where the classes of a chip and of all its parts are, but for those that are no part of a plan's key."""
    if isinstance(part, BaseModel):
        yield type(part).__module__
        for name, declared in type(part).model_fields.items():
            if declared.repr:
                yield from modules_of(getattr(part, name))


def test_plans_depend_on_the_code_of_everything_that_a_chip_is_made_of() -> None:
    files = {Path(str(sys.modules[name].__file__)) for name in modules_of(GC200)}
    assert len(files) > 2
    assert files <= set(planner_files())


@pytest.mark.parametrize("again", ["in the process", "from disk"])
def test_plans_are_those_of_the_planners(again: str, folder: Path) -> None:
    for _ in range(2):
        assert planned_matmul(Chip(GC200), PRODUCT) == plan_matmul(GC200, PRODUCT)
        assert planned_conv(Chip(GC200), CONV) == plan_conv(GC200, CONV)
        if again == "from disk":
            memo.forget()
    assert len(entries(folder)) == 2


def test_what_is_on_disk_is_not_planned_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = planned_matmul(Chip(GC200), PRODUCT)
    memo.forget()
    monkeypatch.setattr("podsim.tiles.matmul.plan_matmul", None)
    assert planned_matmul(Chip(GC200), PRODUCT) == known


@pytest.mark.parametrize("part, change", [("tile", {"count": 1000}), ("exchange", {"bytes_per_cycle": 8})])
def test_another_chip_has_plans_of_its_own(part: str, change: dict[str, int]) -> None:
    other = GC200.model_copy(update={part: getattr(GC200, part).model_copy(update=change)})
    assert planned_matmul(Chip(GC200), PRODUCT) == plan_matmul(GC200, PRODUCT)
    assert planned_matmul(Chip(other), PRODUCT) == plan_matmul(other, PRODUCT) != plan_matmul(GC200, PRODUCT)


def test_another_share_of_memory_or_format_is_another_plan() -> None:
    shape = MatMulShape(1024, 4096, 4096)
    for arguments in (("fp16", "fp16", 0.6), ("fp16", "fp16", 0.05), ("fp16", "fp32", 0.6), ("fp32", "fp32", 0.6)):
        assert planned_matmul(Chip(GC200), shape, *arguments) == plan_matmul(GC200, shape, *arguments)


def test_an_impossible_plan_is_refused_each_time(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(NoPlanError):
            planned_matmul(Chip(GC200), MatMulShape(1 << 30, 1, 1))
    assert entries(folder) == []


DAMAGES = {
    "emptied": lambda content: b"",
    "cut short": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-2] + bytes([content[-2] ^ 1]) + content[-1:],
    "no text": lambda content: os.urandom(200),
    "another value": lambda content: content.replace(b'"row_parts"', b'"rowXparts"'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_made_again(damage: str, folder: Path) -> None:
    known = planned_matmul(Chip(GC200), PRODUCT)
    (path,) = entries(folder)
    sound = path.read_bytes()
    path.write_bytes(DAMAGES[damage](sound))
    memo.forget()
    assert planned_matmul(Chip(GC200), PRODUCT) == known
    assert path.read_bytes() == sound


def test_an_entry_that_means_nothing_is_made_again(folder: Path) -> None:
    """Its checksum is right, as if another version had written it."""
    known = planned_matmul(Chip(GC200), PRODUCT)
    (path,) = entries(folder)
    for content in ({}, [], None, {"shape": 1, "account": 2}):
        disk._save(path, json.dumps(content).encode())
        memo.forget()
        assert planned_matmul(Chip(GC200), PRODUCT) == known


def test_an_entry_of_other_types_is_made_again(folder: Path) -> None:
    """Each plain field in turn, with a right checksum."""
    known = planned_matmul(Chip(GC200), PRODUCT)
    (path,) = entries(folder)
    sound = path.read_bytes()
    data = json.loads(sound.partition(b"\n")[2])
    for name in (key for key, value in data.items() if isinstance(value, int | str)):
        for wrong in ([], {}, None, True, "x" if isinstance(data[name], int) else 1):
            disk._save(path, json.dumps({**data, name: wrong}).encode())
            memo.forget()
            assert planned_matmul(Chip(GC200), PRODUCT) == known
            assert path.read_bytes() == sound


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"data": ' * 100_000, b"9" * 5000, b"\xff", b"nul", b"null", b'"text"', b"{}", b""]
)
@pytest.mark.parametrize("checksum", ["right", "none"])
def test_whatever_lies_in_place_of_a_parsed_file_is_made_again(checksum: str, content: bytes, folder: Path) -> None:
    (folder.parent / "s.yaml").write_text("base: template\n")
    known = read_yaml(folder.parent / "s.yaml").data
    (path,) = entries(folder)
    sound = path.read_bytes()
    if checksum == "right":
        disk._save(path, content)
    else:
        path.write_bytes(content)
    memo.forget()
    assert read_yaml(folder.parent / "s.yaml").data == known == {"base": "template"}
    assert path.read_bytes() == sound


@pytest.mark.parametrize(
    "written", [{"data": 5, "places": []}, {"data": {}, "places": [[[], 5]]}, {"data": {}, "places": 5}, {"data": []}]
)
def test_a_parsed_file_of_other_types_is_parsed_again(written: object, folder: Path) -> None:
    (folder.parent / "s.yaml").write_text("base: template\n")
    read_yaml(folder.parent / "s.yaml")
    (path,) = entries(folder)
    disk._save(path, json.dumps(written).encode())
    memo.forget()
    assert read_yaml(folder.parent / "s.yaml").data == {"base": "template"}


def test_an_entry_beyond_any_size_is_not_read(folder: Path) -> None:
    assert disk.cached("ab1", lambda: 1, int, int) == 1
    (path,) = entries(folder)
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # with nothing behind it on disk
    assert disk.cached("ab1", lambda: 2, int, int) == 2
    assert path.stat().st_size < 100


@pytest.mark.parametrize("kept", [["x", 1.0], [None], [True], [[1.0]], {"a": 1.0}])
def test_draws_of_other_types_are_drawn_again(kept: object, folder: Path) -> None:
    points = (ReferencePoint(256, (1e6, 2e6)), ReferencePoint(512, (3e6, 4e6)))
    known = draw_samples_to_converge(points, 300, 4, 0)
    (path,) = entries(folder)
    disk._save(path, json.dumps(kept).encode())
    memo.forget()
    assert draw_samples_to_converge(points, 300, 4, 0) == known


def test_nothing_is_written_where_it_is_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk.SWITCH, "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert planned_matmul(Chip(GC200), PRODUCT) == plan_matmul(GC200, PRODUCT)
    assert entries(tmp_path) == []


def test_the_folder_is_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(disk.SWITCH)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk.folder() == tmp_path / "podsim"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/a/whole/path")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert disk.folder() == tmp_path / ".cache" / "podsim"


@pytest.mark.parametrize("wish", ["of", "0", "some/folder"])
def test_a_switch_that_means_nothing_is_refused(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk.SWITCH, wish)
    with pytest.raises(PodsimError, match=f"PODSIM_CACHE: `{wish}` is neither off nor a whole path"):
        planned_matmul(Chip(GC200), PRODUCT)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("a file where the folder would be")
    monkeypatch.setenv(disk.SWITCH, str(tmp_path / "file"))
    assert planned_matmul(Chip(GC200), PRODUCT) == plan_matmul(GC200, PRODUCT)


def test_many_processes_write_the_same_folder(folder: Path) -> None:
    code = (
        "import sys; from tests.unit.test_memory_of_processes import *;"
        "print([planned_matmul(Chip(GC200), MatMulShape(rows, 160, 64)).account.cycles for rows in range(90, 96)])"
    )
    root = Path(__file__).parents[2]
    command, environment = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": str(root)}
    running = [
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)
    ]
    said = {each.communicate()[0] for each in running}
    assert [each.returncode for each in running] == [0, 0, 0]
    assert said == {f"{[plan_matmul(GC200, MatMulShape(rows, 160, 64)).account.cycles for rows in range(90, 96)]}\n"}
    assert all(path.suffix == ".json" for path in entries(folder))


def test_a_full_folder_loses_its_older_half(folder: Path) -> None:
    for number in range(disk._MOST_PER_FOLDER + 1):
        disk.cached(f"ab{number:04}", lambda: 1, int, int)
        os.utime(folder / "ab" / f"{number:04}.json", (number, number))
    disk.cached("ab9999", lambda: 1, int, int)
    left = [path.stem for path in entries(folder)]
    assert "9999" in left
    assert "0000" not in left
    assert len(left) <= disk._MOST_PER_FOLDER


def test_a_file_is_known_by_its_content_not_by_its_date(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    for value in (1, 2, 1):
        path.write_text(f"a: {value}\n")
        os.utime(path, (0, 0))
        assert read_yaml(path).data == {"a": value}
    path.write_text("a: [\n")
    for _ in range(2):
        with pytest.raises(SpecError):
            read_yaml(path)


def test_a_document_is_the_same_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("a: {b: [1, 2.5, .inf, null, true, 'é', 1e-400]}\nc: 123456789012345678901234567890\n", "utf-8")
    first = read_yaml(path)
    memo.forget()
    assert read_yaml(path) == first
    assert read_yaml(path, "another name").places["a",] == "another name:1:1"


def test_a_result_is_the_same_however_much_is_known() -> None:
    def figures() -> str:
        return podsim.simulate("bert_v1.1_pod16_open").to_json()

    fresh, in_process = figures(), figures()
    memo.forget()
    assert fresh == in_process == figures()


def test_what_was_used_longest_ago_is_dropped() -> None:
    known = memo.Memo(2)
    for key in (1, 2, 1, 3):
        known.get(key, lambda key=key: key)
    assert len(known) == 2
    assert known.get(1, lambda: 0) == 1
    assert known.get(2, lambda: 0) == 0


def test_threads_share_what_is_known() -> None:
    known = memo.Memo(8)

    def value(number: int) -> int:
        return known.get(number % 16, lambda: number % 16)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(value, range(2000))) == [number % 16 for number in range(2000)]
    assert len(known) == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_may_use_what_was_known() -> None:
    code = (
        "import os, threading; from podsim import memo\n"
        "done = threading.Event()\n"
        "def use():\n"
        "    while not done.is_set(): memo.PLANS.get(1, lambda: 1)\n"
        "threading.Thread(target=use).start()\n"
        "for _ in range(200):\n"
        "    child = os.fork()\n"
        "    if not child: os._exit(memo.PLANS.get(1, lambda: 1) - 1)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "done.set()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, check=False).returncode == 0
