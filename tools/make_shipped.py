"""Writes the page of shipped scenarios and studies, each with command and answer; `--check` only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from os.path import relpath

import podsim
from podsim.report.report import Tile
from podsim.result.inference import ForwardResult, GenerationResult
from podsim.result.result import RunResult
from podsim.scenario import load_scenario
from podsim.scenario.catalogue import ListedScenario, catalogue
from podsim.scenario.library import shipped
from tools.generated import ROOT, renewed

PAGE = ROOT / "docs" / "reference" / "shipped.md"
PICTURES = ROOT / "docs" / "studies"
_NOTE = "<!-- written by tools/make_shipped.py from simulations; run `./dev docs` -->"
_INTRO = """
# What is shipped

Every scenario and every study, with the command that gives its answer. A headline has the
[range](../background/ranges.md#the-range-of-a-headline) that should hold 80 % of measurements; *published* is what was
measured, and the error of the prediction. Bars are the largest parts of a weight update, a decode step, or a call.
"""
_HEADER = "| scenario | headline | published | where time goes |\n|---|---|---|---|"
_FAMILIES = {
    "bert": "BERT",
    "decoder": "Decoders",
    "vit": "Vision transformers",
    "t5": "Encoder-decoders",
    "resnet": "ResNet",
    "efficientnet": "EfficientNet",
    "efficientnet_v2": "EfficientNetV2",
    "conductivity_cnn": "Other convolutional networks",
    "schnet": "Graph networks",
}
_SHOWN = ("throughput_samples_per_s", "tokens_per_s", "time_to_train_s", "time_to_first_token_s", "latency_s")
Answer = RunResult | GenerationResult | ForwardResult
_PARTS = 4
_BAR = 10
_LEAST_SHARE = 0.01


def page() -> str:
    """Return the text of the page."""
    families = {scenario: _family(scenario) for scenario in catalogue().scenarios}
    order = [*_FAMILIES, *sorted(set(families.values()) - set(_FAMILIES))]
    scenarios = sorted(families, key=lambda each: (order.index(families[each]), each.name))
    with ProcessPoolExecutor() as pool:
        rows = dict(zip(scenarios, pool.map(scenario_row, scenarios), strict=True))
    lines = [_NOTE, _INTRO]
    for family, members in groupby(scenarios, key=families.__getitem__):
        lines += [f"## {_FAMILIES.get(family, family)}\n", _HEADER, *(rows[member] for member in members), ""]
    return "\n".join([*lines, "## Studies\n", *_studies()]).rstrip() + "\n"


def _family(listed: ListedScenario) -> str:
    return str(load_scenario(listed.name).spec.model.kind)


def scenario_row(listed: ListedScenario) -> str:
    """Return a scenario's row: command, headline, published values and largest parts."""
    result = podsim.run(listed.name)
    shown = [tile for tile in result.headline() if tile.key in _SHOWN]
    answers = [_answer(tile) for tile in shown]
    notes = [note for tile in shown for note in tile.notes]
    published = [note.removeprefix("measured ") for note in notes if note.startswith("measured ")]
    commands = [f"`podsim run {listed.name}`"] + [f"`podsim serve {listed.name}`"] * (listed.kind == "serving")
    variants = [f"variants: {', '.join(f'`{variant}`' for variant in listed.variants)}"] if listed.variants else []
    file = relpath(shipped(listed.name, "scenario") or ROOT, PAGE.parent)
    told = [f"{listed.description} ([file]({file}))", *commands, *variants]
    return f"| {' | '.join('<br>'.join(each) for each in (told, answers, published, bars(result)))} |"


def _answer(tile: Tile) -> str:
    """Return a metric with its range; a rate is identified by its unit, a time by its label."""
    name = "" if tile.key.endswith("_per_s") else f"{tile.label.lower()} "
    return f"{name}{tile.value} ({tile.range})" if tile.range else f"{name}{tile.value}"


def bars(result: Answer) -> list[str]:
    """Return the largest parts of the time of a result as text bars."""
    time_ps = result.decode.breakdown_ps if isinstance(result, GenerationResult) else result.breakdown_ps
    whole = sum(time_ps.values())
    largest = sorted(time_ps.items(), key=lambda part: -part[1])[:_PARTS]
    shares = [(kind, part / whole) for kind, part in largest if part > _LEAST_SHARE * whole]
    return [f"{'█' * max(1, round(share * _BAR))} {kind} {share * 100:.0f} %" for kind, share in shares]


def _studies() -> Iterator[str]:
    """Yield each study with its command, and its chart if there is one."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(PICTURES.glob("*.md"))}
    for study in catalogue().studies:
        command = f"podsim {study.command} {study.name}"
        (answer,) = (path for path, text in pages.items() if f"$ {command}" in text)
        yield f"### `{study.name}`\n"
        yield f"{study.description}: `{command}`, [the answer](../studies/{answer.name}).\n"
        if (PICTURES / f"{study.name}.png").is_file():
            yield f"![Chart of {study.name}](../studies/{study.name}.png)\n"


def main() -> int:
    """Write the page, or say that it is out of date."""
    return renewed({PAGE: page()})


if __name__ == "__main__":
    sys.exit(main())
