"""What was asked for is laid over a scenario, however it was asked for, and nothing that was written is lost unsaid."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any, get_args

import pytest

import podsim
from podsim.errors import SpecError
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.quantity import Real, Whole, quantity_of
from podsim.units import parse_quantity
from tests.unit.bad_input_cases import SCENARIO

VERBS = {
    "simulate": "good.yaml",
    "generate": "llama2_7b_pod16_streamed",
    "infer": "e5_large_pod4",
    "serve": "llama2_7b_pod16_streamed",
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    variants = "variants:\n  dry: {data: {dropout: 0.0}}\n  bow: {system: bow_pod16}\n"
    Path("good.yaml").write_text(SCENARIO + variants)
    Path("hosts.yaml").write_text(SCENARIO.replace("ipu_pod16", "{base: ipu_pod16, host_count: 2}"))
    fast = "{base: ipu_pod16, host_count: 4, machine: {ipu: {clock: 1.6 GHz}}}"
    Path("fast.yaml").write_text(SCENARIO.replace("ipu_pod16", fast))


def _error(source: Any, **given: Any) -> str:
    with pytest.raises(SpecError) as caught:
        load_scenario(source, **given)
    return str(caught.value)


@pytest.mark.parametrize(("verb", "name"), VERBS.items())
def test_every_verb_lays_overrides_over_a_loaded_scenario(verb: str, name: str) -> None:
    loaded = load_scenario(name)
    run = getattr(podsim, verb)
    with pytest.raises(SpecError, match="unknown key `complete`"):
        run(loaded, overrides=["complete.nonsense=7"])
    with pytest.raises(SpecError, match="there is no variant `nonsense`"):
        run(loaded, variant="nonsense")


def test_an_override_of_a_loaded_scenario_counts_in_the_result() -> None:
    loaded = load_scenario("good.yaml")
    asked = podsim.simulate(loaded, overrides=["parallelism.accumulation_factor=48"])
    assert asked.weight_update_ps == podsim.simulate("good.yaml", overrides=asked_for()).weight_update_ps
    assert asked.weight_update_ps < podsim.simulate(loaded).weight_update_ps


def asked_for() -> list[str]:
    """The override of the test above."""
    return ["parallelism.accumulation_factor=48"]


def test_more_is_laid_over_what_was_asked_for_before() -> None:
    loaded = load_scenario("good.yaml", "dry", ["model.split_qkv=true"])
    again = load_scenario(loaded, overrides=["system=bow_pod16"])
    assert (again.name, again.spec.system.name) == ("good:dry", "Bow Pod16")
    assert (again.spec.model.split_qkv, again.spec.data.dropout) == (True, 0.0)
    assert again == load_scenario("good.yaml", "dry", ["model.split_qkv=true", "system=bow_pod16"])
    assert load_scenario(loaded) is loaded
    assert load_scenario(loaded, "dry") == loaded


@pytest.mark.parametrize(
    "overrides",
    [
        ["system.machine.ipu.clock=1.5 GHz"],
        ["parallelism.accumulation_factor=48", "system.machine.ipu_link.hop_latency=1 us", "system.host_count=400"],
        ["system.host_count=2", "system=bow_pod16"],
        ["data.samples_per_epoch=1000", "system.machine.ipu.clock=1.5 GHz"],
    ],
)
@pytest.mark.parametrize("own", [{}, {"data": {"samples_per_epoch": 2000}}])
def test_values_over_a_loaded_scenario_are_as_if_it_was_read_with_them(
    overrides: list[str], own: dict[str, Any]
) -> None:
    """Also where its end of a run belongs to other data, and is left out."""
    source = {"base": "bert_v1.1_pod16_open", **own}
    over, read = load_scenario(load_scenario(source), overrides=overrides), load_scenario(source, overrides=overrides)
    assert (over.spec, over.notices, over.overrides) == (read.spec, read.notices, read.overrides)
    assert over.document.data == read.document.data
    assert over.document.places == read.document.places
    assert list(over.changes) == list(read.changes)
    one_by_one = load_scenario(source)
    for override in overrides:
        one_by_one = load_scenario(one_by_one, overrides=[override])
    assert one_by_one.spec == read.spec


def test_a_second_variant_cannot_be_laid_over_the_first() -> None:
    assert _error(load_scenario("good.yaml", "dry"), variant="bow") == (
        "[variants]: good:dry was loaded with variant `dry`; `bow` cannot be laid over it\n"
        "  do: load it again, with the variant that is meant"
    )


def test_a_loaded_scenario_travels_to_another_process() -> None:
    loaded = load_scenario("hosts.yaml", overrides=["system=bow_pod16"])
    there: LoadedScenario = pickle.loads(pickle.dumps(loaded))
    assert there == loaded == copy.deepcopy(loaded)
    assert load_scenario(there, overrides=["system.host_count=2"]).spec.system.host_count == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"overrides": [5]}, "--set 5: this is not KEY=VALUE\n  do: write for example `--set system=bow_pod64`"),
        (
            {"overrides": "a=b"},
            "[overrides]: needs a list of texts or a mapping, not `a=b`\n"
            '  do: give for example `{"system": "bow_pod64"}`',
        ),
        (
            {"overrides": 5},
            "[overrides]: needs a list of texts or a mapping, not `5`\n"
            '  do: give for example `{"system": "bow_pod64"}`',
        ),
        ({"variant": 3}, "[variant]: needs a name, not `3`\n  do: give a name, or leave it out"),
        (
            {"overrides": ["a." * 60 + "b=1"]},
            f"--set {'a.' * 20}…: a key of 61 parts\n  do: no key is nested that deep; `podsim schema` shows all",
        ),
    ],
)
def test_arguments_of_another_type(given: dict[str, Any], message: str) -> None:
    assert _error("good.yaml", **given) == message
    assert _error(load_scenario("good.yaml"), **given) == message


@pytest.mark.parametrize(
    ("source", "said"), [(None, "nothing"), (5, "`5`"), ([1], "a list"), (True, "`true`"), (b"x", "`b'x'`")]
)
def test_a_source_that_is_no_scenario(source: Any, said: str) -> None:
    assert _error(source) == (
        f"a scenario is a path, a name or a mapping, not {said}\n  do: give for example `bert_v1.1_pod16_open`"
    )


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({5: 1}, '[scenario]: a key must be text, not `5`\n  do: write for example `{"data": {"dropout": 0.1}}`'),
        ({"model": {"layer_count": 10**5000}}, "[model.layer_count]: a number of more than 50 digits\n"),
        ({"model": object()}, "[model]: needs text, a number, a list or a mapping, not object\n"),
    ],
)
def test_a_mapping_that_no_file_could_hold(mapping: dict[Any, Any], message: str) -> None:
    assert _error(mapping).startswith(message)


def test_odd_kinds_of_files_and_keys_are_answered() -> None:
    Path("kind.yaml").write_text("base: good\nkind: [pod]\n")
    assert _error("kind.yaml").startswith("kind.yaml:2:1: unknown key `kind`\n")
    Path("pod.yaml").write_text("base: ipu_pod16\nkind: [pod]\n")
    assert _error("good.yaml", overrides=["system=./pod.yaml"]) == (
        "--set system=./pod.yaml [system]: `./pod.yaml` describes kind a list; a pod is needed here\n"
        "  do: name the file of a pod"
    )
    os.mkfifo("pipe.yaml")
    Path("loop.yaml").symlink_to("loop.yaml")
    Path("folder.yaml").mkdir()
    for name, said in {
        "pipe.yaml": "`pipe.yaml` is no ordinary file",
        "loop.yaml": "`loop.yaml` is a link that leads to no file",
        "folder.yaml": "`folder.yaml` is a folder, not a scenario",
        "a\0b": "no scenario `a\0b` was found",
    }.items():
        assert _error(name).startswith(f"{said}\n  do: ")
    assert "`pipe.yaml` is no ordinary file" in _error("good.yaml", overrides=["system=pipe.yaml"])


def test_half_a_character_is_refused_wherever_it_comes_from() -> None:
    what = "text holds half a character, a lone surrogate\n  do: write the whole character"
    assert _error({"base": "template", "description": "x\ud800"}) == f"[description]: {what}"
    assert _error({"base": "template", "x\ud800": 1}) == f"[scenario]: {what}"
    assert _error("good.yaml", overrides=["description=\udcff"]) == f"--set [description]: {what}"
    Path("half.yaml").write_text('base: good\ndescription: "\\ud800"\n')
    assert _error("half.yaml") == f"half.yaml:2:14 [description]: {what}"


@pytest.mark.parametrize("more", [{}, {"forward": {}}, {"generation": {}}])
def test_a_family_that_is_no_text_is_answered_in_every_kind_of_run(more: dict[str, Any]) -> None:
    assert "[model.kind]: " in _error({"base": "good.yaml", "model": {"kind": ["bert"]}, **more})


def test_a_mapping_that_holds_itself() -> None:
    circle: dict[str, Any] = {"base": "template"}
    circle["data"] = circle
    assert _error(circle) == (
        "[data.data]: values are nested in more than 50 levels\n  do: give a mapping of few levels"
    )


STAYS = (
    "system.host_count stays `2`, as hosts.yaml:1:27 has it; `bow_pod64` has `4` of its own: "
    "`--set system.host_count=null` takes that"
)


@pytest.mark.parametrize("naming", ["system=bow_pod64", "system={base: bow_pod64}", "system.base=bow_pod64"])
def test_hosts_survive_a_change_of_pod_and_the_result_can_say_so(naming: str) -> None:
    loaded = load_scenario("hosts.yaml", overrides=[naming])
    assert (loaded.spec.system.name, loaded.spec.system.host_count) == ("Bow Pod64", 2)
    assert loaded.notices == (STAYS,)


@pytest.mark.parametrize(
    ("overrides", "count"),
    [
        (["system=bow_pod64", "system.host_count=null"], 4),
        (["system.host_count=null", "system=bow_pod64"], 4),
        (["system=bow_pod64", "system.host_count=3"], 3),
        (["system={base: bow_pod64, host_count: 3}"], 3),
    ],
)
def test_hosts_can_be_those_of_the_pod_or_others(overrides: list[str], count: int) -> None:
    loaded = load_scenario("hosts.yaml", overrides=overrides)
    assert (loaded.spec.system.host_count, loaded.notices) == (count, ())


def test_hosts_of_a_base_survive_as_well() -> None:
    Path("child.yaml").write_text("base: hosts\nsystem: bow_pod64\n")
    assert load_scenario("child.yaml").spec.system.host_count == 2


def test_any_other_key_beside_the_name_of_a_pod_is_not_lost_unsaid() -> None:
    assert _error("fast.yaml", overrides=["system=bow_pod64"]) == (
        "--set system=bow_pod64 [system]: what is named here would drop system.machine.ipu.clock, "
        "written at fast.yaml:1:58 for what was named before\n"
        "  do: keep it with `--set 'system.machine.ipu.clock=1.6 GHz'`, "
        "or drop it with `--set system.machine.ipu.clock=null`"
    )


@pytest.mark.parametrize(("cure", "clock"), [("1.6 GHz", 1.6e9), ("null", 1.85e9)])
def test_the_cures_of_a_loss_cure_it(cure: str, clock: float) -> None:
    loaded = load_scenario("fast.yaml", overrides=["system=bow_pod64", f"system.machine.ipu.clock={cure}"])
    assert loaded.spec.system.machine.ipu.clock_hz == clock
    assert loaded.spec.system.host_count == 4


@pytest.mark.parametrize("naming", ["system.machine=bow_2000", "system.machine.ipu=ipu_bow"])
def test_a_machine_or_chip_named_over_written_keys_loses_none_unsaid(naming: str) -> None:
    assert "would drop system.machine.ipu.clock, written at fast.yaml:1:58 for what" in _error(
        "fast.yaml", overrides=[naming]
    )


def test_keys_beside_the_name_of_a_stack_are_not_lost_either() -> None:
    Path("calls.yaml").write_text(SCENARIO.replace("popart_sdk_2.3", "{base: popart_sdk_2.3, host_call: 1 ms}"))
    message = _error("calls.yaml", overrides=["software=popart_sdk_3.1"])
    assert "[software]: what is named here would drop software.host_call, written at calls.yaml:2:34" in message
    assert message.endswith(
        "keep it with `--set 'software.host_call=1 ms'`, or drop it with `--set software.host_call=null`"
    )


HARDWARE = "system.machine.ipu."


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (f"{HARDWARE}tile.vector_width=9 b", "`9 b` is too small\n  do: write 4 B to 1 KiB"),
        (f"{HARDWARE}tile.vector_width=9 B", "`9 B` is not a whole multiple of 4 B"),
        (f"{HARDWARE}clock=-1 GHz", "`-1 GHz` is too small\n  do: write 1 MHz to 100 GHz"),
        (f"{HARDWARE}clock=0 GHz", "`0 GHz` is too small"),
        ("system.host_count=1000000000000", "`1000000000000` is too large\n  do: write 65536 or less"),
        ("system.host_count=1e12", "needs a whole number, not `1000000000000.0`"),
        ("data.packing={sequences_per_pack: 2.0, max_sequences_per_pack: 1000}", "is above sequence_length 128"),
        ("data.packing={sequences_per_pack: 1000.0, max_sequences_per_pack: 8}", "is above max_sequences_per_pack 8"),
    ],
)
def test_what_cannot_be_is_refused(override: str, message: str) -> None:
    assert message in _error("good.yaml", overrides=[override])


@pytest.mark.parametrize(
    ("key", "value", "bounds"),
    [
        (f"{HARDWARE}clock", "16 GHz", "500 MHz to 5 GHz"),
        (f"{HARDWARE}clock", "1.85 MHz", "500 MHz to 5 GHz"),
        ("system.machine.ipu_link.bandwidth_per_direction", "16 TB/s", "1 GB/s to 10 TB/s"),
        ("system.machine.host_link.latency", "7 ms", "0 s to 100 us"),
        ("software.host_call", "134 s", "0 s to 10 s"),
    ],
)
def test_what_nothing_real_has_is_said(key: str, value: str, bounds: str) -> None:
    said = f"{key}: `{value}` is far from anything built ({bounds}); the result stands on it as it is written"
    assert load_scenario("good.yaml", overrides=[f"{key}={value}"]).notices == (said,)


def test_more_servers_than_machines_are_said() -> None:
    (said,) = load_scenario("good.yaml", overrides=["system.host_count=5"]).notices
    assert said.startswith("system.host_count: 5 host servers for 4 machines")
    assert load_scenario("good.yaml", overrides=["system.host_count=4"]).notices == ()


@pytest.mark.parametrize("kind", ["pod", "software"])
def test_every_quantity_of_hardware_and_stacks_declares_what_can_be_and_what_is_usual(kind: str) -> None:
    from podsim.scenario.load import KINDS

    found = list(_quantities(KINDS[kind]))
    assert len(found) > {"pod": 40, "software": 8}[kind]
    for name, quantity in found:
        assert quantity is not None and quantity.bounds is not None and quantity.usual is not None, name
        least, low, high, most = (
            parse_quantity(bound, quantity.dimension)
            for bound in (quantity.bounds[0], *quantity.usual, quantity.bounds[1])
        )
        assert least <= low < high <= most, name


def _quantities(model: Any) -> Any:
    from pydantic import BaseModel

    for name, field in model.model_fields.items():
        parts = get_args(field.annotation) or (field.annotation,)
        quantity = quantity_of(field)
        if quantity is not None or any(kind.__name__ in str(field.annotation) for kind in (Real, Whole)):
            yield f"{model.__name__}.{name}", quantity
        else:
            for part in parts:
                if isinstance(part, type) and issubclass(part, BaseModel):
                    yield from _quantities(part)


IDLE = {
    "a second moment of SGD": ("optimizer={kind: sgd, second_moment: fp16}", "SGD has no second moment"),
    "a seed of nothing": ("run={weight_updates: 10, seed: 5}", "`seed` is given, but nothing is drawn"),
    "draws of nothing": ("run={samples_to_converge: 1000, draws: 5}", "`draws` is given, but nothing is drawn"),
    "an evaluation of no run": (
        "run={evaluation: {samples: 10}}",
        "`evaluation` is given, but nothing says how long the run goes on",
    ),
    "set-up of no run": ("run={setup: 1 s}", "`setup` is given, but nothing says how long the run goes on"),
    "masked tokens of answers": (
        "model.task=span",
        "`task: span` predicts no masked positions\n  do: leave it out, or `--set data.masked_token_count=null`",
    ),
}
OTHER_IDLE = {
    "validation of nothing": ("image_template", "run.checkpoint=null", "every checkpoint is validated, and none is"),
    "groups of batch norm": ("image_template", "model.norm={kind: batch, groups: 8}", "batch norm has no groups"),
    "rows of rotary positions": (
        "llama2_7b_pods",
        "model.position_count=4096",
        "rotary positions have no rows; position_count is 4096",
    ),
}


@pytest.mark.parametrize(
    ("name", "override", "message"), [*(("good.yaml", *case) for case in IDLE.values()), *OTHER_IDLE.values()]
)
def test_a_key_that_would_do_nothing_is_refused(name: str, override: str, message: str) -> None:
    assert message in _error(name, overrides=[override])


@pytest.mark.parametrize("end", ["weight_updates: 100", "epochs: 1.0"])
def test_evaluations_of_a_fixed_run_count(end: str) -> None:
    """384 samples per update: 100 updates, or one epoch of 38,400 samples, pass three marks of 10,000."""
    run = f"run={{{end}, setup: 1 s, evaluation: {{samples: 384, every_samples: 10000}}}}"
    result = podsim.simulate("good.yaml", overrides=["data.samples_per_epoch=38400", run])
    assert result.run_breakdown["evaluation"] == pytest.approx(3 * result.weight_update_s)
    assert result.time_to_train_s == pytest.approx(1 + 103 * result.weight_update_s)
