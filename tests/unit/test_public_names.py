"""The public names: listed before they are used, functions under the names of commands, overrides as a mapping."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import podsim
from podsim.errors import PodsimError

COMMANDS = ("run", "serve", "sweep", "plan", "compare", "check", "validate", "list", "whatif")
GOOD = "bert_base_c600"


def test_names_are_listed_before_they_are_used() -> None:
    code = "import podsim, sys; print(*dir(podsim)); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, loaded = done.stdout.splitlines()
    assert {*COMMANDS, *podsim.__all__} <= {*names.split()}
    assert loaded == "False"


def test_help_describes_the_functions() -> None:
    text = pydoc.plain(pydoc.render_doc(podsim))
    for name in {*COMMANDS} - {"list"}:  # which a star would import in place of that of Python
        assert f"\n    {name}(" in text, name
    assert "list" not in podsim.__all__


def test_commands_are_functions(tmp_path: Path) -> None:
    assert [scenario.name for scenario in podsim.list("llama", "13b").scenarios] == [
        "llama2_13b_phased_pod64",
        "llama2_13b_pod16",
        "llama2_13b_pod16_shards",
    ]
    file = tmp_path / "fast.yaml"
    file.write_text(f"base: {GOOD}\nexpect: {{throughput_samples_per_s: '> 1'}}\n")
    assert podsim.check(file).holds
    file.write_text(f"base: {GOOD}\nexpect: {{throughput_samples_per_s: '< 1'}}\n")
    assert not podsim.check(file).holds
    with pytest.raises(PodsimError, match="there is nothing to check"):
        podsim.check()
    answer = podsim.plan(
        "bert_v1.1_pod16_open", systems=("ipu_pod16", "bow_pod16"), divisions=("given",), objective="time_to_train_s"
    )
    # Bow is the same chip with a clock of 1.85 instead of 1.33 GHz.
    assert answer.best is not None
    assert [option.system for option in answer.ranked] == ["bow_pod16", "ipu_pod16"]


def test_overrides_may_be_a_mapping() -> None:
    texts = podsim.load(GOOD, None, ["system.machine.ipu.clock=2 GHz", "forward={batch_size: 2}"])
    values = podsim.load(GOOD, None, {"system.machine.ipu.clock": "2 GHz", "forward": {"batch_size": 2}})
    assert values.spec == texts.spec
    assert values.spec.system.machine.ipu.clock_hz == 2e9


def test_a_result_is_told_in_five_lines() -> None:
    result = podsim.run(GOOD, overrides={"system.machine.ipu.clock": "1.5 GHz"})
    title, machine, origin, figures, rest = repr(result).splitlines()
    assert title.startswith("Changed from: BERT-Base on sequences of 128 tokens")
    assert machine == "C600, 1 of 1 IPUs in use, C600 at 1.5 GHz; PopART, SDK 3.1"
    assert origin.endswith("changed: system.machine.ipu.clock 1.486 GHz → 1.5 GHz")
    assert re.fullmatch(r"latency [\d.]+ ms; throughput [\d,]+ samples/s; .*", figures)
    assert rest.startswith("ForwardResult: .ranges")
    assert all(len(each) <= 100 for each in (title, machine, origin, figures, rest))
    assert "ranges" not in vars(result)  # which take as long as ten runs


def test_a_notebook_shows_the_tables_of_the_terminal() -> None:
    scenario = {"base": GOOD, "description": "<b>&"}
    html = podsim.run(scenario)._repr_html_()
    assert html is not None
    for words in ("&lt;b&gt;&amp;", "Latency", "Throughput", "Where one batch goes"):
        assert words in html
    assert "<b>" not in html
    other = {**scenario, "system": {"machine": {"ipu": {"clock": "1.5 GHz"}}}}
    assert "<table" in podsim.compare(GOOD, other)._repr_html_()
