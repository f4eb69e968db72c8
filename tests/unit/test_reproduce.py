"""`./dev truth reproduce`: hashes of figures, what differs, and the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from pandas import DataFrame

from podsim.errors import PodsimError
from tools import reproduce as module
from tools.reproduce import FILE, Reproduced, compared, digest_of, kind_of, numbers_of, read, write
from tools.truth import main

ROOT = Path(__file__).resolve().parent.parent.parent
NOW = Reproduced("1.0", "d" * 64, "l" * 64, {"accuracy: BERT": digest_of(1.5), "left out: all": digest_of(2.5)})


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["truth", "reproduce", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture
def agreed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was agreed on, beside a repository whose figures are made at once."""
    path = tmp_path / "reproduced.json"
    write(NOW, path)
    monkeypatch.setattr(module, "reproduced", lambda *_: NOW)
    monkeypatch.setattr(module, "repository", lambda: None)
    monkeypatch.setattr("tools.truth.data_file", lambda _name: path)
    monkeypatch.setattr(module, "data_file", lambda _name: path)
    return path


def test_numbers_are_hashed_to_nine_digits_and_in_order() -> None:
    assert digest_of(1 / 3) == digest_of(0.333333333333)
    assert digest_of(1 / 3) != digest_of(0.33333333)
    assert digest_of([1.0, 2.0]) != digest_of([2.0, 1.0])
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of(-0.0) == digest_of(0.0)
    # `printf '"0.5"' | sha256sum`: a number is hashed as its digits, in quotes.
    assert digest_of(0.5) == "55a1a301b2e39a34ca61eee36a76e8c97ad7c2d71a91906baad643dcfc1f2928"


def test_a_chart_is_its_numbers_and_words() -> None:
    def chart(height: float, note: str) -> Figure:
        figure = Figure()
        axes = figure.subplots()
        axes.bar([0], [height])
        axes.plot([0, 1], [2, 3])
        axes.text(0, 0, note)
        return figure

    (axes,) = numbers_of(chart(4.0, "a"))  # type: ignore[misc]
    assert axes["lines"] == [[[0.0, 2.0], [1.0, 3.0]]]
    assert axes["bars"] == [[-0.4, 0.0, 0.4, 4.0]]
    same, higher, other = (digest_of(numbers_of(chart(*each))) for each in ((4.0, "a"), (4.01, "a"), (4.0, "b")))
    assert digest_of(numbers_of(chart(4.0, "a"))) == same
    assert len({same, higher, other}) == 3


def test_a_frame_is_its_columns_and_its_index() -> None:
    frame = DataFrame({"x": [1.0, 2.0]}, index=["a", "b"])
    assert numbers_of(frame) == {"x": [1.0, 2.0], "index": ["a", "b"]}
    assert numbers_of("mean of 3") == "mean of 3"


def test_what_is_as_agreed_holds(
    agreed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 0
    told = capsys.readouterr().out
    assert "accuracy: 1 of 1 figures are what they were" in told
    assert "all 2 figures are reproduced" in told
    assert f"data {'d' * 12}: the same" in told


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"accuracy: BERT": digest_of(1.6)}, "differs: accuracy: BERT"),
        ({"accuracy: BERT, too": digest_of(1.6)}, "is new: accuracy: BERT, too"),
    ],
)
def test_a_number_that_changed_is_told_with_exit_code_4(
    figures: dict[str, str],
    told: str,
    agreed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = Reproduced(NOW.version, "e" * 64, NOW.lock, {**NOW.figures, **figures})
    monkeypatch.setattr(module, "reproduced", lambda *_: changed)
    assert run(monkeypatch) == 4
    printed = capsys.readouterr().out
    assert told in printed.splitlines()
    assert f"data {'e' * 12}: others than figures were agreed on with" in printed
    assert run(monkeypatch, "--write", "--only", "accuracy") == 2
    assert run(monkeypatch, "--write") == 0
    assert read(agreed) == changed
    assert run(monkeypatch) == 0


def test_a_figure_that_is_gone_is_missing_and_one_whose_kind_was_not_made_is_not(agreed: Path) -> None:
    fewer = Reproduced(NOW.version, NOW.data, NOW.lock, {"accuracy: other": ""})
    found = compared(fewer, None)
    assert found.missing == ["accuracy: BERT"]  # nothing that was left out was made
    assert not found.holds
    assert found.commit == "this is no git repository"


def test_a_file_that_is_no_agreement_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"figures": 1}')
    with pytest.raises(PodsimError, match="what was agreed on cannot be read"):
        read(tmp_path / "x.json")


def test_notebooks_are_run_for_what_their_cells_show(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    cells = ["x = 2", "x + 1", "f'{x} runs'\n"]
    notebook = {"cells": [{"cell_type": "code", "source": [source]} for source in cells]}
    notebook["cells"].append({"cell_type": "markdown", "source": ["x"]})
    (folder / "small.ipynb").write_text(json.dumps(notebook))
    kept: dict[str, object] = {}
    found = dict(module._charts(tmp_path, list, "", kept.__setitem__))
    name = "notebooks/small.ipynb: figure"
    assert found == {f"{name} 1": digest_of("3"), f"{name} 2": digest_of("2 runs")}
    assert kept == {"small_1": 3, "small_2": "2 runs"}
    assert str(tmp_path) not in sys.path
    assert module.reproduced(list, tmp_path, "small").figures == found
    with pytest.raises(PodsimError, match="no figure is of anything with `zzz` in its name") as error:
        module.reproduced(list, tmp_path, "zzz")
    assert error.value.do == "use part of: accuracy, left out, small"


def test_every_notebook_and_the_accuracy_page_are_agreed_on() -> None:
    """A figure for each cell that shows something: as many as the kept notebooks have outputs."""
    kinds = [kind_of(name) for name in read(ROOT / FILE).figures]
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        shown = sum(output["output_type"] == "execute_result" for cell in cells for output in cell.get("outputs", ()))
        assert kinds.count(f"notebooks/{path.name}") == shown > 0, path.name
    assert {"accuracy", "left out"} < {*kinds}
