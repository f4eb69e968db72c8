"""Studies: their points, their rows, and that they go on where they were stopped."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from podsim import simulate
from podsim.cli.app import main
from podsim.errors import BadValueError, OutputError, PodsimError, SpecError
from podsim.scenario.document import Document
from podsim.study.expression import Expression, interpolate
from podsim.study.points import MOST_POINTS, StudySpace, read_study, space_of
from podsim.study.store import Store, typed, write_table
from podsim.study.sweep import _row, sweep
from podsim.study.sweep_report import check_metric

LINK = "system.machine.ipu_link.bandwidth_per_direction"
SMALL: Mapping[str, Any] = {
    "kind": "study",
    "scenario": "bert_v1.1_pod16_open",
    "keys": {LINK: ["8 GB/s", "16 GB/s"], "parallelism.micro_batch_size": [1, 2, 3, 24]},
}


def space(**keys: Any) -> StudySpace:
    return space_of(Document({"kind": "study", "scenario": "template"} | keys))


def values(found: StudySpace) -> list[tuple[object, ...]]:
    return [tuple(point.values.values()) for point in found.points()]


# Expressions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("ipus // per - 1", 15),
        ("2 ** 3 % 5", 3),
        ("-per < 0 <= ipus", True),
        ("ipus == 64 and not per > 4", True),
        ("ipus < 4 or per == 4", True),
        ("ipus and per", True),  # and not 4, as in Python
        ("ipus == 64 and per > 4", False),
        ("ipus < 4 and per == 4", False),
        ("ipus < 4 or per > 4", False),
        ("per == 0 or ipus / per == 16", True),
        ("clock == '1.5 GHz' and clock < '1500.5 MHz'", True),
        ("round(ipus / 7, 1)", 9.1),
        ("round(ipus, -1)", 60),
        ("round(ipus, -64)", 0),
        ("(2**15) ** 64 > 0", True),  # 960 bits, which a float has places for
        ("max(ipus, per, 100) / 8", 12.5),
        ("ceil(7 / 2)", 4),
        ("bandwidth / 1e9", 16),
        ("system.ipu_link.bandwidth", 16e9),
    ],
)
def test_expressions(text: str, value: object) -> None:
    given = {"ipus": 64, "per": 4, "system.ipu_link.bandwidth": "16 GB/s", "system.ipu.clock": "1.5 GHz"}
    assert Expression(text).value(given) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__",
        "[each for each in ()]",
        "lambda: 1",
        "open('x')",
        "1 if 2 else 3",
        "'a'.join('b')",
        "x := 1",
        "2 +",
        "",
        "1" * 501,
        "f'{1}'",
        "1 in 2",
        "2 ** 100",
        "max(key=abs)",
        "'a' * 10**9",
        "((((2**64)**64)**64)**64)**64",
        "(-1) ** 0.5",
        "1e308 * 10",
        "10**64 * 10**64 * 10**64 * 10**64 * 10**64",
        "2 ** 65 == 0",
        "2 ** -65 == 0",
        "(2**64) ** 64 > 0",  # of 65 bits
        "(2**63) ** 64 > 0",  # of 64 bits
        "round(1, -65) == 0",
        "round(1.5, 65) == 0",
        "round(1, -10**9) == 0",
        "1e999 > 0",
        "1e308 * 10 > 0",
        "-1e308 - 1e308 < 0",
        "1 << 10**9",
        "10 | 1",
        "~1",
        "'a' * 3 == 'aaa'",
        "'%1000000000d' % 1 == ''",
        "factorial(10**6) > 0",
        "max([1] * 10**9)",
        "1" * 400 + " > 0",
        "not " * 124 + "(1 == (" + "-" * 180 + "1))",
    ],
)
def test_nothing_else_is_let_through(text: str) -> None:
    with pytest.raises(BadValueError):
        Expression(text).value({})


def test_what_has_no_value_says_why() -> None:
    for text, words in (("1 / zero", "divides by zero"), ("missing + 1", "no key"), ("word * word", "no number")):
        with pytest.raises(BadValueError, match=words):
            Expression(text).value({"zero": 0, "word": "text"})


def test_an_infinite_value_is_no_number() -> None:
    """It would meet any condition, or none, without a word."""
    for value in ("inf GB/s", float("inf"), float("nan"), 10**400):
        with pytest.raises(BadValueError, match="no value"):
            Expression("a > 1").value({"a": value})


def test_expressions_nested_deep_have_their_value_or_are_refused() -> None:
    for text in (
        "-" * 499 + "1",
        "(" * 60 + "1" + " == 1)" * 60,
        "1" + " + 1" * 124,
        "abs(" * 99 + "1" + ")" * 99,
    ):
        try:
            sent = pickle.loads(pickle.dumps(Expression(text)))  # as to another process
            sent.value({})
        except BadValueError as error:
            assert "nested too deep" in str(error)


def hostile(draw: random.Random, depth: int = 0) -> str:
    """An expression that asks for too much: powers of powers, long texts, attributes, comprehensions, deep nesting."""
    if depth > draw.randint(0, 5):
        if draw.random() < 0.8:
            return draw.choice(("1", "2", "3.5", "ipus", "c", "64", "1e-3", "'8 GB/s'"))
        atoms = ("9" * draw.randint(1, 400), "1e308", "2", "-1", "ipus", "'a'", "'8 GB/s'", "a.b.c", "()", "0", "0.1")
        return draw.choice((*atoms, "'" + "x" * draw.randint(1, 400) + "'", "ipus.__class__.__mro__", "\x00", "10**9"))
    one, other = hostile(draw, depth + 1), hostile(draw, depth + 1)
    if draw.random() < 0.8:
        return f"({one}) {draw.choice(('+', '-', '*', '/', '//', '%', '**', '<', '==', 'and', 'or'))} ({other})"
    forms = (
        *(f"({one})**({other})", f"({one})**({other})**9**9**9", f"({one})*({other})", f"({one})<<({other})<<10**9"),
        *(f"[{one} for x in range({other})]", f"sum(1 for x in range({other}))", f"{{{one}: {other}}}", f"({one}).x"),
        *(
            f"({one}).__class__.__bases__[{other}]",
            f"lambda x: {one}",
            f"max({one}, {other})",
            f"round({one}, {other})",
        ),
        *("(" * draw.randint(1, 240) + one, "-" * draw.randint(1, 400) + one, "not " * draw.randint(1, 120) + one),
        *(f"({one})%({other})", f"'%1000000000d' % {one}", f"f'{{{one}}}'", f"'{{:>999999999}}'.format({one})"),
        *(f"({one}) if {other} else 1", f"({one}) < ({other}) < 1", f"({one}) and ({other})", f"{one};{other}"),
        *(f"sqrt({one})", f"ceil(({one})/({other}))", f"abs({one})//({other})", f"__import__('os').system({one})"),
    )
    return draw.choice(forms)


def test_hostile_expressions_end_with_a_number_or_a_cure() -> None:
    """2,500 from a seed. No value has more digits than a float, and no text is longer than the expression."""
    draw, refused = random.Random(29), 0
    for _ in range(2500):
        text = hostile(draw)
        try:
            found = Expression(text).value({"ipus": 64, "a.b.c": "16 GB/s"})
        except BadValueError as error:
            assert error.do and str(error)
            refused += 1
        else:
            assert len(found) <= len(text) if isinstance(found, str) else abs(found) < 1.8e308, text
    assert 800 < refused < 2200


def test_texts_are_filled_in() -> None:
    assert interpolate("${ipus // 4}", {"ipus": 64}) == 16
    assert repr(interpolate("${ipus / 4}", {"ipus": 64})) == "16"  # keys that need whole numbers take it
    assert interpolate("${rate / 1e9 * 2} GB/s of ${word}", {"rate": "8 GB/s", "word": "all"}) == "16 GB/s of all"


# Points


def test_keys_are_crossed_in_the_order_of_the_file() -> None:
    assert values(space(names={"b": [1, 2]}, keys={"a": ["x", "y"]})) == [("x", 1), ("y", 1), ("x", 2), ("y", 2)]


def test_zipped_keys_vary_together() -> None:
    assert values(space(keys={"a": [1, 2], "b": [3, 4], "c": [5, 6]}, zipped=[["a", "b"]])) == [
        *((1, 3, 5), (1, 3, 6)),
        *((2, 4, 5), (2, 4, 6)),
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"from": 1, "to": 3, "count": 3}, [1, 2, 3]),
        ({"from": 0, "to": 1, "count": 5}, [0, 0.25, 0.5, 0.75, 1]),
        ({"from": "2 GB/s", "to": "32 GB/s", "count": 5, "scale": "log"}, [f"{2**n} GB/s" for n in range(1, 6)]),
        ({"from": 1, "to": 10, "count": 4, "scale": "log", "whole": True}, [1, 2, 5, 10]),
        ({"from": 1, "to": 2, "count": 9, "whole": True}, [1, 2]),
        ({"from": 7, "to": 9, "count": 1}, [7]),
        ({"from": "-0 s", "to": "2 s", "count": 2}, ["0 s", "2 s"]),
    ],
)
def test_ranges(written: Mapping[str, object], expected: list[object]) -> None:
    """Equal differences, or equal ratios; whole numbers are taken once."""
    assert values(space(keys={"a": written})) == [(each,) for each in expected]


def test_samples_are_spread_over_ranges_and_repeat_with_their_seed() -> None:
    ranges = {"a": {"from": 0, "to": 1}, "b": {"from": "10 ms", "to": "20 ms"}, "c": ["x", "y"]}
    for method in ("sobol", "latin_hypercube"):
        first, again, other = (
            values(space(keys=ranges, samples={"count": 8, "seed": seed, "method": method})) for seed in (1, 1, 2)
        )
        assert first == again != other
        assert len(first) == 16
        assert sorted(int(float(str(a)) * 8) for a, _, c in first if c == "x") == list(range(8))  # one in each eighth
        assert all(10 <= float(str(b).removesuffix(" ms")) <= 20 for _, b, _ in first)


def test_derived_keys_and_conditions() -> None:
    found = space(
        names={"ipus": [16, 32, 48, 64]}, derived={"replicas": "${ipus // 4}"}, where=["replicas % 8 == 0", "ipus > 16"]
    )
    assert values(found) == [(32, 8), (64, 16)]


def test_both_parts_of_a_condition_count() -> None:
    """Of four points one meets both parts, and three meet one."""
    names = {"a": [1, 2], "b": [1, 2]}
    assert values(space(names=names, where=["a > 1 and b > 1"])) == [(2, 2)]
    assert values(space(names=names, where=["a > 1 or b > 1"])) == [(1, 2), (2, 1), (2, 2)]


def test_a_condition_that_is_a_text_holds_nowhere() -> None:
    """As one in quotes within quotes: it would let every point through."""
    (point,) = space(names={"a": [1]}, where=["'a > 2'"]).points()
    assert "is a text" in str(point.problem)


def test_names_are_no_keys() -> None:
    (point,) = space(names={"ipus": [64]}, derived={"parallelism.replication_factor": "${ipus // 4}"}).points()
    assert point.overrides == ("parallelism.replication_factor=16",)


def test_variants() -> None:
    found = space(scenario=["bert_large_phase1_pod16", "template"], all_variants=True)
    assert {(point.scenario, point.variant) for point in found.points()} >= {("template", None), ("template", "bow")}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"keys": {"a": []}}, "few"),
        ({"unknown": 1}, "unknown key"),
        ({"kind": "pod"}, "this is no study"),
        ({"keys": {"a": [1, 2], "b": [1]}, "zipped": [["a", "b"]]}, "as many values"),
        ({"keys": {"a": [1]}, "zipped": [["a", "z"]]}, "`z`"),
        ({"keys": {"a": {"from": "1 s", "to": "2 ms", "count": 2}}}, "different units"),
        ({"keys": {"a": {"from": 0, "to": 2, "count": 2, "scale": "log"}}}, "linear"),
        ({"keys": {"a": {"from": "x", "to": 2, "count": 2}}}, "numbers"),
        ({"keys": {"a": {"from": 1, "to": 2}}}, "count"),
        ({"keys": {"a": [1]}, "samples": {"count": 4}}, "range"),
        ({"keys": {"a": [1]}, "where": ["b > 1"]}, "`b` is no key"),
        ({"keys": {"a": [1]}, "derived": {"c": "${b}"}}, "`b` is no key"),
        ({"keys": {"x.a": [1], "y.a": [1]}, "where": ["a > 1"]}, "`a` is no key"),
        ({"keys": {"a": [1]}, "where": ["open('x')"]}, "let through"),
        ({"keys": {"a": [1]}, "derived": {"b": "${a"}}, "without its end"),
        ({"keys": {"a": [1]}, "derived": {"b": "${c}", "c": "${a}"}}, "derived further down"),
        ({"keys": {"a": [1]}, "derived": {"a": "${2}"}}, "`keys` already"),
        ({"keys": {"a": [1]}, "names": {"a": [2]}}, "`keys` already"),
        ({"keys": {"scenario": [1]}}, "column of every table"),
        ({"names": {"status": [1]}}, "column of every table"),
        ({"keys": {"a": [1], "b": [1]}, "zipped": [["a", "b"], ["b", "a"]]}, "twice"),
        ({"keys": {"a": {"from": 1, "to": 2, "count": 10**12}}}, "too large"),
        ({"keys": {"a": {"from": 1, "to": 2}}, "samples": {"count": 10**12}}, "too large"),
        ({"keys": {"a": {"from": 1, "to": 2}}, "samples": {"count": 3}}, "power of two"),
        ({"scenario": ["template", "nothing"], "keys": {"a": [1]}}, "no scenario `nothing`"),
        ({"keys": {name: list(range(1000)) for name in "abcd"}}, "1,000,000,000,000 points"),
        (
            {"keys": {name: {"from": 1, "to": 2, "count": 10**7, "whole": True} for name in "abc"}},
            "lists 30,000,000 values",
        ),
        (
            {"keys": {name: {"from": 1, "to": 2} for name in "abc"}, "samples": {"count": 2**23}},
            "lists 25,165,824 values",
        ),
        ({"keys": {"a": [1, float("inf")]}}, "finite"),
        ({"keys": {"a": [float("nan")]}}, "finite"),
        ({"keys": {"a": {"from": "1e999 s", "to": "2 s", "count": 2}}}, "too far"),
        ({"keys": {"a": {"from": -1e308, "to": 1e308, "count": 2, "whole": True}}}, "too far"),
        ({"keys": {"a": {"from": 1e-200, "to": 1e200, "count": 3, "scale": "log"}}}, "linear"),
        ({"keys": {"a": [1]}, "where": ["round(a, -10**9) == 0 or 1 << a"]}, "let through"),
    ],
)
def test_wrong_studies_say_why(keys: Mapping[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        space(**keys)


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ("keys: {}", "s.yaml:3:1 [keys]"),
        ("where: [1 > 0]", "s.yaml:1:1 [keys]"),
        ("keys:\n  a: [1]\n  b: {from: 1 s, to: 2 ms, count: 2}", "s.yaml:5:3 [keys.b]"),
        ("names:\n  a: {from: 1, to: 2}", "s.yaml:4:3 [names.a]"),
        ("keys: {a: [1]}\nsamples: {count: 4}", "s.yaml:4:1 [samples]"),
        ("keys: {a: {from: 1, to: 2}}\nsamples:\n  count: 3", "s.yaml:4:1 [samples]"),
        ("keys: {a: [1, 2], b: [1]}\nzipped:\n  - [a, b]", "s.yaml:5:5 [zipped.0]"),
        ("keys: {a: [1, 2], b: [1, 2]}\nzipped:\n  - [a, b]\n  - [a, b]", "s.yaml:4:1 [zipped]"),
    ],
)
def test_what_is_wrong_with_a_study_has_its_place(keys: str, place: str, tmp_path: Path) -> None:
    study = tmp_path / "s.yaml"
    study.write_text(f"kind: study\nscenario: template\n{keys}\n")
    with pytest.raises(SpecError) as caught:
        read_study(study)
    (problem,) = caught.value.problems
    assert f"{problem.where} [{problem.key}]".endswith(place)


@pytest.mark.parametrize(
    "name", ["weight_update_s", "mfu", "breakdown.matmul", "warnings", "energy_per_run_j", "tokens_per_s"]
)
def test_a_name_is_no_figure(name: str) -> None:
    """The figure would stand in the column of the name."""
    for section, given in (("names", {name: [1, 2]}), ("derived", {name: "${a}"})):
        with pytest.raises(SpecError, match=f"`{name}` is a figure"):
            space(**({"keys": {"a": [1, 2]}} | {section: given}))


@pytest.mark.parametrize(
    "given", [{"a": 3}, {"a": []}, {"a": [None]}, {"a": [{}]}, {"a": {"from": 1, "step": 2, "to": 3}}]
)
def test_a_wrong_list_or_range_is_one_problem(given: Mapping[str, Any]) -> None:
    """Not one for each form that the value could have had."""
    with pytest.raises(SpecError) as caught:
        space(keys=given)
    (problem,) = caught.value.problems
    assert problem.key.removesuffix(".0") == "keys.a"


def test_a_point_without_a_value_costs_no_other() -> None:
    found = space(names={"a": [1, 2, 3]}, derived={"b": "${6 // (a - 2)}"})
    assert [point.problem is None for point in found.points()] == [True, False, True]
    (problem,) = [point.problem for point in found.points() if point.problem]
    assert (problem.key, "divides by zero" in problem.message) == ("derived.b", True)


def test_conditions_keep_points_from_what_is_derived() -> None:
    """So that the advice to exclude points at which a division is by zero can be followed."""
    found = space(names={"a": [1, 2, 3]}, derived={"b": "${6 // (a - 2)}"}, where=["b > 0", "a != 2"])
    assert [point.values for point in found.points()] == [{"a": 3, "b": 6}]
    assert not any(point.problem for point in found.points())


# Rows


def test_a_point_without_a_value_is_a_row_with_its_place(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "kind: study\nscenario: bert_v1.1_pod16_open\nkeys: {parallelism.micro_batch_size: [1, 2]}\n"
        "where:\n  - 1 / (micro_batch_size - 1) > 0\n"
    )
    rows = sweep(study, tmp_path / "t.csv").to_frame()
    assert list(rows["status"]) == ["refused", "done"]
    assert rows["reason"][0].startswith(f"{study}:5:5 [where.0]: ")


def test_a_wrong_key_has_its_place_in_the_study(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("kind: study\nscenario: bert_v1.1_pod16_open\nkeys:\n  parallelism.micro_batch: [1, 2]\n")
    with pytest.raises(SpecError, match=r"study.yaml:4:3 \[parallelism\]: unknown key `micro_batch`"):
        sweep(study, tmp_path / "t.csv")


def test_a_metric_is_refused_before_the_work() -> None:
    for metric in ("breakdown.matmul", "time_to_train_percentiles.p50", "mfu_low"):
        check_metric(metric)
    for metric in ("matmul", "status", "reason"):
        with pytest.raises(PodsimError, match="no column of numbers"):
            check_metric(metric)


def test_a_row_holds_what_a_run_says(tmp_path: Path) -> None:
    swept = sweep(SMALL, tmp_path / "t.parquet")
    frame = swept.to_frame()
    assert swept.by_status == {"done": 6, "does not fit": 2}
    assert list(frame["point"]) == list(range(8))
    for _, row in frame.iterrows():
        overrides = [f"{key}={row[key]}" for key in (LINK, "parallelism.micro_batch_size")]
        if row["status"] == "done":
            result = simulate("bert_v1.1_pod16_open", overrides=overrides)
            assert row["weight_update_s"] == result.weight_update_s
            assert row["breakdown.matmul"] == result.breakdown["matmul"]
            assert pd.isna(row["reason"])
        else:
            assert "In-Processor-Memory" in row["reason"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_row_has_ranges_where_they_are_asked_for(name: str, tmp_path: Path) -> None:
    """As a run gives them, with the units of their figures; a table without them is that of another study."""
    study = {**SMALL, "keys": {"parallelism.micro_batch_size": [2, 24]}}
    frame = sweep(study, tmp_path / name, ranges=True, processes=1).to_frame()
    result = simulate(study["scenario"], overrides=["parallelism.micro_batch_size=2"])
    ends = {
        figure + end: getattr(range_, end[1:]) for figure, range_ in result.ranges.items() for end in ("_low", "_high")
    }
    assert {column: frame[column][0] for column in frame if str(column).endswith(("_low", "_high"))} == ends
    assert len(ends) > 4 and frame["mfu_low"][0] < frame["mfu"][0] < frame["mfu_high"][0]
    assert frame[list(ends)].iloc[1].isna().all()  # does not fit
    units = frame.attrs["unit"]
    assert (units["weight_update_s_low"], units["throughput_samples_per_s_high"]) == ("s", "1/s")
    assert not sweep(study, tmp_path / name, ranges=True).simulated
    with pytest.raises(OutputError, match="not known to be of this study"):
        sweep(study, tmp_path / name)
    with pytest.raises(SpecError, match="is a figure"):
        space(names={"mfu_low": [1, 2]})


def test_a_study_with_ranges_goes_on_with_ranges_alone(tmp_path: Path) -> None:
    def stop(done: int, _total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    study, seen = {**SMALL, "keys": {"parallelism.micro_batch_size": [1, 2]}}, []
    with pytest.raises(KeyboardInterrupt):
        sweep(study, tmp_path / "t.csv", ranges=True, tell=stop)
    with pytest.raises(OutputError, match="holds rows of another study"):
        sweep(study, tmp_path / "t.csv")
    frame = sweep(study, tmp_path / "t.csv", ranges=True, tell=lambda done, _: seen.append(done)).to_frame()
    assert seen == [1, 2] and frame["mfu_low"].notna().all()


def test_csv_holds_the_same(tmp_path: Path) -> None:
    frames = [
        sweep(SMALL, tmp_path / name, processes=count).to_frame() for name, count in (("t.parquet", 2), ("t.csv", 1))
    ]
    pd.testing.assert_frame_equal(*(frame.astype(object).fillna("") for frame in frames), check_dtype=False)


def test_a_column_has_one_type(tmp_path: Path) -> None:
    """Whole numbers beside others are none; what is a number at no point still is one where it has a unit."""
    rows = [{"a": 1, "b": True, "c": 3, "weight_update_s": None, "d": None}, {"a": 2.5, "b": "x", "c": 4}]
    assert repr([list(row.values()) for row in typed(lambda: rows)]) == repr(
        [[1.0, "True", 3, None, None], [2.5, "x", 4, None, None]]
    )
    from pyarrow import parquet

    write_table(tmp_path / "t.parquet", lambda: rows, {})
    types = {field.name: str(field.type) for field in parquet.read_schema(tmp_path / "t.parquet")}
    assert types == {"a": "double", "b": "string", "c": "int64", "weight_update_s": "double", "d": "string"}


def test_units_and_inputs_are_in_the_schema(tmp_path: Path) -> None:
    from pyarrow import parquet

    sweep(SMALL, tmp_path / "t.parquet")
    schema = parquet.read_schema(tmp_path / "t.parquet")
    assert schema.field("weight_update_s").metadata == {b"unit": b"s"}
    assert schema.field("throughput_samples_per_s").metadata == {b"unit": b"1/s"}
    assert json.loads(schema.metadata[b"podsim.inputs"])


def test_a_study_without_a_point_that_loads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown key"):
        sweep({**SMALL, "keys": {"parallelism.micro_bath_size": [1, 2]}}, tmp_path / "t.csv")
    with pytest.raises(SpecError, match="leaves out all of 8"):
        sweep({**SMALL, "where": ["micro_batch_size > 99"]}, tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()


# What is kept


def test_a_study_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = sweep(SMALL, tmp_path / "clean.parquet")
    seen = []

    def stop(done: int, _total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(SMALL, tmp_path / "t.parquet", tell=stop)
    again = sweep(SMALL, tmp_path / "t.parquet", tell=lambda done, _total: seen.append(done))
    assert seen == [3, 4, 5, 6, 7, 8]
    assert again.output.read_bytes() == clean.output.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.parquet", "t.parquet"]


def test_two_studies_do_not_share_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store(path, "one", option="do this") as store:
        store.add([(0, {"status": "done"})])
        with pytest.raises(OutputError, match="another study is writing this") as told:
            Store(path, "one", option="do this")
        assert told.value.do == "wait until it ends, or do this"
    with pytest.raises(OutputError, match="rows of another study, other inputs or another version") as told:
        Store(path, "two", option="do this")
    assert told.value.do == "do this"
    with Store(path, "one") as store:
        assert list(store.rows()) == [{"status": "done"}]
    with Store(path, "two", restart=True) as store:
        assert len(store) == 0
    with Store(path, "three") as store:  # an attempt that found nothing is in nobody's way
        assert len(store) == 0
    assert list(tmp_path.iterdir()) == [path]


def test_a_second_process_is_told_that_a_store_is_in_use(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from podsim.study.store import Store; Store(Path(sys.argv[1]), 'one')"
    with Store(tmp_path / "store", "one") as store:
        for status in ("done", "refused"):
            store.add([(len(store), {"status": status})])
            done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")], capture_output=True, text=True)
            assert "another study is writing this" in done.stderr
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")]).returncode == 0


@pytest.mark.slow
def test_what_was_added_outlives_a_kill_at_any_moment(tmp_path: Path) -> None:
    """A process that was killed leaves all rows of which it said so, whole, and the file to the next one."""
    code = """
