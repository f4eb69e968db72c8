"""What options ask of an imported model: an activity that makes sense for it, and number formats that this has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from podsim.errors import PodsimError
from podsim.importer.reader import Entry
from podsim.importer.request import Request
from podsim.importer.scenario_text import Section
from podsim.specs import Activity
from podsim.specs.wording import shown

ACTIVITIES = {"train": Activity.TRAINING, "forward": Activity.FORWARD, "generate": Activity.GENERATION}
"""Activities by the words that options have for them."""
_PLAIN = ("fp16", "fp32")
_FORMATS = {
    Activity.TRAINING: (_PLAIN, ("weights", "activations", "gradient_accumulation", "matmul_partials")),
    Activity.FORWARD: (_PLAIN, ("weights", "activations", "matmul_partials")),
    # Narrow weights are unpacked for the matrix unit; all else stays in half precision.
    Activity.GENERATION: (("fp16", "fp8", "int4"), ("weights",)),
}
"""Number formats of an activity, and the keys of `precision` that an option sets."""


def activity_of(request: Request, can: Collection[Activity], otherwise: Activity, family: str, where: str) -> Activity:
    """What is asked of a model.

    Args:
        request: The options.
        can: What makes sense for the model.
        otherwise: What is done if nothing is asked.
        family: What the model is called.
        where: The file that it comes from.

    Raises:
        PodsimError: That makes no sense for the model.
    """
    if request.activity is None:
        return otherwise
    words = " or ".join(f"`--activity {word}`" for word, activity in ACTIVITIES.items() if activity in can)
    activity = ACTIVITIES.get(request.activity)
    if activity is None:
        raise PodsimError(f"{shown(request.activity)} is not an activity", where=where, do=f"use {words}")
    if activity not in can:
        what = f"--activity {request.activity} means nothing for a {family}"
        raise PodsimError(what, where=where, do=f"use {words}")
    return activity


def precision(request: Request, activity: Activity, where: str) -> Iterator[Section]:
    """The number formats, if they are asked for.

    Raises:
        PodsimError: The activity has no such format.
    """
    if request.precision is None:
        return
    formats, keys = _FORMATS[activity]
    if (request.precision, activity) == ("fp8", Activity.FORWARD):
        what = "--precision is of all numbers in forward passes, of which only operands of products can be fp8"
        raise PodsimError(what, where=where, do="leave it out, and write `precision: {products: fp8}` for a c600")
    if request.precision not in formats:
        what = f"--precision {request.precision} is not modelled in {activity.words}"
        raise PodsimError(what, where=where, do=f"use one of: {', '.join(formats)}")
    yield Section("precision", tuple(Entry(key, request.precision, "--precision") for key in keys))


def refuse_tokens(request: Request, activity: Activity, where: str) -> None:
    """Refuse options of text generation.

    Raises:
        PodsimError: One is given.
    """
    for name in ("prompt_tokens", "output_tokens"):
        if getattr(request, name) is not None:
            what = f"--{name.replace('_', '-')} means nothing in {activity.words}"
            raise PodsimError(what, where=where, do="leave it out")
