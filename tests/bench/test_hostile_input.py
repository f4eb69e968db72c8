"""Files built to be slow are answered at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from podsim.errors import SpecError
from podsim.scenario import load_scenario
from podsim.scenario.yaml_file import MAX_FILE_BYTES, parse_yaml


def time_of_refusal_s(text: str) -> float:
    """Processor time from a text to the message about it. [s]"""
    start = time.process_time()
    with pytest.raises(SpecError):
        parse_yaml(text, "s.yaml")
    return time.process_time() - start


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{a: " * 50_000, "- " * 100_000])
def test_deep_nesting(text: str) -> None:
    assert time_of_refusal_s(text) < 1


@pytest.mark.parametrize("line", ["- 1", "- {a: 1}", "? ", "# nothing", "a", '"', "k%d: 1", "- |"])
def test_a_file_as_large_as_may_be(line: str) -> None:
    lines = [line % n if "%d" in line else line for n in range(MAX_FILE_BYTES // (len(line) + 1))]
    assert time_of_refusal_s("\n".join(lines)[:MAX_FILE_BYTES]) < 2


@pytest.mark.parametrize("line", ["", "# nothing", "- 1", "a: 1", "[", "key with words", '"', "k%d: 1"])
def test_a_file_of_a_million_lines(line: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("\n".join(line % n if "%d" in line else line for n in range(1_000_000)))
    start = time.process_time()
    with pytest.raises(SpecError):
        load_scenario(path)
    assert time.process_time() - start < 2
