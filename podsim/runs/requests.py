"""The requests that a scenario describes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from podsim.runs.serving import Load, Requests, read_arrivals
from podsim.scenario.generation import GenerationSpec
from podsim.scenario.serving import RequestLengthSpec, ServingSpec

_PATTERNS: Final[dict[str, Literal["poisson", "fixed"]]] = {"poisson": "poisson", "fixed_rate": "fixed"}


@dataclass(frozen=True, slots=True)
class Demand:
    """The requests of a run: their prompts, their outputs, and when they come.

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
    given = serving.lengths or (
        RequestLengthSpec(prompt_tokens=generation.prompt_tokens, output_tokens=generation.output_tokens),
    )
    lengths = tuple((each.prompt_tokens, each.output_tokens) for each in given for _ in range(each.weight))
    return Demand(Load(lengths, serving.request_count, serving.seed, _PATTERNS[serving.arrivals]))


def replayed(path: Path, serving: ServingSpec, generation: GenerationSpec) -> Demand:
    """Requests of a file.

    Raises:
        SpecError: The file is wrong, or a request is longer than what a sequence has room for.
    """
    requests = read_arrivals(path, generation.sequence_length)
    pairs = tuple(zip(requests.prompt_tokens, requests.output_tokens, strict=True))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Demand(Load(pairs, len(pairs), serving.seed, _PATTERNS[serving.arrivals]), requests, ((str(path), digest),))
