"""What a user gets for a wrong file: a message that says what, where and what to do; never a traceback."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.unit.bad_input_cases import CASES, ERROR, SCENARIO, Run, error_of


def test_the_good_scenario_is_good(podsim: Run) -> None:
    assert podsim("run", "good.yaml") == (0, "")


@pytest.mark.parametrize(("old", "new", "message"), CASES.values(), ids=CASES)
def test_a_wrong_scenario(podsim: Run, old: str, new: str, message: str) -> None:
    assert old in SCENARIO
    Path("s.yaml").write_text(SCENARIO.replace(old, new, 1))
    assert podsim("run", "s.yaml") == error_of(message)


FILES = {
    "empty": (b"", "s.yaml: the file is empty\n  do: start from `scenarios/template.yaml`"),
    "only comments": (b"# nothing\n", "s.yaml: the file is empty\n  do: start from `scenarios/template.yaml`"),
    "binary": (b"\x89PNG\r\n\x00\x01", "s.yaml: the file is not text in UTF-8\n  do: name a YAML file"),
    "zeros": (b"a: 1\n\x00", "s.yaml: the file is binary, not text\n  do: name a YAML file"),
    "control characters": (
        b"a: \x01",
        "s.yaml: not valid YAML: unacceptable character #x0001: special characters are not allowed\n"
        "  do: name a YAML file",
    ),
    "a list": (b"- 1\n", "s.yaml:1:1: the file must hold a mapping\n  do: write `key: value` lines"),
    "two documents": (
        b"a: 1\n---\nb: 2\n",
        "s.yaml:2:1: the file holds more than one document\n  do: remove what follows `---`",
    ),
    "an open quote": (
        b'description: "BERT\n',
        "s.yaml:2:1: not valid YAML: found unexpected end of stream\n  do: check quotes, brackets and indentation",
    ),
    "a tab": (
        b"data:\n\tdropout: 0\n",
        "s.yaml:2:1: not valid YAML: found character '\\t' that cannot start any token\n"
        "  do: check quotes, brackets and indentation",
    ),
    "an anchor that contains itself": (
        b"data: &a [*a]\n",
        "s.yaml:1:7: values are nested in more than 50 levels\n"
        "  do: remove brackets, or anchors that contain themselves",
    ),
    "brackets without end": (
        b"data: " + b"[" * 10_000,
        "s.yaml:1:56: values are nested in more than 50 levels\n"
        "  do: remove brackets, or anchors that contain themselves",
    ),
}


def test_anchors_that_explode(podsim: Run) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    Path("s.yaml").write_text("\n".join(lines))
    assert podsim("run", "s.yaml") == error_of(
        "s.yaml:1:28: the file holds more than 5,000 values\n"
        "  do: remove anchors that multiply one another, or split the file"
    )


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_scenario(podsim: Run, content: bytes, message: str) -> None:
    Path("s.yaml").write_bytes(content)
    assert podsim("run", "s.yaml") == error_of(message)


@pytest.mark.parametrize("line", ["", "# nothing", "- 1", "a: 1", "[", "key with words", '"', "k%d: 1"])
def test_a_file_of_a_million_lines_is_refused(podsim: Run, line: str) -> None:
    lines = [line % n if "%d" in line else line for n in range(1_000_000)]
    Path("s.yaml").write_text("\n".join(lines))
    code, message = podsim("run", "s.yaml")
    assert code == ERROR
    assert message.startswith("error: s.yaml")
    assert "\n  do: " in message


def test_a_large_file(podsim: Run) -> None:
    Path("s.yaml").write_text("a: 1\n" * 1_000_000)
    assert podsim("run", "s.yaml") == error_of("s.yaml: the file has more than 256 KiB\n  do: name a smaller YAML file")


NAMES = {
    "nothing like it": (
        "nope",
        "no scenario `nope` was found\n  do: check the path; `podsim list` shows the shipped names",
    ),
    "nearly": (
        "bert_v1.1_pod16_opne",
        "no scenario `bert_v1.1_pod16_opne` was found\n"
        "  do: did you mean `bert_v1.1_pod16_open`? `podsim list` shows the shipped names",
    ),
    "a word of many names": (
        "llama",
        "no scenario `llama` was found\n"
        "  do: write one of `llama2_13b_phased_pod64`, `llama2_13b_pod16`, `llama2_13b_pod16_shards`, "
        "`llama2_70b_phased_pod64`, `llama2_70b_pod64`, `llama2_7b_phased_pod64`, `llama2_7b_pod16_streamed`, "
        "`llama2_7b_pods` and 3 more; `podsim list llama` says what each is",
    ),
    "a pod": (
        "bow_pod46",
        "no scenario `bow_pod46` was found\n"
        "  do: `bow_pod64` is a pod: name a scenario, and `--set system=bow_pod64`; "
        "`podsim list` shows the shipped names",
    ),
    "another suffix": ("good.yml", "no scenario `good.yml` was found\n  do: did you mean `good.yaml`?"),
    "missing file": (
        "my/own.yaml",
        "no scenario `my/own.yaml` was found\n  do: check the path; `podsim list` shows the shipped names",
    ),
    "empty": ("", "the name of the scenario is empty\n  do: check the path; `podsim list` shows the shipped names"),
    "far too long": (
        "a" * 5000,
        f"no scenario `{'a' * 40}…` was found\n  do: check the path; `podsim list` shows the shipped names",
    ),
    "a folder": (".", "`.` is a folder, not a scenario\n  do: name a file in it"),
}


@pytest.mark.parametrize(("name", "message"), NAMES.values(), ids=NAMES)
def test_a_scenario_that_is_not_there(podsim: Run, name: str, message: str) -> None:
    assert podsim("run", name) == error_of(message)


def test_a_folder_does_not_hide_a_shipped_name(podsim: Run) -> None:
    Path("ipu_pod16").mkdir()
    assert podsim("run", "good.yaml") == (0, "")


def test_an_unreadable_file(podsim: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("good.yaml").chmod(0)
    if os.geteuid() == 0:

        def refuse(path: Path, flags: int) -> int:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

        monkeypatch.setattr("podsim.user_file.os.open", refuse)
    assert podsim("run", "good.yaml") == error_of(
        "good.yaml: the file cannot be read: Permission denied\n  do: check the path and its permissions"
    )


def test_a_circle_of_bases(podsim: Run) -> None:
    Path("a.yaml").write_text("base: b.yaml\n")
    Path("b.yaml").write_text("# b\nbase: a.yaml\n")
    assert podsim("run", "a.yaml") == error_of(
        "b.yaml:2:1 [base]: base files form a circle: a.yaml → b.yaml → a.yaml\n  do: remove one `base`"
    )


def test_a_pod_that_is_its_own_base(podsim: Run) -> None:
    Path("pod.yaml").write_text("base: pod.yaml\n")
    assert podsim("run", "good.yaml", "--set", "system=pod.yaml") == error_of(
        "pod.yaml:1:1 [base]: base files form a circle: pod.yaml → pod.yaml\n  do: remove one `base`"
    )


def test_a_missing_base_of_a_scenario(podsim: Run) -> None:
    Path("s.yaml").write_text("base: nope\n")
    assert podsim("run", "s.yaml") == error_of(
        "s.yaml:1:1 [base]: no scenario `nope` was found\n  do: check the path; `podsim list` shows the shipped names"
    )
