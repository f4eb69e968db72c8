"""Dimensions of inputs: those that a file fixes, and those that somebody has to choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from podsim.errors import Problem, SpecError
from podsim.models.graph.onnx_file import printable
from podsim.scenario.wording import known_here

if TYPE_CHECKING:
    from onnx import ValueInfoProto

LARGEST_DIMENSION = 10**9


def set_dimensions(inputs: Sequence[ValueInfoProto], given: Mapping[str, int], file: str) -> dict[str, int]:
    """Write sizes into the inputs of a graph.

    Args:
        inputs: Inputs; dimensions that are open get the sizes that are given for them.
        given: Sizes by name; a dimension without a name is called `INPUT_AXIS`.
        file: Name of the file, for messages.

    Returns:
        The open dimensions with their sizes, in the order of the inputs.

    Raises:
        SpecError: A size is missing or not possible, or a name is not one of the graph's.
    """
    sizes: dict[str, int] = {}
    missing: dict[str, str] = {}
    for value in inputs:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if dimension.dim_value > 0:
                continue
            named = any(map(str.isalnum, dimension.dim_param))
            name = dimension.dim_param if named else f"{value.name}_{axis}"
            if name in given:
                dimension.dim_value = sizes[name] = given[name]
            else:
                stated = f", {dimension.dim_value} in the file" if dimension.HasField("dim_value") else ""
                missing.setdefault(name, f"`{printable(name)}` (input {printable(value.name)}, axis {axis}{stated})")
    problems = [_impossible(file, name, size) for name, size in given.items() if not 0 < size <= LARGEST_DIMENSION]
    problems += [_unknown(file, name, [*sizes, *missing]) for name in given if name not in sizes]
    if missing:
        problems.append(_open(file, missing))
    if problems:
        raise SpecError(problems)
    return sizes


def _impossible(file: str, name: str, size: int) -> Problem:
    what = f"dimension `{printable(name)}` cannot be {size}"
    return Problem(file, "", what, f"give it a size from 1 to {LARGEST_DIMENSION}")


def _unknown(file: str, name: str, known: Sequence[str]) -> Problem:
    what = f"no input has an open dimension `{printable(name)}`"
    return Problem(file, "", what, known_here(name, map(printable, known), "leave it out"))


def _open(file: str, missing: Mapping[str, str]) -> Problem:
    example = printable(next(iter(missing)))
    what = f"the graph leaves sizes of its inputs open: {', '.join(missing.values())}"
    how = f"`--dimension {example}=4` of podsim import, or `model.dimensions: {{{example}: 4}}` in a scenario"
    return Problem(file, "", what, f"give each of them: {how}")
