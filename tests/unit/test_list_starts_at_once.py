"""`podsim list` and `podsim run` without options: the same text as from the parser, which is not imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from podsim import __main__, disk, memo
from podsim.scenario import catalogue as module
from podsim.scenario.catalogue import catalogue

HEAVY = ("typer", "pydantic", "ruamel.yaml", "rich", "numpy")


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[str, object]:
    monkeypatch.setattr(sys, "argv", ["podsim", *words])
    with pytest.raises(SystemExit) as end:
        __main__.main()
    output = capsys.readouterr()
    return output.out + output.err, end.value.code or 0


@pytest.mark.parametrize("words", [(), ("bert", "pod64"), ("systems",), ("nothinghere",)])
def test_it_says_what_the_parser_would_have_it_say(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = said(capsys, monkeypatch, "list", *words)
    assert at_once == said(capsys, monkeypatch, "list", "--format", "table", *words)
    assert at_once[1] == (2 if "nothinghere" in words else 0)


def test_what_takes_long_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from podsim import __main__; sys.argv = ['podsim', 'list', 'squad']\n"
        "try: __main__.main()\n"
        f"except SystemExit as end: print(end.code, sorted(set(sys.modules) & {set(HEAVY)}))"
    )
    for found in (None, "0 []"):  # what is kept on disk is made by the first
        run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        last = run.stdout.splitlines()[-1]
        assert found in (None, last)
        assert "squad" in run.stdout


@pytest.mark.parametrize("name", ["bert_v1.1_pod16_open", "bert_v1.1_pod17"])
def test_a_plain_run_is_that_of_the_parser(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = said(capsys, monkeypatch, "run", name)
    assert at_once == said(capsys, monkeypatch, "run", name, "--format", "table")
    assert at_once[1] == (0 if name.endswith("open") else 2)


def test_a_plain_run_of_a_transformer_imports_no_parser_and_no_other_activity(tmp_path: Path) -> None:
    others = ("typer", "podsim.scenario.generation", "podsim.scenario.convnet_training", "podsim.placement.generation")
    code = (
        "import sys; from podsim import __main__; sys.argv = ['podsim', 'run', 'bert_v1.1_pod16_open']\n"
        "try: __main__.main()\n"
        f"except SystemExit as end: print(end.code, sorted(set(sys.modules) & {set(others)}))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "0 []"


def test_it_is_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk.SWITCH, str(tmp_path / "kept"))
    memo.forget()
    (tmp_path / "one.yaml").write_text("description: first\nmodel: {kind: bert}\nsystem: ipu_pod16\n")
    monkeypatch.setattr(module, "shipped_files", lambda kind: [tmp_path / "one.yaml"] if kind == "scenario" else [])
    made = catalogue()
    assert [scenario.description for scenario in made.scenarios] == ["first"]
    with monkeypatch.context() as patch:
        patch.setattr(module, "_catalogue_of", None)
        assert catalogue() == made
    (tmp_path / "one.yaml").write_text("description: second\nmodel: {kind: bert}\nsystem: ipu_pod16\n")
    assert [scenario.description for scenario in catalogue().scenarios] == ["second"]
