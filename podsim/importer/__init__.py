"""Import of models from other formats, as scenarios that run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from podsim.errors import PodsimError
from podsim.escaped import printable
from podsim.importer.reader import read_config
from podsim.importer.request import Request
from podsim.models.graph.torch_shapes import SUFFIX
from podsim.watch import Watch, silent

__all__ = ["ONNX", "Request", "import_model"]

TORCH_SCRIPT = Path(__file__).parent / "export_shapes.py"
"""Script that writes shapes of a PyTorch model; runs where PyTorch is installed."""
ONNX = ".onnx"
"""Suffix of ONNX files."""


def import_model(
    path: str | Path,
    request: Request | None = None,
    warn: Callable[[str], None] = lambda warning: None,
    watch: Watch = silent,
) -> str:
    """Return the YAML text of a scenario for a `config.json`, ONNX or `.shapes.json` file, with a layout that fits.

    `warn` receives each warning, `watch` reports progress of searches.

    Raises:
        PodsimError: The file or an option is wrong, or the model does not fit.
    """
    path, request = Path(path), request or Request()
    if path.suffix.lower() == ONNX or path.name.endswith(SUFFIX):
        from podsim.importer.graph import graph_scenario

        text, warnings = graph_scenario(path, request, watch)
    else:
        text, warnings = _from_config(path, request, watch)
    for warning in warnings:
        warn(warning)
    return text


def _from_config(path: Path, request: Request, watch: Watch) -> tuple[str, tuple[str, ...]]:
    """Return the YAML text of a scenario for a `config.json`, and the warnings."""
    if request.dimensions:
        where = printable(str(path))
        raise PodsimError("--dimension means nothing for a config.json", where=where, do="leave it out")
    from podsim.importer.huggingface import imported
    from podsim.importer.scenarios import activity_of, forward_scenario, generation_scenario, training_scenario
    from podsim.scenario import Activity
    from podsim.scenario.families.registry import family

    model = imported(read_config(path))
    default = Activity.GENERATION if model.kind == "decoder" else Activity.TRAINING
    match activity_of(request, family(model.kind).sections, default, model.family, model.config.name):
        case Activity.GENERATION:
            return generation_scenario(model, request, watch)
        case Activity.TRAINING:
            return training_scenario(model, request, watch)
        case Activity.FORWARD:
            return forward_scenario(model, request, watch)
