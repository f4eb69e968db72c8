"""Comparison of an imported model on several pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from podsim.errors import InfeasibleError
from podsim.escaped import printable
from podsim.format import format_figure
from podsim.importer import ONNX, import_model
from podsim.importer.request import Request
from podsim.metrics import HEADLINES, METRICS
from podsim.models.graph.torch_shapes import SUFFIX
from podsim.runs import run
from podsim.scenario import System, load_hardware, load_scenario
from podsim.scenario.pods import larger_pods
from podsim.scenario.yaml_file import parse_yaml
from podsim.watch import Watch

COMPARED: Final = ("ipu_pod16", "ipu_pod64")
"""Pods that an import without `--system` compares; each is one link domain."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Result of an imported model on one pod."""

    system: str  # name of the pod
    text: str = ""  # the scenario; empty if the model does not fit
    notes: tuple[str, ...] = ()  # remarks for the user
    rate: float = 0.0  # headline metric of its run [1/s]
    ipu_count: int = 1  # IPUs of the pod
    outcome: str = ""  # headline with its unit, and the place of weights; or the reason for its absence

    @property
    def rate_per_ipu(self) -> float:
        """Headline metric for each IPU of the pod. [1/s]"""
        return self.rate / self.ipu_count


def compare_pods(path: str | Path, request: Request, watch: Watch) -> list[Offer]:
    """Return an offer for each of `COMPARED`, and for larger pods until the model fits if it fits none of these.

    Raises:
        PodsimError: The file or an option is wrong, or the model fits no shipped pod.
    """
    offers: list[Offer] = []
    error: InfeasibleError | None = None
    for name in watch(COMPARED):
        try:
            offers.append(_offer(path, replace(request, system=name)))
        except InfeasibleError as failure:
            error = error or failure
            offers.append(Offer(name, outcome="does not fit"))
    if any(offer.text for offer in offers):
        return offers
    assert error is not None
    largest, _ = load_hardware(COMPARED[-1], "pod")
    assert isinstance(largest, System)
    for name, _ in larger_pods(largest):
        try:
            return [*offers, _offer(path, replace(request, system=name))]
        except InfeasibleError:
            offers.append(Offer(name, outcome="does not fit"))
    raise error


def best_offer(offers: Sequence[Offer]) -> Offer:
    """Return the offer with the highest headline metric per IPU; of equal offers, the smaller pod."""
    return max((offer for offer in offers if offer.text), key=lambda offer: (offer.rate_per_ipu, -offer.ipu_count))


def comparison(offers: Sequence[Offer]) -> Iterator[str]:
    """Yield lines that compare pods, and name the chosen pod."""
    for offer in offers:
        yield f"{offer.system}: {offer.outcome}"
    best = best_offer(offers)
    yield f"taken: {best.system}, which gives most for each IPU; `--system NAME` takes another"


def _offer(path: str | Path, request: Request) -> Offer:
    """Return the result on the pod of the request, or raise an `InfeasibleError`."""
    notes: list[str] = []
    text = import_model(path, request, notes.append)
    # The scenario names a graph relative to its future folder, but this run starts elsewhere.
    is_graph = request.folder is not None and Path(path).name.endswith((ONNX, SUFFIX))
    runnable = import_model(path, replace(request, folder=None)) if is_graph else text
    loaded = load_scenario(parse_yaml(runnable, printable(str(path))).data)
    result = run(loaded)
    key = next(key for key in HEADLINES if METRICS[key].get(result) is not None)
    rate = float(METRICS[key].get(result))
    weights = getattr(getattr(loaded.spec, "memory", None), "weights", None)
    where = f", weights {weights}" if isinstance(weights, str) else ""
    outcome = f"{format_figure(METRICS[key], rate)} {METRICS[key].head}{where}"
    return Offer(request.system, text, tuple(notes), rate, int(loaded.spec.system.ipu_count), outcome)
