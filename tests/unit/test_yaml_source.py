"""YAML text to plain data with places; YAML 1.2, no surprises."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import pytest

from podsim.errors import SpecError
from podsim.scenario.document import Document
from podsim.scenario.yaml_file import MAX_FILE_BYTES, parse_value, parse_yaml, read_yaml


def _refusal(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        parse_yaml(text, "s.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-12", -12),
        ("012", 12),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("2021-12-01", "2021-12-01"),
        ('"12"', "12"),
        ("'true'", "true"),
        ("16 GB/s", "16 GB/s"),
        ("0.5 ns", "0.5 ns"),
        ("12 null", "12 null"),
        ("123456789012345678", 123456789012345678),
        ("[1, two]", [1, "two"]),
        ("{a: 1}", {"a": 1}),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert parse_yaml(f"key: {text}", "s.yaml").data == {"key": value}


def test_nan() -> None:
    assert math.isnan(parse_value(".nan"))


@pytest.mark.parametrize("text", ["{a: b", "[1", '"x', "a: b: c", "&a [*a]", "*unknown", "{a: 1, a: 2}", "\x00"])
def test_a_value_that_is_no_yaml_is_text(text: str) -> None:
    assert parse_value(text) == text


def test_the_place_of_every_key_and_item() -> None:
    document = parse_yaml("# note\na:\n  b: 1\nc: [5, {d: 6}]\n", "s.yaml")
    assert document.data == {"a": {"b": 1}, "c": [5, {"d": 6}]}
    assert document.places == {
        (): "s.yaml:2:1",
        ("a",): "s.yaml:2:1",
        ("a", "b"): "s.yaml:3:3",
        ("c",): "s.yaml:4:1",
        ("c", 0): "s.yaml:4:5",
        ("c", 1): "s.yaml:4:8",
        ("c", 1, "d"): "s.yaml:4:9",
    }


def test_the_place_of_what_has_none_is_that_of_its_parent() -> None:
    document = parse_yaml("a:\n  b: 1\n", "s.yaml")
    assert document.where(("a", "x", "y")) == "s.yaml:1:1"
    assert document.where(("a", "b", 0)) == "s.yaml:2:3"
    assert Document({}).where(("a",)) == ""


def test_an_alias_is_what_it_stands_for() -> None:
    assert parse_yaml("a: &x [1]\nb: *x\n", "s.yaml").data == {"a": [1], "b": [1]}


def test_an_anchor_may_be_used_again() -> None:
    assert parse_yaml("a: &x 1\nb: &x 2\nc: *x\n", "s.yaml").data == {"a": 1, "b": 2, "c": 2}


def test_every_repeated_key_is_told_at_once() -> None:
    assert _refusal("a: 1\na: 2\nb: {c: 1, c: 1}\n") == (
        "s.yaml:2:1 [a]: key `a` appears twice, first at s.yaml:1:1\n  do: keep one of the two\n"
        "s.yaml:3:11 [b.c]: key `c` appears twice, first at s.yaml:3:5\n  do: keep one of the two"
    )


def test_a_key_that_looks_the_same_but_is_quoted_is_repeated_too() -> None:
    assert "appears twice" in _refusal("a: 1\n'a': 2\n")


def test_a_mark_at_the_start_is_skipped() -> None:
    assert parse_yaml("\ufeffa: 1\n", "s.yaml").data == {"a": 1}


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{a: " * 50_000, "- " * 100_000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert "nested in more than 50 levels" in _refusal(text)


@pytest.mark.parametrize("line", ["- 1", "- {a: 1}", "? ", "# nothing", "a", '"', "k%d: 1", "- |"])
def test_a_file_as_large_as_may_be_is_answered(line: str) -> None:
    lines = [line % n if "%d" in line else line for n in range(MAX_FILE_BYTES // (len(line) + 1))]
    assert "\n  do: " in _refusal("\n".join(lines)[:MAX_FILE_BYTES])


def test_a_file_is_read_with_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"a: 1\r\nb: 2\r\n")
    document = read_yaml(path, "mine.yaml")
    assert document.data == {"a": 1, "b": 2}
    assert document.where(("b",)) == "mine.yaml:2:1"
    assert document.inputs == (("mine.yaml", hashlib.sha256(b"a: 1\r\nb: 2\r\n").hexdigest()),)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        read_yaml(tmp_path, "mine")
    assert str(caught.value) == "mine: this is a folder, not a file\n  do: name a file in it"
