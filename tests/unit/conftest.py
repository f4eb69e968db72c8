"""The command line in an empty folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from podsim.cli.app import main
from tests.unit.bad_input_cases import SCENARIO, Run


@pytest.fixture
def podsim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in an empty folder with one good scenario, `good.yaml`: exit code and standard error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(SCENARIO)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["podsim", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        output = capsys.readouterr()
        assert not (end.value.code and output.out)
        return int(end.value.code or 0), output.err

    return run
