"""The benchmarks that podsim has scenarios of, as MLPerf's rules describe them. Source: [mlperf_training_rules]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podsim.errors import PodsimError

_ENCODER_LAYERS: Final = 24
_NORM: Final = ("LayerNorm/gamma", "LayerNorm/beta")
_ATTENTION: Final = tuple(
    f"attention/self/{projection}/{part}" for projection in ("query", "key", "value") for part in ("kernel", "bias")
)
_UNITS_OF_STAGES: Final = (3, 4, 6, 3)
_CONVOLUTIONS: Final = (("1", "1"), ("2", "2"), ("3", "3"))
_SHORTCUT: Final = ("1sc", "sc")
"""Convolutions of a unit with their norms, as tensors are named."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: As result files call it.
        title: As people do.
        run_count: Runs of a submission.
        target: The quality at which a run ends.
        ended: What to add to a command line so that a run ends.
        evaluated: What to add so that it is evaluated.
        tensors: Names of the weights whose initial values have to be logged.
    """

    name: str
    title: str
    run_count: int
    target: float
    ended: str
    evaluated: str
    tensors: tuple[str, ...]


def _bert_tensors() -> Iterator[str]:
    for kind in ("word", "position", "token_type"):
        yield f"bert/embeddings/{kind}_embeddings"
    yield from (f"bert/embeddings/{part}" for part in _NORM)
    dense = ("dense/kernel", "dense/bias")
    layer = (
        *_ATTENTION,
        *(f"attention/output/{part}" for part in (*dense, *_NORM)),
        *(f"intermediate/{part}" for part in dense),
        *(f"output/{part}" for part in (*dense, *_NORM)),
    )
    yield from (f"bert/encoder/layer_{index}/{part}" for index in range(_ENCODER_LAYERS) for part in layer)
    yield from (f"bert/pooler/{part}" for part in dense)
    yield from (f"cls/predictions/{part}" for part in ("output_bias", *(f"transform/{p}" for p in (*dense, *_NORM))))
    yield from (f"cls/seq_relationship/output_{part}" for part in ("weights", "bias"))


def _resnet_tensors() -> Iterator[str]:
    yield from ("conv0_weight", "bn0_gamma", "bn0_beta", "fc1_weight", "fc1_bias")
    for stage, units in enumerate(_UNITS_OF_STAGES, 1):
        for unit in range(1, units + 1):
            # The first unit of a stage has a convolution in its shortcut.
            for conv, norm in (*_CONVOLUTIONS, *((_SHORTCUT,) if unit == 1 else ())):
                for tensor in (f"conv{conv}_weight", f"bn{norm}_gamma", f"bn{norm}_beta"):
                    yield f"stage{stage}_unit{unit}_{tensor}"


_BERT_ENDED: Final = "`--set run.samples_to_converge.reference_convergence=true --set run.evaluation.samples=10000`"
_RESNET_ENDED: Final = "`--set run.epochs=40 --set run.checkpoint.every_epochs=4 --set run.validation.samples=50000`"
_RESNET_EVALUATED: Final = "`--set run.checkpoint.every_epochs=4 --set run.validation.samples=50000`"

BENCHMARKS: Final = {
    "bert": Benchmark(
        *("bert", "BERT-Large", 10, 0.72, _BERT_ENDED, "`--set run.evaluation.samples=10000`"),
        tensors=tuple(_bert_tensors()),
    ),
    "resnet": Benchmark(
        *("resnet", "ResNet-50", 5, 0.759, _RESNET_ENDED, _RESNET_EVALUATED),
        tensors=tuple(_resnet_tensors()),
    ),
}
"""By the name that result files have."""


def benchmark_of(name: str | None, where: str) -> Benchmark:
    """The benchmark of a name, or of a model's `benchmark`.

    Raises:
        PodsimError: It is none, or none that podsim knows.
    """
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    known = " and ".join(f"{each.title} (`{each.name}`)" for each in BENCHMARKS.values())
    what = "the model is no benchmark of MLPerf Training" if name is None else f"benchmark `{name}` is none"
    raise PodsimError(f"{what} that podsim knows; those are {known}", where=where, do=_CURE)


_CURE: Final = "use a scenario of one of them, such as `bert_v2.0_pod64_closed`; `podsim list mlperf` shows all"


def section(scenario: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of a resolved scenario, empty if it has none."""
    found = scenario.get(name)
    return found if isinstance(found, Mapping) else {}


def nominal_batch(packs: int, scenario: Mapping[str, Any]) -> int:
    """The batch size that result files have: a pack counts as so many sequences as a whole number comes close to.

    >>> nominal_batch(2304, {"data": {"packing": {"sequences_per_pack": 2.0368}}})
    4608
    """
    return packs * nominal_sequences_per_pack(scenario)


def nominal_sequences_per_pack(scenario: Mapping[str, Any]) -> int:
    """Sequences of a pack as a whole number; 1 where nothing is packed. Source: [mlperf_logs]."""
    packing = section(scenario, "data").get("packing")
    return 1 if packing is None else math.floor(packing["sequences_per_pack"] + 1 / 2)


def batch_size(scenario: Mapping[str, Any]) -> int:
    """Samples, or packs, of one weight update of a resolved scenario."""
    layout = section(scenario, "parallelism")
    factors = ("micro_batch_size", "accumulation_factor", "replication_factor")
    return math.prod(int(layout[name]) for name in factors)
