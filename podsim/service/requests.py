"""The requests that a scenario describes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from podsim.errors import PodsimError
from podsim.serving import Load, Requests, read_arrivals
from podsim.specs.inference import GenerationSpec
from podsim.specs.serving import RequestLengthSpec, ServingSpec


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked.

    Attributes:
        load: Requests that can come at any rate; of a file, its lengths in random order.
        replay: The requests of a file as they came.
        inputs: Path and SHA-256 of that file.
    """

    load: Load
    replay: Requests | None = None
    inputs: tuple[tuple[str, str], ...] = ()

    @property
    def longest_prompt(self) -> int:
        """Tokens of the longest prompt."""
        return max(prompt for prompt, _ in self.load.lengths)


def drawn(serving: ServingSpec, generation: GenerationSpec) -> Demand:
    """Requests whose gaps and lengths are drawn."""
    asked = RequestLengthSpec(prompt_tokens=generation.prompt_tokens, output_tokens=generation.output_tokens)
    lengths = tuple(
        (each.prompt_tokens, each.output_tokens) for each in serving.lengths or (asked,) for _ in range(each.weight)
    )
    pattern = "fixed" if serving.arrivals == "fixed_rate" else "poisson"
    return Demand(Load(lengths, serving.request_count, serving.seed, pattern))  # type: ignore[arg-type]


def replayed(path: Path, serving: ServingSpec, generation: GenerationSpec) -> Demand:
    """Requests of a file.

    Raises:
        SpecError: The file is wrong; lists every problem with its place.
        PodsimError: A request is longer than what a sequence has room for.
    """
    requests = read_arrivals(path)
    pairs = tuple(zip(requests.prompt_tokens, requests.output_tokens, strict=True))
    _check_lengths(pairs, path, generation.sequence_length)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Demand(Load(pairs, len(pairs), serving.seed), requests, ((str(path), digest),))


def _check_lengths(pairs: Iterable[tuple[int, int]], path: Path, held: int) -> None:
    for number, (prompt, output) in enumerate(pairs, start=1):
        if prompt + output > held:
            raise PodsimError(
                f"request {number} has {prompt} + {output} tokens; generation makes room for {held} per sequence",
                where=str(path),
                do="raise generation.prompt_tokens or output_tokens, or shorten the request",
            )