import itertools, sys
from pathlib import Path
from podsim.study.store import Store
store = Store(Path(sys.argv[1]), "one")
for first in itertools.count(len(store), 10):
    store.add([(number, {"status": "done", "square": number * number}) for number in range(first, first + 10)])
    print(first + 10, flush=True)
"""
    path, known = tmp_path / "store", 0
    for attempt in range(5):
        child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(1 + 7 * attempt)]
        child.kill()
        said += child.stdout.readlines()
        child.stdout.close()
        child.wait()
        known = int([line for line in said if line.endswith("\n")][-1])
        with Store(path, "one") as store:
            assert len(store) >= known and len(store) % 10 == 0
            assert [row["square"] for row in store.rows()] == [number**2 for number in range(len(store))]
    assert known > 5 * 10


def test_what_is_no_store_is_kept_unless_a_restart_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.journal"
    path.write_text('{"fingerprint": "one"}\n{"point": 0, "status": "done"}\t01234567\n')  # of podsim before SQLite
    before = path.read_bytes()
    with pytest.raises(OutputError, match="is no file of rows") as told:
        sweep(SMALL, tmp_path / "t.csv")
    assert told.value.do == "give another --output, or --restart"
    assert path.read_bytes() == before
    assert sweep(SMALL, tmp_path / "t.csv", restart=True).count == 8
    assert not path.exists()


def test_a_store_of_a_later_format_is_kept_and_named(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store(path, "one") as store:
        store.add([(0, {"status": "done"})])
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 2")
    with pytest.raises(OutputError, match="another version of podsim, in format 2; this one reads 1"):
        Store(path, "one")


@pytest.mark.parametrize("content", ["mine", "mine\n", "[1]\n", "x" * 5000, '{"a": 1}'])
def test_files_that_are_no_store_are_kept(content: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_text(content)
    with pytest.raises(OutputError, match="is no file of rows"):
        Store(path, "two")
    assert path.read_text() == content


def test_a_database_of_something_else_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE row (number INTEGER)")
    before = path.read_bytes()
    with pytest.raises(OutputError, match="database of something else"):
        Store(path, "one")
    assert path.read_bytes() == before
    with Store(path, "one", restart=True) as store:
        assert len(store) == 0
        with pytest.raises(OutputError, match="another study is writing this"):
            Store(path, "one", restart=True)


def test_a_row_that_was_damaged_is_made_again(tmp_path: Path) -> None:
    """Also where it still is JSON, and the table would be wrong: 0.25 with one bit turned is 0.24."""
    path = tmp_path / "store"
    with Store(path, "one") as store:
        store.add((number, {"status": "done", "mfu": 0.25}) for number in range(3))
    content = path.read_bytes()
    at = content.index(b"0.25") + 3
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    made: list[int] = []

    def make(number: int) -> Mapping[str, Any]:
        made.append(number)
        return {"status": "done", "mfu": 0.25}

    with Store(path, "one") as store:
        assert len(store) == 2
        store.fill(make, range(3), processes=1)
        assert len(made) == 1
        assert list(store.rows()) == [{"status": "done", "mfu": 0.25}] * 3


def test_a_row_whose_status_was_damaged_is_made_again(tmp_path: Path) -> None:
    """The status stands beside the row, which has a checksum: as one it would be counted, and as the other shown."""
    with Store(tmp_path / "store", "one") as store:
        store.add((number, {"status": "done"}) for number in range(3))
    with closing(sqlite3.connect(tmp_path / "store", isolation_level=None)) as file:
        file.execute("UPDATE row SET status = 'dome' WHERE number = 1")
    with Store(tmp_path / "store", "one") as store:
        assert (0 in store, 1 in store, 2 in store, store.statuses()) == (True, False, True, {"done": 2})


def test_a_portion_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    """The second row of this portion has a number that SQLite cannot hold."""
    with Store(tmp_path / "store", "one") as store:
        with pytest.raises(OverflowError):
            store.add([(0, {"status": "done"}), (2**63, {"status": "done"})])
        assert list(store.rows()) == [] and 0 not in store
        store.add([(0, {"status": "done"})])
        assert list(store.rows()) == [{"status": "done"}]


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store(path, "one") as store:
        store.add((number, {"status": "done", "text": "x" * 500}) for number in range(100))
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    with pytest.raises(OutputError, match="is damaged"):
        Store(path, "one")


def test_rows_are_by_number_and_by_status(tmp_path: Path) -> None:
    """The last point that a study may have is kept; a row of a number that is known replaces it."""
    with Store(tmp_path / "store", "one") as store:
        for number, status in ((MOST_POINTS - 1, "done"), (5, "refused"), (0, "done"), (5, "done")):
            store.add([(number, {"status": status, "number": number})])
        assert [row["number"] for row in store.rows()] == [0, 5, MOST_POINTS - 1]
        assert store.statuses() == {"done": 3}
        assert (5 in store, 4 in store, -1 in store, MOST_POINTS in store, len(store)) == (True, False, False, False, 3)
        assert store[5] == {"status": "done", "number": 5}


def test_anything_may_read_a_store(tmp_path: Path) -> None:
    with Store(tmp_path / "store", "one") as store:
        store.add([(1, {"status": "done", "mfu": 0.25}), (2, {"status": "does not fit", "reason": "too large"})])
    with closing(sqlite3.connect(tmp_path / "store")) as file:
        found = file.execute("SELECT number, status, json_extract(data, '$.mfu') FROM row").fetchall()
        assert found == [(1, "done", 0.25), (2, "does not fit", None)]
        assert dict(file.execute("SELECT key, value FROM about"))["fingerprint"] == "one"


def test_a_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    with Store(tmp_path / "store", "one", option="look elsewhere") as store:
        store.add([(0, {"status": "done"})])
        store._connection.execute("PRAGMA max_page_count = 4")
        with pytest.raises(OutputError, match="full") as told:
            store.add([(1, {"status": "x" * 100_000})])
        assert told.value.do == "make room or look elsewhere; the same command goes on where this one stopped"
        assert 1 not in store
    with Store(tmp_path / "store", "one") as store:
        assert 0 in store and 1 not in store


def test_a_table_never_replaces_what_the_study_reads(tmp_path: Path) -> None:
    scenario, study = tmp_path / "scenario.csv", tmp_path / "study.csv"
    scenario.write_text("base: bert_v1.1_pod16_open\n")
    study.write_text("kind: study\nscenario: scenario.csv\nkeys: {parallelism.micro_batch_size: [2]}\n")
    for path in (scenario, study):
        before = path.read_text()
        with pytest.raises(OutputError, match="both"):
            sweep(study, path, restart=True)
        assert path.read_text() == before


def test_a_table_of_other_code_is_no_finished_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(SMALL, tmp_path / "t.csv")
    monkeypatch.setattr("podsim.study.sweep.simulator", lambda: "another hash")
    with pytest.raises(OutputError, match="not known to be of this study"):
        sweep(SMALL, tmp_path / "t.csv")


def test_a_table_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        sweep(SMALL, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "mine"
    for name in ("t.txt", "t", "no/t.csv"):
        with pytest.raises(PodsimError):
            sweep(SMALL, tmp_path / name)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_finished_study_is_found_in_its_table(name: str, tmp_path: Path) -> None:
    first = sweep(SMALL, tmp_path / name)
    written = (tmp_path / name).stat().st_mtime_ns
    told: list[int] = []
    again = sweep(SMALL, tmp_path / name, tell=lambda done, _total: told.append(done))
    assert (first.simulated, again.simulated, told) == (True, False, [])
    assert (tmp_path / name).stat().st_mtime_ns == written
    assert (again.by_status, again.count, again.inputs) == (first.by_status, first.count, first.inputs)
    with pytest.raises(OutputError, match="not known to be of this study"):
        sweep({**SMALL, "where": ["micro_batch_size < 3"]}, tmp_path / name)
    (tmp_path / f"broken{name}").write_bytes(b"mine")
    with pytest.raises(OutputError, match="not known to be of this study"):
        sweep(SMALL, tmp_path / f"broken{name}")


def test_many_conditions_are_not_looked_at_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    for limit in (7, 8):
        monkeypatch.setattr("podsim.study.sweep._MANY_POINTS", limit)
        with pytest.raises(SpecError, match="leaves out all of 8"):
            sweep({**SMALL, "where": ["micro_batch_size > 99"]}, tmp_path / "t.csv", look=told.append)
    assert told == [8]


def test_a_csv_that_was_changed_is_no_finished_study(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    sweep({**SMALL, "keys": {"parallelism.micro_batch_size": [24]}}, table)
    about, content = tmp_path / "t.csv.json", table.read_text()
    assert set(json.loads(about.read_text())) == {"version", "fingerprint", "inputs", "sha256"}
    for changed, told in (
        (content + "1\n", about.read_text()),
        (content, "[]"),
        (content, "[" * 100_000),
        (content, None),
    ):
        table.write_text(changed)
        about.unlink() if told is None else about.write_text(told)
        with pytest.raises(OutputError, match="not known to be of this study"):
            sweep({**SMALL, "keys": {"parallelism.micro_batch_size": [24]}}, table)


def test_a_retry_of_a_finished_study_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a loop `until podsim sweep …`, in which an error would never end."""
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(json.dumps({**SMALL, "keys": {"parallelism.micro_batch_size": [24, 25]}}))
    for attempt in ("wrote t.csv", "t.csv holds this study already"):
        monkeypatch.setattr(sys, "argv", ["podsim", "sweep", "s.yaml", "-o", "t.csv"])
        with pytest.raises(SystemExit) as end:
            main()
        assert (end.value.code, attempt in capsys.readouterr().err) == (0, True)


