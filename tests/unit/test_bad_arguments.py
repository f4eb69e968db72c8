"""What a user gets for wrong arguments, paths and impossible plans: a message and an exit code; never a traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import podsim
from podsim.scenario.load import KINDS
from tests.unit.bad_input_cases import (
    ERROR,
    INFEASIBLE,
    MODEL_KEYS,
    PARALLELISM_KEYS,
    PODS,
    SCENARIO,
    TOP_KEYS,
    Run,
    error_of,
)

SETS = {
    "no value": (
        "model.layer_count",
        "--set model.layer_count: this is not KEY=VALUE\n  do: write for example `--set system=bow_pod64`",
    ),
    "no key": ("=3", "--set =3: this is not KEY=VALUE\n  do: write for example `--set system=bow_pod64`"),
    "unknown key": (
        "model.colour=red",
        f"--set model.colour=red [model]: unknown key `colour`\n  do: remove it; known here: {MODEL_KEYS}",
    ),
    "a key by the name that others have for it": (
        "parallelism.replicas=2",
        "--set parallelism.replicas=2 [parallelism]: unknown key `replicas`\n"
        f"  do: did you mean `replication_factor`? known here: {PARALLELISM_KEYS}",
    ),
    "a key without its path": (
        "clock=2 GHz",
        "--set clock=2 GHz: unknown key `clock`\n"
        f"  do: did you mean `system.machine.ipu.clock`? known here: {TOP_KEYS}",
    ),
    "keys by a short name": (
        "links=64 GB/s",
        "--set links=64 GB/s: unknown key `links`\n  do: did you mean "
        "`system.machine.ipu_link.bandwidth_per_direction` or `system.machine.gw_link.bandwidth_per_direction`? "
        f"known here: {TOP_KEYS}",
    ),
    "a key of other sections, without its path": (
        "model.latency=3",
        f"--set model.latency=3 [model]: unknown key `latency`\n  do: remove it; known here: {MODEL_KEYS}",
    ),
    "a chip with the name of its card": (
        "system.machine.ipu=c600",
        "--set system.machine.ipu=c600 [system.machine.ipu]: `c600` describes a pod; an IPU is needed here\n"
        "  do: write `ipu_c600`",
    ),
    "two digits swapped": (
        "system=bow_pod46",
        "--set system=bow_pod46 [system]: no pod `bow_pod46` was found\n"
        f"  do: did you mean `bow_pod64`? known here: {PODS}",
    ),
    "wrong type": (
        "model.layer_count=many",
        "--set model.layer_count=many [model.layer_count]: needs a whole number, not `many`\n"
        "  do: write for example `12`",
    ),
    "a value in place of a section": (
        "model=large",
        "--set model=large [model]: needs a mapping of keys to values, not `large`\n"
        "  do: write `key: value` lines under it",
    ),
    "broken YAML": (
        "model={size: large",
        "--set model={size: large [model]: needs a mapping of keys to values, not `{size: large`\n"
        "  do: write `key: value` lines under it",
    ),
    "an anchor that contains itself": (
        "parallelism.layers_per_ipu=&a [*a]",
        "--set parallelism.layers_per_ipu=&a [*a] [parallelism.layers_per_ipu]: needs a list, not `&a [*a]`\n"
        "  do: write for example `[6, 6, 6, 6]`",
    ),
    "missing system": (
        "system=ipu_pod17",
        "--set system=ipu_pod17 [system]: no pod `ipu_pod17` was found\n"
        f"  do: did you mean `ipu_pod16`? known here: {PODS}",
    ),
    "a mapping in place of a quantity with its source": (
        "system.machine.ipu.clock={value: 1 GHz, source: 3, basis: assumed}",
        "--set system.machine.ipu.clock={value: 1 GHz, source: 3, basis: assumed} [system.machine.ipu.clock.source]: "
        'needs text, not `3`\n  do: put it in quotes, `"3"`',
    ),
}


def test_several_changes_follow_one_option(podsim: Run) -> None:
    """As if each had the option before it; a word that is no assignment stays an argument."""
    changes = ("system=bow_pod64", "parallelism.replication_factor=1")
    apart = podsim("run", "good.yaml", *(word for change in changes for word in ("--set", change)))
    assert podsim("run", "good.yaml", "--set", *changes) == podsim("run", "--set", *changes, "good.yaml") == apart
    assert podsim("run", "--set", "system=bow_pod64", "good.yaml", "more.yaml")[0] == 2


@pytest.mark.parametrize(("assignment", "message"), SETS.values(), ids=SETS)
def test_a_wrong_override(podsim: Run, assignment: str, message: str) -> None:
    assert podsim("run", "good.yaml", "--set", assignment) == error_of(message)


def test_an_unknown_variant(podsim: Run) -> None:
    with Path("good.yaml").open("a") as file:
        file.write("variants:\n  bow: {system: bow_pod16}\n  tiny: {model: {size: tiny}}\n")
    assert podsim("run", "good.yaml", "--variant", "bwo") == error_of(
        "good.yaml:11:1 [variants]: there is no variant `bwo`\n  do: did you mean `bow`? known here: bow, tiny"
    )


def test_a_variant_of_a_file_without_any(podsim: Run) -> None:
    assert podsim("run", "good.yaml", "--variant", "bow") == error_of(
        "good.yaml:1:1 [variants]: there is no variant `bow`\n  do: leave `--variant` out"
    )


def test_variants_that_are_a_list(podsim: Run) -> None:
    with Path("good.yaml").open("a") as file:
        file.write("variants: [bow]\n")
    assert podsim("run", "good.yaml") == error_of(
        "good.yaml:11:1 [variants]: needs a mapping of names to mappings\n  do: write `variants: {name: {key: value}}`"
    )


def test_an_unknown_kind_of_schema(podsim: Run) -> None:
    assert podsim("schema", "scenarios") == error_of(
        f"`scenarios` is not a kind of file\n  do: did you mean `scenario`? known here: scenario, {', '.join(KINDS)}"
    )


MATMULS = {
    "two extents": (
        ["3x4"],
        ERROR,
        "`3x4` is not the shape of a matrix product\n"
        "  do: write ROWSxINNERxCOLUMNS, for example 4096x1024x1024, each from 1 to 16777216",
    ),
    "zero": (
        ["0x4x4"],
        ERROR,
        "`0x4x4` is not the shape of a matrix product\n"
        "  do: write ROWSxINNERxCOLUMNS, for example 4096x1024x1024, each from 1 to 16777216",
    ),
    "unknown chip": (
        ["4x4x4", "--ipu", "ipu_gc300"],
        ERROR,
        "no IPU `ipu_gc300` was found\n"
        "  do: did you mean `ipu_gc200`? known here: ipu_bow, ipu_c600, ipu_gc2, ipu_gc200",
    ),
    "a machine": (
        ["4x4x4", "--ipu", "ipu_m2000"],
        ERROR,
        "hardware_specs/ipu_m2000.yaml:2:1: `ipu_m2000` describes a machine; an IPU is needed here\n"
        "  do: name the file of an IPU",
    ),
    "no memory": (
        ["4x4x4", "--memory", "0"],
        ERROR,
        "--memory: `0` is not above 0 and at most 1\n  do: write for example `0.6`",
    ),
    "too much memory": (
        ["4x4x4", "--memory", "1.5"],
        ERROR,
        "--memory: `1.5` is not above 0 and at most 1\n  do: write for example `0.6`",
    ),
    "NaN memory": (
        ["4x4x4", "--memory", "nan"],
        ERROR,
        "--memory: `nan` is not above 0 and at most 1\n  do: write for example `0.6`",
    ),
    "partials that the chip has not": (
        ["4x4x4", "--dtype", "fp32", "--partials", "fp16"],
        ERROR,
        "--partials: fp32 operands have no fp16 partials\n  do: leave it out, or use fp16 operands",
    ),
    "too large": (
        ["100000x100000x100000"],
        INFEASIBLE,
        "100000x100000x100000: operands and result need 55.9 GiB; GC200 has 897 MiB\n"
        "  do: make the product smaller, or divide it among more IPUs",
    ),
}


@pytest.mark.parametrize(("arguments", "code", "message"), MATMULS.values(), ids=MATMULS)
def test_a_wrong_product(podsim: Run, arguments: list[str], code: int, message: str) -> None:
    assert podsim("cost", "matmul", *arguments) == error_of(message, code)


OUTPUTS = {
    "missing folder": (
        "--trace",
        "no/t.json",
        "no/t.json: the folder `no` does not exist\n  do: make the folder, or give another path",
    ),
    "a folder": (
        "--trace",
        ".",
        ".: this is a folder, not a file\n  do: give the name of a file inside the folder",
    ),
    "a file for a folder": (
        "--trace",
        "good.yaml/t.json",
        "good.yaml/t.json: `good.yaml` is not a folder\n  do: give a path inside a folder",
    ),
    "far too long": (
        "--trace",
        "t" * 5000,
        f"{'t' * 5000}: cannot be written: File name too long\n  do: give another path",
    ),
    "the scenario": (
        "--trace",
        "good.yaml",
        "good.yaml: this is both the scenario and the trace\n  do: give two different paths",
    ),
    "chart in a missing folder": (
        "--plot",
        "no/p.png",
        "no/p.png: the folder `no` does not exist\n  do: make the folder, or give another path",
    ),
    "unknown format of chart": (
        "--plot",
        "p.jpg",
        "p.jpg: `.jpg` is not a format for charts\n  do: end the name in .png, .svg, .pdf",
    ),
    "chart without suffix": (
        "--plot",
        "p",
        "p: the name of a chart needs a suffix\n  do: end the name in .png, .svg, .pdf",
    ),
}


@pytest.fixture
def _nothing_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(*_: object, **__: object) -> None:
        raise AssertionError("simulated before the path was checked")

    monkeypatch.setattr("podsim.runs.train.training", simulate)


@pytest.mark.usefixtures("_nothing_is_simulated")
@pytest.mark.parametrize(("option", "path", "message"), OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_that_cannot_be_written(podsim: Run, option: str, path: str, message: str) -> None:
    assert podsim("run", "good.yaml", option, path) == error_of(message)
    assert list(Path().iterdir()) == [Path("good.yaml")]
    assert Path("good.yaml").read_text() == SCENARIO


@pytest.mark.usefixtures("_nothing_is_simulated")
def test_trace_and_plot_in_one_file(podsim: Run) -> None:
    assert podsim("run", "good.yaml", "--trace", "x.svg", "--plot", "./x.svg") == error_of(
        "x.svg: this is both the trace and the plot\n  do: give two different paths"
    )


@pytest.mark.usefixtures("_nothing_is_simulated")
@pytest.mark.parametrize("option", ["--trace", "--plot"])
def test_a_read_only_folder(podsim: Run, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    Path("locked").mkdir(mode=0o500)
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert podsim("run", "good.yaml", option, "locked/out.png") == error_of(
        "locked/out.png: cannot be written: no permission\n  do: give a path that you may write"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk(podsim: Run) -> None:
    assert podsim("run", "good.yaml", "--trace", "/dev/full") == error_of(
        "/dev/full: cannot be written: No space left on device\n"
        "  do: give a path that can be written, or make room for the file"
    )


BERT_LARGE_ON_4_IPUS = "base: bert_v1.1_pod16_open\nparallelism: {recomputation: none}\n"


def test_bert_large_on_4_ipus_without_recomputation_is_refused_and_the_cure_works(podsim: Run) -> None:
    Path("s.yaml").write_text(BERT_LARGE_ON_4_IPUS)
    code, message = podsim("run", "s.yaml")
    assert code == INFEASIBLE
    refusal, cures = message.splitlines()
    assert re.fullmatch(
        r"error: s\.yaml:2:1 \[parallelism\]: IPU \d of each replica needs 2\.\d+ GiB of In-Processor-Memory; "
        r"it has 897 MiB \(largest: stash [\d.]+ [MG]iB, \w+ [\d.]+ MiB, \w+ [\d.]+ MiB\)",
        refusal,
    )
    promise = "  do: any of these makes it fit: "
    assert cures.startswith(f"{promise}parallelism.recomputation: layer")
    for cure in cures.removeprefix(promise).split("; "):
        changes = [argument for change in cure.split(" and ") for argument in ("--set", change.replace(": ", "="))]
        assert podsim("run", "s.yaml", *changes) == (0, "")


def test_a_product_beyond_any_memory_is_an_impossible_plan(podsim: Run) -> None:
    assert podsim("run", "good.yaml", "--set", "data.sequence_length=1000000000000") == error_of(
        "good.yaml:5:1 [parallelism]: a matrix product of 1x1000000000000x1024x3072 is too large to be planned\n"
        "  do: make the micro-batch or the model smaller",
        INFEASIBLE,
    )


USAGES = {
    "nothing to run": (
        ["run"],
        "podsim run needs SCENARIO, which is missing\n"
        "  do: write `podsim run SCENARIO`; `podsim run --help` shows what there is",
    ),
    "unknown format": (
        ["run", "good.yaml", "--format", "jsn"],
        "--format: 'jsn' is not one of 'table', 'json', 'markdown'\n"
        "  do: did you mean `json`? `podsim run --help` shows what there is",
    ),
    "unknown option": (
        ["run", "good.yaml", "--variants"],
        "podsim run has no option `--variants`\n"
        "  do: did you mean `--variant`? `podsim run --help` shows what there is",
    ),
    "unknown command": (
        ["rum", "good.yaml"],
        "podsim has no command `rum`\n  do: did you mean `run`? `podsim --help` shows what there is",
    ),
    "unknown command of a group": (
        ["cost", "matmull"],
        "podsim cost has no command `matmull`\n  do: did you mean `matmul`? `podsim cost --help` shows what there is",
    ),
    "no value": (
        ["run", "good.yaml", "--set"],
        "--set: option '--set' requires an argument\n  do: `podsim --help` shows what there is",
    ),
    "one word too many": (
        ["run", "good.yaml", "better.yaml"],
        "podsim run: got unexpected extra arguments (better.yaml)\n  do: `podsim run --help` shows what there is",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), USAGES.values(), ids=USAGES)
def test_a_command_line_that_is_no_command(podsim: Run, arguments: list[str], message: str) -> None:
    assert podsim(*arguments) == error_of(message)


def test_no_number(podsim: Run) -> None:
    code, message = podsim("cost", "matmul", "4x4x4", "--memory", "much")
    first, cure = message.splitlines()
    assert code == ERROR
    assert first.startswith("error: --memory: ")
    assert cure == "  do: `podsim cost matmul --help` shows what there is"


def _in_a_shell(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", "from podsim.cli.app import main; main()", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_process_ends_with_the_exit_code_and_keeps_standard_output_clean(tmp_path: Path) -> None:
    assert _in_a_shell(tmp_path, "run", "nope") == (
        ERROR,
        "",
        "error: no scenario `nope` was found\n  do: check the path; `podsim list` shows the shipped names\n",
    )


@pytest.mark.slow
def test_the_process_ends_with_another_code_for_an_impossible_plan(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(BERT_LARGE_ON_4_IPUS)
    code, output, message = _in_a_shell(tmp_path, "run", "s.yaml")
    assert (code, output) == (INFEASIBLE, "")
    assert message.startswith("error: s.yaml:2:1 [parallelism]: ")


@pytest.mark.parametrize(("written", "meant"), [("gc201", "ipu_gc200"), ("bowe", "ipu_bow"), ("c601", "ipu_c600")])
def test_a_chip_is_found_by_its_name_without_what_all_begin_with(written: str, meant: str) -> None:
    with pytest.raises(podsim.SpecError) as error:
        podsim.load("bert_base_c600", None, {"system.machine.ipu": written})
    assert f"did you mean `{meant}`?" in str(error.value)
