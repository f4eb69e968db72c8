"""Words that a shell offers for completion: shipped names, and the variants of a scenario."""

from __future__ import annotations

from contextlib import suppress

import typer

from podsim.errors import PodsimError


def scenarios() -> list[str]:
    """Names of the shipped scenarios; shells complete files where none of them begins with the word."""
    return _shipped("scenarios")


def studies() -> list[str]:
    """Names of the shipped studies of any command."""
    return _shipped("studies")


def systems() -> list[str]:
    """Names of the shipped pods."""
    return _shipped("systems")


def chips() -> list[str]:
    """Short names of the shipped chips."""
    return ["gc200", "bow", "c600", "gc2"]


def kinds_of_file() -> list[str]:
    """Kinds of file that have a schema."""
    from podsim.scenario.load import KINDS

    return ["scenario", *KINDS]


def variants(ctx: typer.Context) -> list[str]:
    """Variants of the scenario that stands on the line already."""
    from podsim.scenario import variant_names

    # With nothing after `--variant`, the line is not understood and its words are left as they are.
    for word in (ctx.params.get("scenario"), *ctx.args):
        with suppress(PodsimError):
            if word and not word.startswith("-"):
                return list(variant_names(word))
    return []


def _shipped(kind: str) -> list[str]:
    from podsim.scenario import shipped_names

    return shipped_names()[kind]