def test_a_name_is_the_shipped_study_and_a_path_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gw_links.yaml").write_text("kind: study\nscenario: template\nkeys: {parallelism.micro_batch_size: [1, 2]}\n")
    assert len(read_study("gw_links")) == 12
    assert len(read_study("gw_links.yaml")) == 2
    with pytest.raises(SpecError, match=r"no study `gw_link` was found(.|\n)*did you mean `gw_links`"):
        read_study("gw_link")
    Path("goal.yaml").write_text("kind: goal\nscenario: template\n")
    with pytest.raises(SpecError, match="`podsim plan` takes goals"):
        read_study("goal.yaml")


def test_another_scenario_can_be_varied(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: bert_v1.1_pod16_open\n")
    study = {**SMALL, "keys": {"parallelism.micro_batch_size": [2, 3]}}
    one = sweep(study, tmp_path / "one.csv").to_frame()
    other = sweep(study, tmp_path / "other.csv", scenario=str(tmp_path / "mine.yaml")).to_frame()
    assert list(one["weight_update_s"]) == list(other["weight_update_s"])
    assert set(other["scenario"]) == {str(tmp_path / "mine.yaml")}
    with pytest.raises(SpecError, match=r"^--scenario \[scenario\]: no scenario `nothing`"):
        sweep(study, tmp_path / "t.csv", scenario="nothing")


@pytest.mark.slow
def test_a_study_that_is_killed_again_and_again_leaves_what_a_clean_one_leaves(tmp_path: Path) -> None:
    """The process that collects rows, or one that simulates; neither has a chance to tidy up."""
    (tmp_path / "study.yaml").write_text(
        json.dumps({**SMALL, "keys": {**SMALL["keys"], LINK: {"from": "8 GB/s", "to": "64 GB/s", "count": 12}}})
    )
    command = [sys.executable, "-m", "podsim", "sweep", "study.yaml", "-o", "t.parquet", "--processes", "2"]
    for attempt in range(12):
        child = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(0.9 + 0.15 * attempt)
        victims = [child.pid] if attempt % 2 else [*_children(child.pid), child.pid][:1]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        if attempt % 2 or child.poll() is not None:
            child.wait()
        else:
            time.sleep(0.3)
            child.kill()
            child.wait()
        if (tmp_path / "t.parquet").exists():
            break
    if not (tmp_path / "t.parquet").exists():
        assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
    clean = subprocess.run([*command[:-4], "-o", "clean.parquet"], cwd=tmp_path, capture_output=True)
    assert clean.returncode == 0
    assert (tmp_path / "t.parquet").read_bytes() == (tmp_path / "clean.parquet").read_bytes()


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@pytest.mark.parametrize(("restart", "again"), [([], "the same command goes"), (["--restart"], "without --restart")])
def test_an_interruption_says_how_much_stands(
    restart: list[str], again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(json.dumps(SMALL))
    made = iter(range(3))

    def interrupted(*point: Any) -> Any:
        if next(made, None) is None:
            raise KeyboardInterrupt
        return _row(*point)

    monkeypatch.setattr("podsim.study.sweep._row", interrupted)
    monkeypatch.setattr(sys, "argv", ["podsim", "sweep", "s.yaml", "-o", "t.csv", *restart])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().err
    assert end.value.code == 130
    assert "stopped: 3 of 8 points are kept" in said and again in said


@pytest.mark.slow
def test_pandas_is_imported_when_it_is_first_used(tmp_path: Path) -> None:
    """It takes half a second to import: only frames need it."""
    (tmp_path / "s.yaml").write_text(json.dumps({**SMALL, "keys": {"parallelism.micro_batch_size": [1, 2]}}))
    code = """
import sys
from podsim.cli.app import main
sweep = ["sweep", "s.yaml", "-o"]
for wish in (["run", "template"], [*sweep, "t.csv"], [*sweep, "u.csv", "--plot", "p.png"]):
    sys.argv = ["podsim", *wish]
    try:
        main()
    except SystemExit as end:
        print(wish[0], end.code or 0, "pandas" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if line.startswith(("run ", "sweep "))]
    assert told == ["run 0 False", "sweep 0 False", "sweep 0 False"]


# A cluster


@pytest.mark.slow
def test_a_cluster_gives_the_same_bytes_though_a_worker_dies(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    study = {**SMALL, "keys": {**SMALL["keys"], LINK: {"from": "8 GB/s", "to": "64 GB/s", "count": 6}}}
    clean = sweep(study, tmp_path / "clean.parquet")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        victim = next(iter(cluster.workers.values())).pid

        def kill(done: int, _total: int) -> None:
            if done == 5:
                os.kill(victim, signal.SIGKILL)

        swept = sweep(study, tmp_path / "t.parquet", scheduler=cluster.scheduler_address, tell=kill)
    assert swept.by_status == clean.by_status
    assert swept.output.read_bytes() == clean.output.read_bytes()


def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("podsim.workers._TIMEOUT_S", 0.2)
    for address in ("tcp://127.0.0.1:9", "no address"):
        with pytest.raises(PodsimError, match=r"no Dask scheduler answers"):
            sweep(SMALL, tmp_path / "t.csv", scheduler=address)


@pytest.mark.slow
def test_wishes_that_cannot_be_met_are_told_without_a_traceback(tmp_path: Path) -> None:
    """A client of Dask that could not connect would complain once more when the process ends."""
    (tmp_path / "s.yaml").write_text(
        "kind: study\nscenario: bert_v1.1_pod16_open\nkeys: {parallelism.micro_batch_size: [64, 65]}\n"
    )
    for wish, words in (
        (["--scheduler", "nonsense"], "no Dask scheduler answers"),
        (["--plot", "p.png"], "no point of this study has figures"),
    ):
        command = [sys.executable, "-m", "podsim", "sweep", "s.yaml", "--output", "t.csv", *wish]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert words in done.stderr
    assert "wrote t.csv" in done.stderr  # no chart is no reason to lose the table
