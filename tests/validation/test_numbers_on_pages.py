"""Numbers in the prose of pages: each is computed here, from the rows of `podsim validate` or from the shipped data.

A sentence is written as the page has it, with the number put in by the test; where a prediction moves, the test names
the page and the sentence that has to be written anew.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import podsim
from podsim.scenario import load_scenario
from podsim.validation.comparison import Validation

ROOT = Path(__file__).resolve().parent.parent.parent
Error = Callable[[str], float]


def page(name: str) -> str:
    """The text of a page with one space between words."""
    return " ".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").split())


def hardware(name: str) -> dict[str, Any]:
    """A shipped specification as it is written."""
    found: dict[str, Any] = YAML(typ="safe").load(ROOT / "hardware_specs" / f"{name}.yaml")
    return found


@pytest.fixture(scope="module")
def error(everything: Validation) -> Error:
    """The size of the error of a row, in whole per cent; rows go by group and name, or by the key before a colon.

    An error of a published rate or time counts as a share of what was measured, as `podsim validate` prints it.
    """
    found = {(row.group, row.name): row.error for row in everything.comparisons}
    found |= {("", row.name.partition(":")[0]): row.error for row in everything.comparisons if ":" in row.name}
    return lambda key: abs(found["", key] if "/" not in key else found[tuple(key.split("/"))]) * 100  # type: ignore[index]


def predicted(everything: Validation, key: str) -> float:
    (value,) = {row.predicted for row in everything.comparisons if row.name.partition(":")[0] == key}
    return value


def says(name: str, *sentences: str) -> None:
    """Whether a page has all of these sentences."""
    text = page(name)
    assert [sentence for sentence in sentences if sentence not in text] == [], f"docs/{name}.md says otherwise"


def test_errors_of_mlperf_on_the_page_of_weak_spots(error: Error, everything: Validation) -> None:
    update, image = "BERT weight update/bert_v1.0_{}", "ResNet-50 weight update/resnet50_v1.0_{}"
    pod16 = [error(update.format(f"pod16_{each}")) for each in ("open", "closed")]
    pod64 = sorted(error(update.format(f"pod64_{each}")) for each in ("open", "closed"))
    images = [error(image.format(each)) for each in ("pod16", "pod64")]
    rows = {row.name: row for row in everything.comparisons if row.group == "BERT effect of a change"}
    to_pod128 = [rows[f"POD64 to POD128, {each}"] for each in ("open", "closed")]
    (sixteen,) = (row for row in everything.comparisons if row.name == "POD128 to POD256")
    bow_ms = {row.name: row.published for row in everything.comparisons if row.group == "ResNet-50 weight update"}
    later_ms = bow_ms["resnet50_v2.0_pod256"] - bow_ms["resnet50_v2.0_pod128"]
    says(
        "background/weak-spots",
        f"{pod16[0]:.1f} to {pod16[1]:.1f} % too slow on POD16",
        f"{pod64[0]:.1f} to {pod64[1]:.1f} % too slow on POD64",
        f"ResNet-50 {images[0]:.1f} % too slow and {images[1]:.1f} % too fast",
        f"From POD64 to POD128 BERT takes {to_pod128[0].predicted:.1f} ms more",
        f"measured were {to_pod128[0].published:.0f} and {to_pod128[1].published:.0f} ms (medians)",
        f"POD128 to POD256 adds {sixteen.predicted:.1f} ms for ResNet-50",
        f"measured were {sixteen.published:.1f} ms in MLPerf v1.1 and {later_ms:.1f} ms in v2.0",
        f"**BERT of MLPerf v2.0 on Bow Pod16** is {error('BERT weight update/bert_v2.0_pod16_closed'):.0f} % too slow",
    )


def test_errors_elsewhere_on_the_page_of_weak_spots(error: Error, everything: Validation) -> None:
    efficientnet_h, bert_h = (predicted(everything, key) for key in ("BLOG-011", "BLOG-001"))
    pod16 = [error(f"GCP-0{number}") for number in (48, 49)]
    pod64 = " to ".join(sorted({f"{error(f'GCP-0{number}'):.0f}" for number in (51, 52)}))
    says(
        "background/weak-spots",
        f"**EfficientNet-B4 on IPU-POD256 is {error('BLOG-011'):.0f} % too fast**: {efficientnet_h:.1f} h",
        f"on a Bow Pod16 it is {error('GCP-023'):.0f} % too slow (GCP-023)",
        f"**BERT-Large on IPU-POD64 is {error('BLOG-001'):.0f} % too fast**: {bert_h:.1f} h",
        f"podsim is {error('POPRT-016'):.0f} % too slow",
        f"ViT is {error('GCP-028'):.0f} % and {error('GCP-030'):.0f} % too fast on Bow Pod16 (GCP-028, GCP-030)",
        f"ResNet-50 {error('ALCF-013'):.0f} % too slow on four IPUs and {error('ALCF-001'):.0f} % too fast on 16",
        f"podsim is {error('GCP-008'):.0f} and {error('GCP-029'):.0f} % too fast: time on the device is missing",
        f"{pod16[0]:.0f} to {pod16[1]:.0f} % too slow on Bow Pod16 and {pod64} % too fast on Pod64",
        f"BERT-Base {error('GCP-059'):.0f} % (GCP-059)",
        f"**Forward passes of MPNet** are {error('HFNB-016'):.0f} % too fast",
        f"E5-large in the same loop is {error('HFNB-015'):.0f} % off",
        f"LLaMa2-7B is up to {error('LLM-001'):.0f} % too fast (LLM-001), "
        f"GPT-J less than 1 % in 16 bits and {error('LLM-007'):.0f} % in 4",
        f"are up to {error('GEMM fp32/128x8192x8192'):.0f} % too fast (128 rows, 8192 x 8192)",
    )
    assert error("LLM-004") < 1


def test_synthetic_data_of_schnet(error: Error) -> None:
    """A rate that is 25 % too high is a time that is 20 % too short."""
    too_short = (1 - 1 / (1 + error("GNN-017") / 100)) * 100
    for name in ("background/weak-spots", "guides/graph-networks"):
        says(name, f"{too_short:.0f} % too short")


# Constants

CONSTANTS = (
    ("`system.machine.ipu.superstep.overhead`", (("ipu_gc200", "superstep.overhead"),)),
    ("`software.host_call`", (("software/popart_sdk_2.3", "host_call"),)),
    ("`software.unexplained_cycles_per_byte`", (("software/popart_sdk_2.3", "unexplained_cycles_per_byte"),)),
    ("`software.setup`", (("software/popart_sdk_2.3", "setup"),)),
    ("`software.checkpoint`", (("software/tensorflow1_sdk_2.3", "checkpoint"),)),
    ("`software.validation_setup`", (("software/tensorflow1_sdk_2.3", "validation_setup"),)),
    ("`software.host_call` of TensorFlow", (("software/tensorflow1_sdk_2.3", "host_call"),)),
    ("`software.stream_time` of PyTorch", (("software/pytorch_sdk_3.1", "stream_time"),)),
    (
        "`software.epoch_start_time` and `sample_load_time` of PyTorch Geometric",
        tuple(("software/pytorch_geometric_sdk_3.1", each) for each in ("epoch_start_time", "sample_load_time")),
    ),
    ("`software.evaluation_call` of PopART, SDK 2.5", (("software/popart_sdk_2.5", "evaluation_call"),)),
    ("`software.forward_call`", (("software/popart_sdk_2.3", "forward_call"),)),
    ("`software.forward_exchange`", (("software/popart_sdk_2.3", "forward_exchange"),)),
)


def value_at(file: str, key: str) -> str:
    """What a specification says at a key path."""
    node: Any = hardware(file)
    for each in key.split("."):
        node = node[each]
    assert node["basis"] == "calibrated", key
    return str(node["value"])


def test_the_table_of_constants_has_those_of_the_files() -> None:
    text = (ROOT / "docs" / "background" / "constants.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", text, re.MULTILINE)
    files = [(name, ", ".join(value_at(*place) for place in places)) for name, places in CONSTANTS]
    assert table == files


def test_session_calls_on_the_page_of_weak_spots() -> None:
    calls = [value_at(f"software/{each}", "host_call") for each in ("popart_sdk_2.3", "tensorflow1_sdk_2.3")]
    tensor = value_at("software/pytorch_sdk_3.1", "stream_time")
    whole = [f"{float(each.split()[0]):.0f} {each.split()[1]}" for each in (*calls, tensor)]
    says(
        "background/weak-spots",
        f"of {whole[0]} in PopART, {whole[1]} in TensorFlow",
        f"take {whole[2]} each in seven runs of PyTorch and",
    )


# Power


def watts(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"W": 1, "kW": 1000}[unit]


def picojoules(number: dict[str, Any]) -> float:
    return float(number["value"].removesuffix(" pJ"))


def drawn(number: dict[str, Any]) -> str:
    low, high = (watts(end) for end in number["range"])
    return f"({low:,.0f} to {high:,.0f} W)"


def test_the_table_of_power_has_the_numbers_of_the_files() -> None:
    gc200, bow, c600 = (hardware(f"ipu_{name}")["power"] for name in ("gc200", "bow", "c600"))
    machine, card = hardware("ipu_m2000")["power"], hardware("c600_card")["power"]
    host, pod = hardware("host_r6525")["power"], hardware("ipu_pod64")["power"]
    idle = watts(gc200["idle"]["value"])  # Bow and C600 have that of their base
    low, high = (each.split()[0] for each in gc200["idle"]["range"])
    busy, switch = (watts(each["value"]) for each in (host["busy"], pod["switch"]))
    says(
        "guides/cost-and-energy",
        f"| GC200 | {idle} W idle ({low} to {high} W) |",
        f"| C600 | the same idle; 0.46 of the energies; {card['without_ipus']['value']} for the rest",
        f"| machine | {machine['without_ipus']['value']} without IPUs {drawn(machine['without_ipus'])} |",
        f"| host server | {busy:.0f} W in a run {drawn(host['busy'])}, {host['idle']['value']} idle |",
        f"| switch | {switch:.0f} W {drawn(pod['switch'])}, one per rack",
    )
    named = {"tile_cycle": ", 51 W of a GC200", "half_flop": " in half precision"}
    named |= {"half_partials_float_flop": " with single partials", "single_flop": " in single precision"}
    for key, words in named.items():
        least, most = (each.removesuffix(" pJ") for each in gc200[key]["range"])
        says("guides/cost-and-energy", f"{gc200[key]['value']}{words} ({least} to {most} pJ)")
        for chip, share in ((bow, 0.95), (c600, 0.46)):
            assert picojoules(chip[key]) == pytest.approx(share * picojoules(gc200[key]), rel=0.05)


# Guides and studies


def test_errors_of_what_was_measured_alone(everything: Validation) -> None:
    """Mk1 in a server of 16: mean of the sizes of errors, and the largest."""
    found: dict[str, list[float]] = {}
    for row in everything.comparisons:
        found.setdefault(row.group, []).append(row.error * 100)
    convolutions, products, transfers = (found[f"Mk1 {each}"] for each in ("convolution", "product", "transfer"))
    collectives, grouped = found["Mk1 collective"], found["Mk1 convolution in groups"]

    def mean(errors: list[float]) -> str:
        return f"{sum(map(abs, errors)) / len(errors):.1f} %"

    says(
        "guides/cost-of-one-thing",
        f"| {len(convolutions)} convolutions of ResNet-50, batch 1 to 128 | {mean(convolutions)} "
        f"| {max(convolutions, key=abs):+.0f} % |",
        f"| {len(products)} square products | {mean(products)} | {max(map(abs, products)):.1f} % |",
        f"| {len(transfers)} transfers: tiles, chips, host, own memory | {mean(transfers)} "
        f"| {max(map(abs, transfers)):.1f} % |",
        f"| {len(collectives)} collectives of tiles on one to four chips | {mean(collectives)} "
        f"| {max(map(abs, collectives)):.1f} % |",
        f"| {len(grouped)} convolutions of ResNeXt in groups of 4 and 8 channels | {mean(grouped)} "
        f"| {max(map(abs, grouped)):.1f} % |",
    )


def test_times_of_software_in_guides() -> None:
    popart, geometric = "software/popart_sdk_2.3", hardware("software/pytorch_geometric_sdk_3.1")
    tensor, start = value_at("software/pytorch_sdk_3.1", "stream_time"), geometric["epoch_start_time"]["value"]
    says("guides/graph-networks", f"that is {tensor} for each tensor", f"than {geometric['host_call']['value']}")
    says("guides/graph-networks", f"and {start} more", f"seen to, {geometric['replica_call_time']['value']}")
    says("guides/run-a-forward-pass", f"`software.forward_call`, {value_at(popart, 'forward_call')}")
    says("guides/run-a-forward-pass", value_at(popart, "forward_exchange"))


def test_micro_batches_of_a_call() -> None:
    layout = load_scenario("schnet_qm9_bow_pod64").spec.parallelism.model_dump()
    keys = ("accumulation_factor", "replication_factor", "updates_per_session_call")
    says("guides/graph-networks", f"{math.prod(layout[key] for key in keys)} micro-batches")


def test_measurements_of_graph_operations(everything: Validation) -> None:
    groups = ("Bow gather", "Bow scatter-add", "Bow SchNet block")
    count = sum(row.group in groups for row in everything.comparisons)
    found, added, summed = (
        cycles / copied for cycles, copied in hardware("vertices_mk2")["call"]["word_copy"].values()
    )
    says(
        "guides/graph-networks",
        f"beside {count} measurements",
        f"{found:.1f} of rows found, {added:.1f} of results of sums, {summed:.2f} of copies of a table",
    )


def test_experts_that_tokens_read() -> None:
    """n tokens that choose 2 of 8 experts each at random miss one with probability (1 - 2/8)ⁿ."""
    two, eight = (8 * (1 - (1 - 2 / 8) ** tokens) for tokens in (2, 8))
    says("guides/generate-text", f"2 of 8 for one token, {two:.1f} for two, {eight:.1f} for eight")


def test_gains_of_clock_and_links_are_those_of_the_corners() -> None:
    """Rates at a slow and a fast clock, each with slow and fast links, as the page prints them."""
    corners = re.findall(
        r"^\[(\d+), (\d+), (\d+), (\d+)\]$", (STUDIES / "machines.md").read_text("utf-8"), re.MULTILINE
    )
    ((slow, slow_links, fast, fast_links),) = [tuple(map(float, found)) for found in corners]
    clock, links = (fast / slow, fast_links / slow_links), (slow_links / slow, fast_links / fast)
    says(
        "studies/machines",
        f"{clock[0]:.1f} to {clock[1]:.1f} times as fast; sixteen times the bandwidth of IPU-Links "
        f"{links[0]:.1f} to {links[1]:.1f} times",
    )
    says("guides/studies", f"twice the clock, {clock[0]:.1f} to {clock[1]:.1f} times the rate")


STUDIES = ROOT / "docs" / "studies"


def test_answers_in_the_list_of_studies_are_on_their_pages() -> None:
    """Each number of an answer stands in the section that the answer links to, or rounds one that does."""
    text = (ROOT / "docs" / "guides" / "studies.md").read_text(encoding="utf-8")
    answers = re.findall(r"\[([^\]]+)\]\(\.\./studies/(\w+\.md)#([\w-]+)\) \|$", text, re.MULTILINE)
    assert len(answers) > 10
    for answer, name, anchor in answers:
        sections = re.split(r"^## ", (STUDIES / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
        titled = {
            re.sub(r"[^\w\- ]", "", section.partition("\n")[0].lower()).replace(" ", "-"): section
            for section in sections
        }
        known = re.findall(r"\d+(?:\.\d+)?", titled[anchor].replace(",", ""))
        for number in re.findall(
            r"(?<![\w-])\d+(?:\.\d+)?(?!\d)", re.sub(r"[A-Z]\w*\d\w*(?:-\w+)?", "", answer.replace(",", ""))
        ):
            digits = len(number.partition(".")[2])
            assert any(f"{float(each):.{digits}f}" == number for each in known), f"{number}: {answer}"


def test_power_of_the_runs_of_mlperf() -> None:
    """Mean power of all shipped submissions on GC200, least and greatest, and the energy of an image. [kW, J]"""
    runs = {path.stem: podsim.run(path.stem) for path in (ROOT / "scenarios" / "mlperf").glob("*_v1.*_pod*.yaml")}

    def ends(pod: str) -> str:
        powers_kw = [run.mean_power_w / 1e3 for name, run in runs.items() if f"_{pod}" in name]
        assert len(powers_kw) >= 6
        return f"{min(powers_kw):.1f} to {max(powers_kw):.1f} kW"

    says(
        "guides/cost-and-energy",
        f"IPU-POD16 come to {ends('pod16')} and those of an IPU-POD64 to {ends('pod64')} in MLPerf's runs",
        f"an image of ResNet-50 in v1.1 on 16 IPUs to {runs['resnet50_v1.1_pod16'].energy_per_sample_j:.2f} J",
    )
    bert = [machine_kw(run) for name, run in runs.items() if name.startswith("bert") and "_pod16" in name]
    bow_kw = machine_kw(podsim.run("bert_v2.0_pod16_closed"))
    says("guides/cost-and-energy", f"16 IPUs come to {min(bert):.2f} to {max(bert):.2f} and to {bow_kw:.2f} kW.")


def machine_kw(run: podsim.RunResult) -> float:
    """Mean power of a machine with its IPUs, without host servers. [kW]"""
    energy = run.to_dict()["energy"]
    return float((energy["ipus_w"] + energy["machines_w"]) / energy["machine_count"]) / 1e3


def test_what_submissions_for_128_ipus_took() -> None:
    """MLPerf v2.0: BERT in 4.415 and ResNet-50 in 4.185 minutes."""
    with (ROOT / "reference_data" / "mlperf_submissions.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["round"], row["ipus"]) == ("v2.0", "128")]
    assert {row["benchmark"] for row in rows} == {"bert", "resnet"} and len(rows) == 2
    together_min = sum(float(row["score_physical_min"]) for row in rows)
    says("studies/pods", f"the submissions for 128 IPUs had them, and take {together_min:.1f} minutes together")


def test_calls_from_the_host_in_studies() -> None:
    call, image = (value_at(f"software/{name}_sdk_2.3", "host_call") for name in ("popart", "tensorflow1"))
    image_ms = float(image.removesuffix(" ms"))
    says("studies/pods", f"the call from the host, {call} in each of BERT's updates", f"of {image_ms:.0f} ms each")
    says("studies/machines", f"{call} of every weight update")
