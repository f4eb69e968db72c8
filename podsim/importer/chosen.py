"""A division that is chosen for an imported model, and the lines that say why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from podsim.errors import InfeasibleError
from podsim.importer.imported import Imported
from podsim.importer.scenario_text import Section, as_mapping, comment_lines
from podsim.parallelism.auto import choose
from podsim.parallelism.choice import Choice
from podsim.report.choice_text import choice_yaml, division_words
from podsim.specs import LoadedScenario, load_scenario
from podsim.watch import Watch

_RUNNERS_UP = 2
_KEY_OF_AN_OPTION = re.compile(r"`(system|batch_size): ")


def chosen_division(
    model: Imported, sections: Sequence[Section], batch: dict[str, int], watch: Watch
) -> tuple[LoadedScenario, Choice]:
    """The fastest division that fits.

    Args:
        model: The model.
        sections: The scenario so far.
        batch: `batch_size` of a training run.
        watch: Passes on the names of the divisions that are tried.

    Raises:
        SpecError: The pod is not known, or a number is beyond reason.
        InfeasibleError: No division fits, or the batch cannot be divided.
    """
    loaded = load_scenario(as_mapping(sections) | {"parallelism": "auto"} | batch)
    try:
        return choose(loaded, watch)
    except InfeasibleError as error:
        raise type(error)(error.message, do=_with_options(error.do)).at(model.config.name) from None


def _with_options(cure: str | None) -> str | None:
    """Keys of a scenario as the options that stand for them."""
    return cure and _KEY_OF_AN_OPTION.sub(_option, cure).replace("batch_size", "--batch-size")


def _option(match: re.Match[str]) -> str:
    return f"`--{match[1].replace('_', '-')} "


def division_lines(choice: Choice, first: str) -> Iterator[str]:
    """The keys of the division under a comment with what it was weighed against.

    Args:
        choice: The outcome of the search.
        first: The first line of the comment.
    """
    yield ""
    yield from comment_lines(first)
    others = [each for each in choice.candidates[1:] if each.fits][:_RUNNERS_UP]
    if others:
        words = "; ".join(f"{division_words(each)}: {each.verdict}" for each in others)
        yield from comment_lines(f"Next: {words}.")
    misfit = next((each for each in choice.candidates if not each.fits), None)
    if misfit is not None:
        yield from comment_lines(f"Too large: {division_words(misfit)}: {misfit.verdict}.")
    yield choice_yaml(choice.chosen)
