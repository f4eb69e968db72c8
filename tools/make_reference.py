"""Writes docs/reference from the schemas, the command line and simulations; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from podsim.studies.bow_page import bow_page
from podsim.studies.command_page import command_page
from podsim.studies.key_tables import schema_page
from podsim.studies.llama_page import llama_page

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
_SCENARIOS = {
    "bert_training": "Scenario",
    "convnet_training": "Image scenario",
    "decoder_training": "Decoder scenario, training",
    "vision_training": "Vision transformer scenario",
    "seq2seq_training": "Encoder-decoder scenario",
    "decoder_generation": "Text generation scenario",
    "graph_forward": "Forward scenario",
    "bert_forward": "Forward passes of BERT",
    "decoder_forward": "Forward passes of a decoder",
    "vision_forward": "Forward passes of a vision transformer",
    "seq2seq_forward": "Forward passes of an encoder-decoder",
}


def pages() -> dict[str, str]:
    """Name of each page and its text."""
    return {
        "scenario.md": schema_page(
            "Scenario files",
            "One question per file. Templates have every key with a comment:\n"
            "[one](../../scenarios/template.yaml) for BERT, [one](../../scenarios/image_template.yaml) for images.",
            _SCENARIOS,
        ),
        "hardware.md": schema_page(
            "Hardware files",
            "A file describes one pod, machine, chip or host server, and names the files of what it is made of.\n"
            "`base` names a file to start from; the keys that follow replace its keys, at any depth.",
            {"pod": "Pod", "machine": "Machine", "ipu": "IPU", "host": "Host server"},
            with_kind=True,
        ),
        "software.md": schema_page(
            "Software files",
            "What changes with the framework and its SDK, and not with the hardware.",
            {"software": "Software stack"},
        ),
        "command_line.md": command_page(),
        "bow_over_gc200.md": bow_page(),
        "llama2_7b.md": llama_page(),
    }


def main() -> int:
    """Write the pages, or name those that are out of date."""
    made = pages()
    old = {name: (FOLDER / name).read_text(encoding="utf-8") for name in made if (FOLDER / name).is_file()}
    moved = {name: text for name, text in made.items() if old.get(name) != text}
    if "--check" in sys.argv[1:]:
        for name in moved:
            print(f"docs/reference/{name}: out of date; run `./dev docs`", file=sys.stderr)
        return int(bool(moved))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in moved.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
