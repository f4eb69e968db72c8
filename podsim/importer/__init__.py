"""Models described elsewhere, as scenarios that run."""

from __future__ import annotations

from pathlib import Path

from podsim.importer.config_file import read_config
from podsim.importer.decoder import decoder_scenario
from podsim.importer.encoder import encoder_scenario
from podsim.importer.huggingface import imported
from podsim.importer.request import Request

__all__ = ["Request", "import_model"]


def import_model(path: str | Path, request: Request | None = None) -> str:
    """Read a Hugging Face `config.json` and write a scenario, divided over IPUs so that it fits.

    Args:
        path: The file.
        request: What is asked of the model.

    Returns:
        The scenario as commented YAML. The same file gives the same text.

    Raises:
        SpecError: The file is wrong, or its architecture is not known.
        DoesNotFitError: The model does not fit the pod; names the smallest shipped pod on which it does.
    """
    model, request = imported(read_config(path)), request or Request()
    return decoder_scenario(model, request) if model.kind == "decoder" else encoder_scenario(model, request)
