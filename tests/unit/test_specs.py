"""Files to specifications: bases, overrides, variants, names, assumptions and schemas."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from podsim.errors import SpecError
from podsim.scenario import (
    data_file,
    json_schema,
    load_hardware,
    load_ipu,
    load_scenario,
    shipped_names,
    variant_names,
)
from podsim.scenario.assumptions import assumptions, with_value
from podsim.scenario.base import HardwareSpec
from podsim.scenario.document import Document
from podsim.scenario.load import KINDS
from podsim.scenario.quantity import quantity_of
from podsim.scenario.resolve import assigned, merge
from podsim.scenario.yaml_file import read_yaml
from tests.cases import every_case
from tests.unit.bad_input_cases import SCENARIO

HARDWARE = sorted(path for path in data_file("hardware_specs").glob("*.yaml") if path.stem != "references")
SOFTWARE = sorted(data_file("hardware_specs/software").glob("*.yaml"))
SCENARIOS = sorted(data_file("scenarios").rglob("*.yaml"))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(SCENARIO)


def _kind(path: Path) -> str:
    return str(read_yaml(path).data.get("kind", "scenario"))


@every_case("path", lambda: HARDWARE + SOFTWARE)
def test_every_shipped_part_loads_by_name(path: Path) -> None:
    spec, _ = load_hardware(path.stem, _kind(path))
    assert spec.kind == _kind(path)  # type: ignore[attr-defined]


@every_case("name", lambda: shipped_names()["scenarios"])
def test_every_shipped_scenario_loads_with_every_variant(name: str) -> None:
    for variant in (None, *variant_names(name)):
        loaded = load_scenario(name, variant)
        assert loaded.name == (f"{name}:{variant}" if variant else name)
        assert loaded.spec.description or variant, "says what it is about"
        assert all(len(digest) == 64 for _, digest in loaded.inputs)


@cache
def validator(kind: str) -> Any:
    """Checks documents of a kind against its JSON schema."""
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft202012Validator(json_schema(kind))


@every_case("path", lambda: HARDWARE + SOFTWARE + SCENARIOS)
def test_the_json_schema_accepts_every_shipped_file(path: Path) -> None:
    assert not list(validator(_kind(path)).iter_errors(read_yaml(path).data))


@pytest.mark.parametrize(
    "text",
    ["colour: red", "parallelism: {micro_bach_size: 1}", "system: {machine: {ipu_cuont: 4}}", "model: {size: huge}"],
)
def test_the_json_schema_refuses_what_loading_refuses(text: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    Path("wrong.yaml").write_text(f"base: mine\n{text}\n")
    with pytest.raises(SpecError):
        load_scenario("wrong.yaml")
    with pytest.raises(jsonschema.ValidationError):
        validator("scenario").validate(read_yaml(Path("wrong.yaml")).data)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_schema_whose_references_resolve(kind: str) -> None:
    schema = json_schema(kind)
    text = json.dumps(schema)
    used = {part.partition('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert used == set(schema.get("$defs", {}))
    assert all("base" in part["properties"] for part in schema.get("anyOf", [schema]))


def test_a_base_is_taken_over_key_by_key() -> None:
    Path("child.yaml").write_text("base: mine\nmodel: {layer_count: 12}\nparallelism: {layers_per_ipu: [12]}\n")
    loaded = load_scenario("child.yaml")
    assert loaded.spec.model.layer_count == 12
    assert loaded.spec.model.hidden_size == 1024
    assert loaded.spec.parallelism.layers_per_ipu == [12]
    assert loaded.spec.parallelism.accumulation_factor == 96
    assert {"mine.yaml", "child.yaml"} <= {name for name, _ in loaded.inputs}
    assert loaded.where("model", "layer_count") == "child.yaml:2:9 [model.layer_count]"
    assert loaded.where("model", "size") == "mine.yaml:3:21 [model.size]"


def test_a_base_of_a_base() -> None:
    Path("child.yaml").write_text("base: mine\nmodel: {size: tiny}\nparallelism: {layers_per_ipu: [2]}\n")
    Path("grandchild.yaml").write_text("base: child\ndata: {dropout: 0.0}\n")
    spec = load_scenario("grandchild.yaml").spec
    assert (spec.model.layer_count, spec.data.dropout, spec.data.sequence_length) == (2, 0.0, 128)


def test_a_quantity_with_its_source_is_replaced_as_a_whole() -> None:
    spec = load_scenario("mine", overrides=["system.machine.ipu.clock=2 GHz"]).spec
    clock = spec.system.machine.ipu.clock_hz
    given = clock.provenance
    assert (clock, given.text, given.source, given.basis, given.note) == (2e9, "2 GHz", "given", "assumed", None)
    assert spec.system.machine.ipu.tile.count == 1472


def test_lists_are_replaced_as_a_whole() -> None:
    merged = merge(Document({"a": [1, 2, 3], "b": 1}), Document({"a": [4]}))
    assert merged.data == {"a": [4], "b": 1}


def test_places_of_what_was_replaced_are_forgotten() -> None:
    base = Document({"a": {"b": 1}}, {("a",): "old:1", ("a", "b"): "old:2"})
    merged = merge(base, Document({"a": 3}, {("a",): "new:1"}))
    assert merged.where(("a", "b")) == "new:1"


def test_keys_over_a_name_change_a_part_of_what_it_stands_for() -> None:
    spec = load_scenario("mine", overrides=["system.machine.ipu=ipu_bow", "system.machine_count=8"]).spec
    assert spec.system.machine.ipu.name == load_ipu("bow").name
    assert spec.system.ipu_count == 32
    assert spec.system.machine.ipu_link == load_scenario("mine").spec.system.machine.ipu_link


def test_overrides_are_applied_in_order_and_last() -> None:
    Path("child.yaml").write_text("base: mine\ndata: {dropout: 0.2}\n")
    overrides = ["data.dropout=0.3", "data.dropout=0.4"]
    assert load_scenario("child.yaml", overrides=overrides).spec.data.dropout == 0.4


def test_an_override_says_where_it_came_from() -> None:
    document = merge(Document({"a": {"b": 1}}, {("a",): "f:1"}), assigned("a.c = [1, x]"))
    assert document.data == {"a": {"b": 1, "c": [1, "x"]}}
    assert document.where(("a", "c", 1)) == "--set a.c = [1, x]"


def test_an_override_may_hold_an_equals_sign() -> None:
    assert load_scenario("mine", overrides=["description=a=b"]).spec.description == "a=b"


def test_a_variant_lies_over_the_file_and_under_the_overrides() -> None:
    with Path("mine.yaml").open("a") as file:
        file.write("variants:\n  wet: {data: {dropout: 0.2, attention_dropout: 0.3}}\n  dry: {data: {dropout: 0.0}}\n")
    assert variant_names("mine.yaml") == ("wet", "dry")
    assert load_scenario("mine").spec.data.dropout == 0.1
    loaded = load_scenario("mine", "wet", ["data.dropout=0.4"])
    assert (loaded.spec.data.dropout, loaded.spec.data.attention_dropout) == (0.4, 0.3)
    assert loaded.name == "mine:wet"
    assert loaded.where("data", "attention_dropout") == "mine.yaml:12:30 [data.attention_dropout]"


def test_variants_of_a_base_are_not_inherited() -> None:
    Path("child.yaml").write_text("base: template\n")
    assert variant_names("template") != ()
    assert variant_names("child.yaml") == ()


OWN_POD = "base: ipu_pod64\nname: my own\n"
NOT_READ = "`ipu_pod16` is the shipped pod; `{0}` was not read: write `{1}` to use it"


def test_a_shipped_name_is_the_shipped_file_whatever_lies_beside_or_in_the_working_folder() -> None:
    Path("study").mkdir()
    Path("study/s.yaml").write_text(SCENARIO)
    for path in (Path("ipu_pod16.yaml"), Path("study/ipu_pod16.yaml")):
        path.write_text(OWN_POD)
    assert load_scenario("mine").spec.system.name == "IPU-POD16"
    assert load_scenario("mine").notices == (NOT_READ.format("ipu_pod16.yaml", "./ipu_pod16.yaml"),)
    loaded = load_scenario("study/s.yaml")
    assert loaded.spec.system.name == "IPU-POD16"
    assert loaded.notices == (
        "shipped files were used in place of files of their names that differ: `study/ipu_pod16.yaml`, "
        "`ipu_pod16.yaml` were not read; write the path, such as `study/ipu_pod16.yaml`, to use one",
    )
    assert load_scenario("bert_v1.1_pod16_open", overrides=["system=ipu_pod16"]).spec.system.name == "IPU-POD16"


def test_files_equal_to_the_shipped_ones_are_no_matter_for_a_warning() -> None:
    """As in a clone, where all of them lie; of those that differ, three are named."""
    Path("hardware_specs").mkdir()
    for name in ("ipu_pod16", "ipu_m2000", "ipu_gc200"):
        Path(f"hardware_specs/{name}.yaml").write_bytes(data_file(f"hardware_specs/{name}.yaml").read_bytes())
    assert load_scenario("mine").notices == ()
    for name in ("ipu_pod16", "ipu_m2000", "ipu_gc200"):
        Path(f"{name}.yaml").write_text("kind: pod\n")
    with Path("hardware_specs/ipu_pod16.yaml").open("a") as file:
        file.write("# mine\n")
    (notice,) = load_scenario("mine").notices
    assert "`ipu_pod16.yaml`, `hardware_specs/ipu_pod16.yaml`, `ipu_m2000.yaml` and 1 more were not read" in notice


@pytest.mark.parametrize("written", ["./ipu_pod16.yaml", "ipu_pod16.yaml", "./ipu_pod16"])
def test_a_path_is_the_file_that_it_names(written: str) -> None:
    Path("ipu_pod16.yaml").write_text(OWN_POD)
    for scenario in ("mine", "bert_v1.1_pod16_open"):
        loaded = load_scenario(scenario, overrides=[f"system={written}"])
        assert (loaded.spec.system.name, loaded.notices) == ("my own", ())


def test_scenarios_bases_and_chips_are_not_shadowed_either() -> None:
    Path("bert_v1.1_pod16_open.yaml").write_text(SCENARIO.replace("large", "base").replace("6, 6, 6, 6", "3, 3, 3, 3"))
    Path("ipu_bow.yaml").write_text("base: ipu_gc200\nkind: ipu\nname: my own\nclock: 3 GHz\n")
    Path("child.yaml").write_text("base: bert_v1.1_pod16_open\n")
    for loaded in (load_scenario("bert_v1.1_pod16_open"), load_scenario("child.yaml")):
        assert loaded.spec.model.layer_count == 24
        assert any("`./bert_v1.1_pod16_open.yaml`" in notice for notice in loaded.notices)
    assert load_ipu("bow").clock_hz == 1.85e9
    assert load_scenario("./bert_v1.1_pod16_open.yaml").spec.model.layer_count == 12


def test_a_name_that_is_not_shipped_is_looked_up_beside_and_then_in_the_working_folder() -> None:
    Path("study").mkdir()
    Path("study/s.yaml").write_text(SCENARIO.replace("ipu_pod16", "my_pod"))
    Path("my_pod.yaml").write_text("base: ipu_pod64\nname: from the working folder\n")
    assert load_scenario("study/s.yaml").spec.system.name == "from the working folder"
    Path("study/my_pod.yaml").write_text("base: ipu_pod64\nname: beside the scenario\n")
    assert load_scenario("study/s").spec.system.name == "beside the scenario"
    assert load_scenario("study/s", overrides=["system=my_pod"]).spec.system.name == "from the working folder"


def test_names_of_a_base_are_looked_up_beside_the_base() -> None:
    Path("study").mkdir()
    Path("study/s.yaml").write_text(SCENARIO.replace("ipu_pod16", "{base: my_pod, machine: my_machine}"))
    Path("study/my_pod.yaml").write_text("base: ipu_pod16\nname: Mine\n")
    Path("study/my_machine.yaml").write_text("kind: machine\nbase: bow_2000\nname: My own\n")
    Path("child.yaml").write_text("base: study/s.yaml\nsystem: {host_count: 2}\n")
    system = load_scenario("child.yaml").spec.system
    assert (system.name, system.machine.name, system.host_count) == ("Mine", "My own", 2)


def test_a_scenario_is_the_shipped_one_by_its_files_alone() -> None:
    assert load_scenario("bert_v1.1_pod16_open").shipped_name == "bert_v1.1_pod16_open"
    assert load_scenario("bert_v1.1_pod16_open", overrides=["run.seed=0"]).shipped_name is None
    assert load_scenario("template", "bow").shipped_name == "template@bow"
    assert load_scenario({"base": "bert_v1.1_pod16_open"}).shipped_name is None
    text = data_file("scenarios/mlperf/bert_v1.1_pod16_open.yaml").read_text()
    Path("bert_v1.1_pod16_open.yaml").write_text(text.replace("system: ipu_pod16", "system: ./ipu_pod16.yaml"))
    Path("ipu_pod16.yaml").write_text("base: ipu_pod64\n")
    assert load_scenario("./bert_v1.1_pod16_open.yaml").shipped_name is None


def test_a_mapping_is_a_scenario_too() -> None:
    mapping = dict(read_yaml(Path("mine.yaml")).data)
    loaded = load_scenario(mapping)
    assert loaded.spec == load_scenario("mine").spec
    assert loaded.name == "scenario"


def test_a_wrong_mapping_is_blamed_by_key_alone() -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario({**read_yaml(Path("mine.yaml")).data, "system": 3})
    assert str(caught.value) == (
        "[system]: needs the name of a pod, or a mapping, not `3`\n  do: write for example `system: ipu_pod64`"
    )


def test_assumptions_carry_their_basis_and_source() -> None:
    spec = load_scenario("mine", overrides=["system.machine.ipu.clock=2 GHz"]).spec
    found = {assumption.key: assumption for assumption in assumptions(spec)}
    assert all(each.basis in ("derived", "calibrated", "assumed") or each.range for each in found.values())
    assert all(each.source for each in found.values())
    clock = found["system.machine.ipu.clock"]
    assert (clock.value, clock.basis, clock.source) == ("2 GHz", "assumed", "given")
    assert "system.machine.ipu.tile.memory" not in found


def test_a_shipped_assumption_says_why() -> None:
    found = assumptions(load_scenario("mine").spec)
    assert found
    assert [each.key for each in found if not each.note and each.basis == "assumed" and each.range is None] == []


def test_the_range_of_an_assumption_is_in_base_units() -> None:
    text = "system.machine.ipu_link.hop_latency={value: 1 us, source: me, basis: assumed, range: [0.5 us, 2 us]}"
    found = {assumption.key: assumption for assumption in assumptions(load_scenario("mine", overrides=[text]).spec)}
    assert found["system.machine.ipu_link.hop_latency"].range == (0.5e-6, 2e-6)


def test_a_number_is_plain_and_knows_what_it_stands_on() -> None:
    tile = load_ipu("gc200").tile
    assert (tile.count, type(tile.count + 0), tile.memory_bytes) == (1472, int, 624 * 1024)
    assert type(load_ipu("gc200").clock_hz * 1.0) is float
    for same in (copy.deepcopy(tile.count), pickle.loads(pickle.dumps(tile.count))):
        assert (same, same.provenance.source) == (1472, "ipu_programmers_guide")


def test_a_moved_number_keeps_what_it_stands_on() -> None:
    chip = with_value(load_ipu("gc200"), "tile.count", 736.2)
    assert (chip.tile.count, chip.tile.count.provenance.text) == (736, "1472")  # tiles are whole
    assert chip.amp == load_ipu("gc200").amp


UNITS_IN_NAMES = {"hz": "_hz", "s": "_s", "bytes_per_s": "_bytes_per_s", "cycles": "_cycles", "bytes": "bytes"}


def _parts(model: type[HardwareSpec]) -> Iterator[type[HardwareSpec]]:
    for part in model.__subclasses__():
        yield part
        yield from _parts(part)


@pytest.mark.parametrize("part", [*_parts(HardwareSpec)], ids=lambda part: part.__name__)
def test_attributes_of_hardware_say_their_unit(part: type[HardwareSpec]) -> None:
    read = {name: quantity_of(declared) for name, declared in part.model_fields.items()}
    units = {name: UNITS_IN_NAMES.get(quantity.dimension, "") for name, quantity in read.items() if quantity}
    assert [name for name, unit in units.items() if unit not in name] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("gw_links", r"this is a study(.|\n)*`podsim sweep`"), ("bert_large_in_12_hours", "`podsim plan`")],
)
def test_a_question_about_many_scenarios_names_its_command(name: str, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        load_scenario(name)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("scenario", "override", "words"),
    [
        (
            "bert_v1.1_pod16_open",
            "data.batches_per_call=2",
            "`batches_per_call` in training; it belongs to forward passes",
        ),
        ("llama2_7b_pods", "precision.products=fp8", "in text generation; it belongs to training and forward passes"),
        ("bert_v1.1_pod16_open", "parallelism.batches_in_flight=2", "in training; it belongs to text generation"),
        ("bert_v1.1_pod16_open", "precision.weight=fp16", r"unknown key `weight`\n"),  # nobody knows it
    ],
)
def test_a_key_of_another_activity_says_whose_it_is(scenario: str, override: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_scenario(scenario, overrides=[override])


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("attention_copies", "`layout_change_cycles_per_byte`"),
        ("collective_both_ways", "`collective_rings`"),
        ("collective_both_ways_along_torus", "`collective_rings`"),
        ("collective_link_share", "`collective_rings`"),
        ("collective_step_latency", "`first_hop_latency` and `hop_latency`"),
        ("gateway_hops", "`gw_link.fragment_size`"),
    ],
)
def test_a_key_of_an_earlier_version_says_what_took_its_place(key: str, instead: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario("bert_v1.1_pod16_open", overrides=[f"software.{key}=2"])
    (problem,) = caught.value.problems
    assert (problem.key, problem.message) == ("software", f"`{key}` is no longer a key")
    assert problem.do is not None and instead in problem.do


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_plain_data_holds_finite_numbers(value: float) -> None:
    with pytest.raises(SpecError, match="is not a finite number"):
        load_scenario({"base": "template", "expect": {"mfu": value}})
