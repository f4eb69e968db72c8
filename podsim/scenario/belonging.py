"""What a scenario says of one model, and what becomes of it when the model is another.

Samples to converge, logged epochs and a description belong to the model, data and optimizer beside which they were
written. Where a base, a variant or an override brings another model, nothing is known of how long it trains until
that is given, and a description of the other is no title of this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from podsim.scenario.activity import Activity
from podsim.scenario.document import Document, KeyPath
from podsim.scenario.resolve import merge
from podsim.scenario.scenario import Scenario
from podsim.scenario.training import TrainingScenario
from podsim.scenario.wording import counted

_DESCRIPTION: Final = ("description",)
_SAMPLES: Final = ("run", "samples_to_converge")
_ENDS: Final = (_SAMPLES, ("run", "epochs"), ("run", "weight_updates"))
_SECTIONS: Final = ("model", "data", "optimizer")
_TOLD_APART: Final = {"kind", "cost", "expect"}
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Belonging:
    """A scenario without what belongs to another model.

    Attributes:
        spec: The scenario.
        notices: What was left out, and what to give; what stays and was given for another model.
        borrowed: Whether the description is that of a base from which the scenario differs.
    """

    spec: Scenario
    notices: tuple[str, ...] = ()
    borrowed: bool = False


def belonging(spec: Scenario, document: Document, layers: Sequence[Document], given: int, file: int) -> Belonging:
    """Leave out what belongs to another model.

    Args:
        spec: The scenario as it is laid out.
        document: The data that it was read from.
        layers: What was laid over one another: bases, file, variant, overrides.
        given: How many of them, from the last, were written at once: the overrides.
        file: Which of them is the file.
    """
    layers = _joined(layers, given)
    notices: list[str] = []
    if spec.activity is Activity.TRAINING:
        spec, told = _with_known_end(cast(TrainingScenario, spec), document, layers)
        notices += told
    borrowed = False
    written = _last(layers, _DESCRIPTION)
    if spec.description and written is not None:
        if any(key.startswith("model") for key, _, _ in _differences(spec, layers, written)):
            spec = spec.model_copy(update={"description": ""})
        borrowed = any(layer.data.keys() - _TOLD_APART for layer in layers[written + 1 : file + 1])
    return Belonging(spec, tuple(notices), borrowed)


def _joined(layers: Sequence[Document], given: int) -> list[Document]:
    """The layers with all overrides as one."""
    apart, together = list(layers[: len(layers) - given]), layers[len(layers) - given :]
    return [*apart, reduce(merge, together)] if together else apart


def _last(layers: Sequence[Document], key: KeyPath) -> int | None:
    """The last layer that writes a key, or a part of its value; None if there is none."""
    for place in range(len(layers) - 1, -1, -1):
        found: Any = layers[place].data
        for part in key:
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None:
            return place
    return None


def _with_known_end(
    spec: TrainingScenario, document: Document, layers: Sequence[Document]
) -> tuple[TrainingScenario, list[str]]:
    """A training run without an end that belongs to another model."""
    run = spec.run
    end = None if run is None else next((key for key in _ENDS if getattr(run, key[-1], None) is not None), None)
    if run is None or end is None:
        return spec, []
    key, at = ".".join(end), document.where(end)
    place = f"{key} ({at})" if at else key
    without = f"no time to train: {place} is"
    if run.is_drawn and spec.benchmark is None:
        what = spec.model.reference_words
        return _open(spec), [f"{without} drawn from MLPerf's reference runs, which are of {what}; {_CURE}"]
    written = _last(layers, end)
    if written is None or run.is_drawn:
        return spec, []
    changed = _differences(spec, layers, written)
    if not changed:
        return spec, _of_another_batch(spec, layers, written, place)
    differing = ", ".join(f"{name} {_shown(before)} → {_shown(after)}" for name, before, after in changed[:_SHOWN])
    more = f" and {counted(len(changed) - _SHOWN, 'more key')}" if len(changed) > _SHOWN else ""
    if run.is_converged:
        what = f"{without} given for another model, data or optimizer ({differing}{more}); {_CURE}"
        return _open(spec), [what]
    return spec, [
        f"{place} is given for another model, data or optimizer ({differing}{more}): the time is that of a run so "
        "long, and nothing says that it reaches the goal of the other; give it anew for this one"
    ]


_CURE: Final = "give run.samples_to_converge, run.weight_updates or run.epochs for what is trained here"


def _open(spec: TrainingScenario) -> TrainingScenario:
    assert spec.run is not None
    return spec.model_copy(update={"run": spec.run.without_end()})


def _of_another_batch(spec: TrainingScenario, layers: Sequence[Document], written: int, place: str) -> list[str]:
    """A warning where samples to converge without a batch size were given beside another batch."""
    if spec.run is None or not spec.run.is_converged or spec.run.has_batch:
        return []
    before, after = _batch(layers[: written + 1]), _batch(layers)
    if before is None or after is None or before == after:
        return []
    return [
        f"{place} was given beside a batch of {before:,} and is taken for one of {after:,}, as if the number of "
        "samples did not grow with the batch; write `{runs: [...], batch_size: ...}`, or the number for this batch"
    ]


def _batch(layers: Sequence[Document]) -> int | None:
    """Samples of one weight update as layers say; None if they leave it open."""
    data = reduce(merge, layers).data
    given, division = data.get("batch_size"), data.get("parallelism")
    if isinstance(given, int):
        return given
    factors = ("micro_batch_size", "accumulation_factor", "replication_factor")
    numbers = [division.get(name) if isinstance(division, Mapping) else None for name in factors]
    product = 1
    for number in numbers:
        if not isinstance(number, int):
            return None
        product *= number
    return product


def _differences(spec: Scenario, layers: Sequence[Document], written: int) -> list[tuple[str, object, object]]:
    """Keys of model, data and optimizer that differ from those beside which something was written."""
    if not any(section in layer.data for layer in layers[written + 1 :] for section in _SECTIONS):
        return []
    after = dict(_identity(spec))
    for last in range(written, len(layers)):
        beside = reduce(merge, [_sections(layer) for layer in layers[: last + 1]])
        try:
            found = _part(type(spec)).model_validate(beside.data)
        except ValidationError:
            # A base that describes no whole model; the first whole one is the one that is meant.
            continue
        before = dict(_identity(found))
        keys = dict.fromkeys((*before, *after))
        return [(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]
    return []


@lru_cache
def _part(form: type[Scenario]) -> type[BaseModel]:
    """Model, data and optimizer of a scenario, read without the rest."""
    fields = {name: form.model_fields[name] for name in _SECTIONS if name in form.model_fields}
    make: Any = create_model  # mypy knows sections that are written out only
    made: type[BaseModel] = make(
        "Part",
        __config__=ConfigDict(extra="ignore", frozen=True),
        **{name: (declared.annotation, declared) for name, declared in fields.items()},
    )
    return made


def _sections(layer: Document) -> Document:
    return replace(layer, data={key: layer.data[key] for key in _SECTIONS if key in layer.data}, places={})


def _identity(spec: Any) -> Iterator[tuple[str, object]]:
    """What makes a model, its data and its optimizer what they are, by key."""
    for section in ("model", "data"):
        part = getattr(spec, section, None)
        if isinstance(part, BaseModel):
            beside: frozenset[str] = getattr(part, "beside", frozenset())
            yield from _leaves(part.model_dump(mode="json", exclude=set(beside)), section)
    kind = getattr(getattr(spec, "optimizer", None), "kind", None)
    if kind is not None:
        yield "optimizer.kind", kind


def _leaves(value: Any, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}")
    else:
        yield path, value


def _shown(value: object) -> str:
    return "not given" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
