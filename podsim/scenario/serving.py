"""Serving: arrival of requests, and copies of the model that process them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from podsim.errors import BadValueError
from podsim.extend import scheduler
from podsim.scenario.base import Spec
from podsim.scenario.quantity import Count, CountOrZero, SourcedTime
from podsim.scenario.wording import not_one_of

Rate = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
Load = Annotated[float, Field(strict=True, gt=0, le=10, allow_inf_nan=False)]
MOST_TOKENS = 1 << 20
Tokens = Annotated[int, Field(strict=True, ge=1, le=MOST_TOKENS)]


BATCHING: Final = ("static", "continuous")


def _read_batching(raw: Any) -> Any:
    """Refuse the name of a scheduler that is neither shipped nor registered."""
    known = (*BATCHING, *scheduler.names)
    if raw not in known:
        raise BadValueError(*not_one_of(raw, known))
    return raw


class RequestLengthSpec(Spec):
    """Requests of one length."""

    prompt_tokens: Tokens
    """Tokens of the prompt."""
    output_tokens: Tokens
    """Tokens to generate."""
    weight: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    """Relative probability, compared with a length of weight 1."""


class ServingSpec(Spec):
    """Requests over time, and copies of the model that serve them."""

    arrivals: Literal["poisson", "fixed_rate"] = "poisson"
    """Gaps between requests: exponential, or equal. For requests from a file this applies to the load curve only."""
    rate: Rate | None = None
    """Mean requests per second; 80 % of the saturation if left out. [1/s]"""
    users: Count | None = None
    """Number of users, instead of `rate` and `file`. Each sends a request, waits for its last token, thinks, and sends
    the next request."""
    think: SourcedTime | None = None
    """Mean time that a user thinks between an answer and the next request; exponential, or constant with
    `arrivals: fixed_rate`. [s]"""
    file: str | None = None
    """A CSV file next to the scenario with the columns `arrival_s`, `prompt_tokens` and `output_tokens`, instead of
    `rate` and `lengths`; the load curve samples its lengths."""
    request_count: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 2000
    """Number of requests. The saturation and each point of the load curve use at most 20,000, or four for each sequence
    of a batch."""
    seed: CountOrZero = 0
    """Seed of gaps and lengths."""
    lengths: Annotated[tuple[RequestLengthSpec, ...], Field(max_length=1000)] | None = None
    """Lengths to sample from; those of `generation` if left out."""
    batching: Annotated[
        str, BeforeValidator(_read_batching), WithJsonSchema({"enum": list(BATCHING), "type": "string"})
    ] = "continuous"
    """`static`: a batch stays together until its last token. `continuous`: requests join and leave between steps. A
    scheduler of an extension is named as well."""
    batch_size: Count | None = None
    """Largest number of sequences in a batch; that of `generation` if left out."""
    longest_wait: SourcedTime | None = None
    """Longest time that the oldest request waits for a static batch to fill; 0 if left out. [s]"""
    replicas: Count | None = None
    """Copies of the model; as many as fit the pod if left out."""
    loads: Annotated[tuple[Load, ...], Field(max_length=100)] = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
    """Points of the load curve, as shares of the saturation."""

    @model_validator(mode="after")
    def _keys_go_together(self) -> ServingSpec:
        for key in ("lengths", "loads"):
            if getattr(self, key) == ():
                raise BadValueError(f"`{key}` is empty", f"add an entry, or leave out `{key}`")
        for key in ("rate", "lengths"):
            if self.file is not None and getattr(self, key) is not None:
                raise BadValueError(f"`{key}` and `file` are both there", f"the file says it; leave out `{key}`")
        for key in ("rate", "file"):
            if self.users is not None and getattr(self, key) is not None:
                raise BadValueError(
                    f"`{key}` and `users` are both there", f"users come by themselves; leave out `{key}`"
                )
        if (self.users is None) != (self.think is None):
            there, missing, example = ("users", "think", "30 s") if self.users else ("think", "users", "50")
            raise BadValueError(f"`{there}` is there without `{missing}`", f"add for example `{missing}: {example}`")
        if self.users is not None and self.users > self.request_count:
            what = f"{self.users:,} users send {self.request_count:,} requests"
            raise BadValueError(what, "raise request_count to many times the number of users")
        if self.longest_wait is not None and self.batching != "static":
            raise BadValueError(
                "continuous batching never waits for a batch to fill",
                "leave out longest_wait, or set `batching: static`",
            )
        return self
