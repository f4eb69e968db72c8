"""Whatever a file or a mapping holds, loading it gives a scenario or an error that names the place."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podsim.errors import PodsimError, SpecError
from podsim.scenario import data_file, load_scenario
from podsim.scenario.yaml_file import parse_value, parse_yaml, read_yaml
from podsim.units import EXAMPLES, UNITS, QuantityError, parse_quantity

TEMPLATE = read_yaml(data_file("scenarios/template.yaml")).data
POD = {
    "base": "ipu_pod16",
    "machine": {"ipu_count": 4, "ipu": {"clock": {"value": "1 GHz", "source": "x", "basis": "assumed"}}},
}
VALID = {**TEMPLATE, "system": POD}
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["1 GHz", "-1 GHz", "16 GB/s", "nan s", "1e400 B", "ipu_pod16", "ipu_bow", "template", "fp16", "."]
    ),
)
keys = st.text(max_size=8) | st.sampled_from(["base", "value", "kind", "source", "range", "stages", "variants", "<<"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=6
)


def _paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _paths(value, (*path, key))


PATHS = sorted(_paths(VALID), key=str)


def _parent(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        data = data[key]
    return data


def _mangle(data: Any, path: tuple[Any, ...], how: str, value: Any, name: str) -> None:
    try:
        parent, key = _parent(data, path), path[-1]
        old = parent.pop(key)
    except (AttributeError, KeyError, IndexError, TypeError):
        return
    if how == "retype" and isinstance(parent, dict):
        parent[key] = value
    elif how == "retype":
        parent.insert(key, value)
    elif how == "rename" and isinstance(parent, dict):
        parent[name] = old


changes = st.tuples(st.sampled_from(PATHS), st.sampled_from(["delete", "rename", "retype"]), values, keys)


def _says_where(error: PodsimError) -> bool:
    return isinstance(error, SpecError) and all(
        (problem.key or problem.where or "key `" in problem.message) and problem.do for problem in error.problems
    )


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(changes, min_size=1, max_size=3), st.sampled_from([None, "bow", "unpacked"]))
def test_a_mangled_scenario_loads_or_says_where_it_is_wrong(
    mangling: list[tuple[Any, str, Any, str]], variant: str | None
) -> None:
    data = copy.deepcopy(VALID)
    for change in mangling:
        _mangle(data, *change)
    try:
        load_scenario(data, variant)
    except PodsimError as error:
        assert _says_where(error), str(error)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PATHS), values)
def test_any_override_loads_or_says_where_it_is_wrong(path: tuple[Any, ...], value: Any) -> None:
    text = f"{'.'.join(map(str, path))}={value}"
    try:
        load_scenario("template", overrides=[text])
    except PodsimError as error:
        assert _says_where(error), str(error)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_as_a_file_are_refused_with_its_name(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load_scenario(path)
    assert all(problem.where.startswith(str(path)) for problem in caught.value.problems)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab:-[]{}&*?|>!%#'\"\n\t ,0.~<", max_size=30))
def test_any_text_is_a_document_a_value_or_an_error(text: str) -> None:
    parse_value(text)
    try:
        parse_yaml(text, "s.yaml")
    except SpecError as error:
        assert all(problem.where.startswith("s.yaml") and problem.do for problem in error.problems)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_mangled_file_blames_a_line_of_it(data: st.DataObject) -> None:
    lines = data_file("scenarios/template.yaml").read_text(encoding="utf-8").splitlines()
    index = data.draw(st.integers(0, len(lines) - 1))
    line = lines[index]
    lines[index] = data.draw(st.sampled_from(["", line[1:], line + "x", line[:9], "  - 1", line + "\n" + line]))
    try:
        parse_yaml("\n".join(lines), "mangled.yaml")
    except SpecError as error:
        assert all(problem.where.startswith("mangled.yaml:") for problem in error.problems)


@given(st.one_of(st.text(max_size=30), st.floats(), st.integers()), st.sampled_from(sorted(UNITS)))
def test_any_text_is_a_quantity_or_says_what_to_write(text: str | float, dimension: str) -> None:
    try:
        assert isinstance(parse_quantity(text, dimension), float)
    except QuantityError as error:
        assert error.do == f"write for example `{EXAMPLES[dimension]}`"


@given(st.floats(1e-9, 1e9), st.sampled_from([(d, unit) for d, units in UNITS.items() for unit in units]))
def test_a_number_with_its_unit_is_that_many_base_units(number: float, unit: tuple[str, str]) -> None:
    dimension, name = unit
    exact = Decimal(repr(number)) * Decimal(repr(UNITS[dimension][name]))
    assert parse_quantity(f"{number!r} {name}", dimension) == float(exact)
