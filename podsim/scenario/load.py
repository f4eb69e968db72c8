"""Loading: from a path, a name or a mapping to a validated, frozen scenario.

Samples to converge, logged epochs and a description apply to the model, data and optimizer that were written with
them. If a base, a variant or an override changes the model, its time to train is unknown until a new number is given,
and the old description is no title of the new scenario. A notice reports values that are possible but far from any
real one, most often a slip of the unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from podsim import memo
from podsim.errors import Problem, SpecError
from podsim.lazy import LazySequence
from podsim.options import Overrides
from podsim.scenario.activity import Activity
from podsim.scenario.auto import (
    AutoSpec,
    auto_part,
    is_auto,
    missing_batch,
    misspelled,
    spelled_out,
    undivided,
    with_given_division,
)
from podsim.scenario.base import HardwareSpec, with_written
from podsim.scenario.document import VALUE, Document, KeyPath
from podsim.scenario.families.registry import form_of
from podsim.scenario.hardware import Host, Machine, System
from podsim.scenario.ipu import Ipu
from podsim.scenario.library import SCENARIOS, data_root, is_as_shipped, namesake_notice, shipped
from podsim.scenario.pins import BATCH, PARALLELISM
from podsim.scenario.problems import problems_of
from podsim.scenario.quantity import quantities
from podsim.scenario.resolve import (
    REFERENCES,
    VARIANTS,
    Change,
    Written,
    assigned,
    changes,
    layers_of,
    load_document,
    merge,
    merged_layers,
    read_written,
    resolved_layers,
)
from podsim.scenario.scenario import Scenario
from podsim.scenario.software import Software
from podsim.scenario.training import TrainingScenario
from podsim.scenario.transformer_training import ENDS
from podsim.scenario.vertices import Vertices
from podsim.scenario.wording import counted, dotted, flow, quoted

_DESCRIPTION_PATH: Final = ("description",)
_END_PATHS: Final = tuple(("run", key) for key in ENDS)
_UPDATES_PATH: Final = ("run", "weight_updates")
_IDENTITY_SECTIONS: Final = ("model", "data", "optimizer")
_NEUTRAL_SECTIONS: Final = {"kind", "cost", "expect"}
_MOST_KEYS: Final = 3


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """Scenario without the end and the description of another model, with notices about them."""

    spec: Scenario
    notices: tuple[str, ...] = ()  # ends that were removed, or kept though given for another model
    borrowed: bool = False  # True if the description is that of a base from which the scenario differs


def _without_foreign_end(
    spec: Scenario, document: Document, layers: Sequence[Document], override_count: int, file_index: int
) -> _Cleaned:
    """Remove the end and the description of a scenario if they were written for another model.

    The last `override_count` layers are overrides; `file_index` is the index of the file's layer.
    """
    layers = _with_one_override_layer(layers, override_count)
    notices: list[str] = []
    if spec.activity is Activity.TRAINING:
        spec, end_notices = _with_known_end(cast(TrainingScenario, spec), document, layers)
        notices += end_notices
    borrowed = False
    writer = _last_writer(layers, _DESCRIPTION_PATH)
    if spec.description and writer is not None:
        if any(key.startswith("model") for key, _, _ in _differences(spec, layers, writer)):
            spec = spec.model_copy(update={"description": ""})
        borrowed = any(layer.data.keys() - _NEUTRAL_SECTIONS for layer in layers[writer + 1 : file_index + 1])
    return _Cleaned(spec, tuple(notices), borrowed)


def _with_one_override_layer(layers: Sequence[Document], override_count: int) -> list[Document]:
    """Return the layers with all overrides merged into one."""
    others, overrides = list(layers[: len(layers) - override_count]), layers[len(layers) - override_count :]
    return [*others, reduce(merge, overrides)] if overrides else others


def _last_writer(layers: Sequence[Document], key: KeyPath) -> int | None:
    """Return the index of the last layer that writes a key or a part of its value, or None."""
    for index in range(len(layers) - 1, -1, -1):
        value: Any = layers[index].data
        for part in key:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return index
    return None


def _with_known_end(
    spec: TrainingScenario, document: Document, layers: Sequence[Document]
) -> tuple[TrainingScenario, list[str]]:
    """Return a training run without an end that was given for another model, and the notices about it."""
    run = spec.run
    end = None if run is None else next((key for key in _END_PATHS if getattr(run, key[-1], None) is not None), None)
    if run is None or end is None:
        return spec, []
    key, place = ".".join(end), document.where(end)
    where = f"{key} ({place})" if place else key
    no_time = f"no time to train: {where} is"
    if run.is_drawn and spec.benchmark is None:
        what = spec.model.reference_words
        return _without_end(spec), [f"{no_time} drawn from MLPerf's reference runs, which are of {what}; {_CURE}"]
    writer = _last_writer(layers, end)
    if writer is None or run.is_drawn:
        return spec, []
    differences = _differences(spec, layers, writer)
    if not differences:
        return spec, _batch_notices(spec, layers, writer, where)
    shown = ", ".join(
        f"{name} {_value_text(before)} → {_value_text(after)}" for name, before, after in differences[:_MOST_KEYS]
    )
    rest = len(differences) - _MOST_KEYS
    more = f" and {counted(rest, 'more key')}" if rest > 0 else ""
    if run.is_converged:
        what = f"{no_time} given for another model, data or optimizer ({shown}{more}); {_CURE}"
        return _without_end(spec), [what]
    return spec, [
        f"{where} is given for another model, data or optimizer ({shown}{more}): the time is that of a run so "
        "long, and nothing says that it reaches the goal of the other; give it again for this one"
    ]


_CURE: Final = "give run.samples_to_converge, run.samples, run.tokens or run.epochs for what is trained here"


def _document_notices(document: Document) -> tuple[str, ...]:
    """Return the notices of a document."""
    return (*document.notices, *([namesake_notice(document.namesakes)] if document.namesakes else ()))


def _without_end(spec: TrainingScenario) -> TrainingScenario:
    assert spec.run is not None
    return spec.model_copy(update={"run": spec.run.without_end()})


def _batch_notices(spec: TrainingScenario, layers: Sequence[Document], writer: int, where: str) -> list[str]:
    """Return a notice if samples to converge without a batch size were written for another batch size."""
    if spec.run is None or not spec.run.is_converged or spec.run.has_batch:
        return []
    before, after = _batch(layers[: writer + 1]), _batch(layers)
    if before is None or after is None or before == after:
        return []
    return [
        f"{where} was given beside a batch of {before:,} and is taken for one of {after:,}, as if the number of "
        "samples did not grow with the batch; write `{runs: [...], batch_size: ...}`, or the number for this batch"
    ]


def _has_batch_notice(spec: Scenario) -> bool:
    """Return True if a notice about the end of the run may depend on the batch size."""
    if spec.activity is not Activity.TRAINING:
        return False
    run = spec.require(TrainingScenario).run
    return run is not None and run.is_converged and not run.has_batch and not run.is_drawn


def _batch(layers: Sequence[Document]) -> int | None:
    """Return the samples of one weight update that layers specify, or None."""
    data = reduce(merge, layers).data
    batch_size, layout = data.get("batch_size"), data.get("parallelism")
    if isinstance(batch_size, int):
        return batch_size
    factors = ("micro_batch_size", "accumulation_factor", "replication_factor")
    numbers = [layout.get(name) if isinstance(layout, Mapping) else None for name in factors]
    product = 1
    for number in numbers:
        if not isinstance(number, int):
            return None
        product *= number
    return product


def _with_batch_of_updates(document: Document, layers: Sequence[Document], override_count: int) -> Document:
    """Return the document with a number of weight updates completed by the batch size that it was written for.

    All overrides count as one layer, so that updates and a batch size in different overrides belong together.
    """
    updates = document.value_at(_UPDATES_PATH)
    if isinstance(updates, bool) or not isinstance(updates, int):
        return document
    layers = _with_one_override_layer(layers, override_count)
    writer = _last_writer(layers, _UPDATES_PATH)
    if writer is None:
        return document
    batches = (_batch(layers[: last + 1]) for last in range(writer, len(layers)))
    batch = next((batch for batch in batches if batch is not None), None)
    if batch is None:
        return document
    return replace(document, data=_with_leaf(document.data, _UPDATES_PATH, {"count": updates, "batch_size": batch}))


def _differences(spec: Scenario, layers: Sequence[Document], writer: int) -> list[tuple[str, object, object]]:
    """Return key, old and new value where model, data or optimizer differ from those of the first layers.

    `writer` is the index of the last of these layers.
    """
    if not any(section in layer.data for layer in layers[writer + 1 :] for section in _IDENTITY_SECTIONS):
        return []
    after = dict(_identity(spec))
    for last in range(writer, len(layers)):
        identity = reduce(merge, [_identity_sections(layer) for layer in layers[: last + 1]])
        try:
            part = _identity_model(type(spec)).model_validate(identity.data)
        except ValidationError:
            # These layers have no complete model; the first complete one counts.
            continue
        before = dict(_identity(part))
        keys = dict.fromkeys((*before, *after))
        return [(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]
    return []


@lru_cache
def _identity_model(form: type[Scenario]) -> type[BaseModel]:
    """Return a class that validates only the sections model, data and optimizer of a scenario."""
    fields = {name: form.model_fields[name] for name in _IDENTITY_SECTIONS if name in form.model_fields}
    make: Any = create_model  # mypy accepts literal sections only
    model: type[BaseModel] = make(
        "Part",
        __config__=ConfigDict(extra="ignore", frozen=True),
        **{name: (declared.annotation, declared) for name, declared in fields.items()},
    )
    return model


def _identity_sections(layer: Document) -> Document:
    return replace(layer, data={key: layer.data[key] for key in _IDENTITY_SECTIONS if key in layer.data}, places={})


def _identity(spec: Any) -> Iterator[tuple[str, object]]:
    """Yield the keys that identify a model, its data and its optimizer, with their values."""
    for section in ("model", "data"):
        part = getattr(spec, section, None)
        if isinstance(part, BaseModel):
            incidental = tuple(f"{section}.{key}." for key in getattr(part, "incidental", ()))
            leaves = _leaves(part.model_dump(mode="json"), section)
            yield from ((key, value) for key, value in leaves if not f"{key}.".startswith(incidental))
    kind = getattr(getattr(spec, "optimizer", None), "kind", None)
    if kind is not None:
        yield "optimizer.kind", kind


def _leaves(value: Any, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}")
    else:
        yield path, value


def _value_text(value: object) -> str:
    return "not given" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


_LONGEST: Final = {
    "samples_to_converge": 1e12,
    "samples": 1e12,
    "tokens": 1e15,
    "weight_updates": 1e9,
    "epochs": 1e5,
}
"""Largest numbers of samples, tokens, weight updates and epochs of any real training."""


def unusual(spec: Scenario) -> Iterator[str]:
    """Yield a notice for each quantity that is far from any real one."""
    for key, number, declared in quantities(spec):
        quantity = declared.quantity
        if quantity and quantity.usual and not quantity.is_usual(number):
            least, most = quantity.usual
            what = f"{key}: `{number.provenance.text}` is far from anything built ({least} to {most})"
            yield f"{what}; the result stands on it as it is written"
    yield from _long_runs(getattr(spec, "run", None))
    system = spec.system
    if system.host_count > system.whole_machine_count:
        servers, machines = counted(system.host_count, "host server"), counted(system.whole_machine_count, "machine")
        yield f"system.host_count: {servers} for {machines} are more than any pod has; the result counts on all of them"


def _long_runs(run: Any) -> Iterator[str]:
    """Yield a notice if a run is longer than any real one."""
    for key, limit in _LONGEST.items():
        longest = max(_numbers(getattr(run, key, None)), default=0.0)
        if longest > limit:
            what = f"run.{key}: {longest:g} is far from any training there has been (up to {limit:g})"
            yield f"{what}; the result stands on it as it is written"


def _numbers(end: Any) -> tuple[float, ...]:
    """Return the numbers of the end of a run: one, several, or the logged ones."""
    if isinstance(end, (int, float)):
        return (end,)
    if isinstance(end, tuple):
        return end
    return tuple(getattr(end, "runs", ())) or ((end.count,) if hasattr(end, "count") else ())


KINDS: dict[str, type[BaseModel]] = {
    "pod": System,
    "machine": Machine,
    "ipu": Ipu,
    "vertices": Vertices,
    "host": Host,
    "software": Software,
}
"""Kinds of file other than scenarios."""
_COMMANDS = {"study": "sweep", "goal": "plan"}
"""Kinds of file that describe many scenarios, and their commands."""
_FILE_KEYS = frozenset({"base", "kind", *(key for each in REFERENCES.values() for key in each)})
"""Keys whose value names another file."""
_UNMERGED_SECTIONS = ("base", "expect", "kind", VARIANTS)
"""Keys at the top that are not merged like other keys."""
_END_SECTIONS = ("data", "description", "model", "optimizer", "run")
"""Sections with the end of a run, and with the model that the end applies to."""
_Model = TypeVar("_Model", bound=BaseModel)
_Wanted = TypeVar("_Wanted", bound=Scenario)


@dataclass(frozen=True, slots=True, repr=False)
class LoadedScenario:
    """Scenario with the files that it was read from."""

    name: str  # name of the file, with the variant if one was chosen
    spec: Scenario  # the checked scenario, system and software resolved
    document: Document  # the merged data with the place of every key
    written: Written  # the scenario as written, so that more layers can be merged
    variant: str | None = None  # the chosen variant
    overrides: tuple[str, ...] = ()  # applied texts, `key.path=value`
    notices: tuple[str, ...] = ()  # remarks for the user on how it was read
    auto: AutoSpec | None = None  # pinned keys of a layout to be chosen
    changes: Sequence[Change] = ()  # keys that differ from the file
    borrowed: bool = False  # True if the description is that of a base from which the scenario differs
    adjusted: Mapping[str, Any] = field(default_factory=dict)  # sections without a foreign end or description
    end_notices: tuple[str, ...] = ()  # notices about an end that was given for another model

    def __repr__(self) -> str:
        """Return name, activity and overrides; `document.data` has the keys."""
        overrides = f", {', '.join(self.overrides)}" if self.overrides else ""
        return f"LoadedScenario({self.name}: {self.spec.activity.label}{overrides})"

    @property
    def folder(self) -> Path:
        """Folder in which files that the scenario names are looked up."""
        return self.written.folder

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(path, SHA-256) of every file read."""
        return self.document.inputs

    @property
    def shipped_name(self) -> str | None:
        """`name` or `name@variant` if this is a shipped scenario with shipped files only, or None."""
        if self.overrides or self.written.path is None:
            return None
        shipped = data_root().resolve() / SCENARIOS
        is_shipped = self.written.path.resolve().is_relative_to(shipped) and all(map(is_as_shipped, self.inputs))
        variant = f"@{self.variant}" if self.variant else ""
        return f"{self.written.name}{variant}" if is_shipped else None

    @property
    def resolved(self) -> dict[str, Any]:
        """Simulated scenario as plain data, with the names of system and software."""
        data = self.spec.model_dump(mode="json", exclude={"system", "software"}, exclude_none=True)
        return {"system": self.spec.system.name, "software": self.spec.software.name} | data

    def where(self, *path: str) -> str:
        """Return the `file:line:column [key.path]` of a key."""
        return f"{self.document.where(path)} [{'.'.join(path)}]"

    def has_key(self, *path: str) -> bool:
        """Return True if the file contains the key."""
        return self.document.value_at(path) is not None

    @property
    def replaced(self) -> Scenario | None:
        """Scenario with the layout that `parallelism: auto` replaced, or None if that layout contradicts the pins."""
        document = with_given_division(self.document)
        if document is None:
            return None
        try:
            spec = validated(form_of(document), document)
        except SpecError:
            return None
        if any(spec.division_findings()):
            return None
        return self.spec.model_copy(update={name: getattr(spec, name) for name in (PARALLELISM, "memory")})

    def divided(self, spec: Scenario) -> LoadedScenario:
        """Return the scenario with the chosen layout."""
        return replace(self, spec=spec, auto=None)

    def require(self, wanted: type[_Wanted], do: str | None = None) -> _Wanted:
        """Return the specification if it has the wanted activity, or raise an error."""
        return self.spec.require(wanted, do, self.name)


def load_scenario(
    source: str | Path | Mapping[str, Any] | LoadedScenario, variant: str | None = None, overrides: Overrides = ()
) -> LoadedScenario:
    """Load, merge and check a scenario.

    Args:
        source: Path, name of a shipped scenario, mapping, or a loaded scenario.
        variant: Name of one of its variants.
        overrides: `key.path=value` texts, or values by key path, applied last; to a loaded scenario, after its own
            overrides.

    Raises:
        SpecError: All problems of the scenario, each with its place.
    """
    # Python allows other types here, the command line does not.
    if variant is not None and not isinstance(variant, str):
        raise SpecError(
            [Problem("", "variant", f"needs a name, not {quoted(variant)}", "give a name, or leave it out")]
        )
    overrides = override_texts(overrides)
    if not isinstance(source, LoadedScenario):
        return _loaded(read_written(source), variant, tuple(overrides))
    if not overrides and variant in (None, source.variant):
        return source
    if None not in (variant, source.variant) and variant != source.variant:
        what = f"{source.name} was loaded with variant `{source.variant}`; `{variant}` cannot be laid over it"
        raise SpecError([Problem("", VARIANTS, what, "load it again, with the variant that is meant")])
    patched = _patched(source, overrides) if variant in (None, source.variant) else None
    return patched or _loaded(source.written, variant or source.variant, (*source.overrides, *overrides))


def override_texts(overrides: Overrides) -> tuple[str, ...]:
    """Return overrides as `key.path=value` texts.

    >>> override_texts({"system": "bow_pod64", "parallelism.replication_factor": 4})
    ('system=bow_pod64', 'parallelism.replication_factor=4')
    """
    if isinstance(overrides, Mapping):
        return tuple(f"{key}={flow(value)}" for key, value in overrides.items())
    if isinstance(overrides, str) or not isinstance(overrides, Sequence):
        what = f"needs a list of texts or a mapping, not {quoted(overrides)}"
        raise SpecError([Problem("", "overrides", what, 'give for example `{"system": "bow_pod64"}`')])
    return tuple(overrides)


def _patched(loaded: LoadedScenario, texts: Sequence[str]) -> LoadedScenario | None:
    """Return a loaded scenario with more overrides, validated only where these apply, or None if that is impossible."""
    document, spec = loaded.document, loaded.spec
    sections = {name: section for name, section in spec if isinstance(section, HardwareSpec)}
    try:
        for text in texts:
            over = assigned(text)
            path = max(over.places, key=len)
            before, value = document.value_at(path), over.value_at(path)
            if loaded.auto is not None or not _is_leaf(document, path, before, value):
                return None
            if path[0] in (PARALLELISM, BATCH) and _has_batch_notice(spec):
                return None
            places = {**document.places, **over.places}
            for stale in _below(path, before):
                places.pop(stale, None)
            document = replace(document, data=_with_leaf(document.data, path, value), places=places)
            if path[0] in sections:
                sections[path[0]] = with_written(sections[path[0]], path[1:], value)
        if form_of(document) is not type(spec):
            return None
        spec = type(spec).model_validate({**document.data, **sections})
    except (ValidationError, LookupError):
        return None
    if next(spec.findings(), None) is not None:
        return None
    spec = spec.model_copy(update=loaded.adjusted) if loaded.adjusted else spec
    overrides = (*loaded.overrides, *texts)
    written, variant = loaded.written, loaded.variant
    differences = LazySequence(lambda: _changes(written, variant, overrides, document))
    notices = (*_document_notices(document), *unusual(spec), *loaded.end_notices)
    return replace(loaded, spec=spec, document=document, overrides=overrides, notices=notices, changes=differences)


def _below(path: KeyPath, data: Any) -> Iterator[KeyPath]:
    """Yield the key paths of all data below a key."""
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in parts:
        yield (*path, key)
        yield from _below((*path, key), value)


def _is_leaf(document: Document, path: KeyPath, before: Any, value: Any) -> bool:
    """Return True if another value at a key changes that value and nothing else."""
    parents = [document.value_at(path[:length]) for length in range(1, len(path))]
    is_plain = not isinstance(value, (dict, list)) and value is not None
    is_leaf = not isinstance(before, dict) or VALUE in before
    in_mappings = all(isinstance(parent, dict) and VALUE not in parent for parent in parents)
    refers = path[0] in (*_UNMERGED_SECTIONS, *_END_SECTIONS) or path[-1] in _FILE_KEYS
    return is_plain and is_leaf and in_mappings and not refers


def _with_leaf(data: Any, path: KeyPath, value: Any) -> Any:
    return {**data, path[0]: _with_leaf(data.get(path[0]), path[1:], value)} if path else value


def _loaded(written: Written, variant: str | None, overrides: tuple[str, ...]) -> LoadedScenario:
    layers = layers_of(written, variant, overrides)
    document = _with_batch_of_updates(resolved_layers(written, variant, overrides), layers, len(overrides))
    kind = str(document.data.get("kind"))
    if kind in _COMMANDS:  # a study or goal, which describes many scenarios
        what, do = f"this is a {kind}, not a scenario", f"`podsim {_COMMANDS[kind]}` takes it"
        raise SpecError([Problem(document.where(("kind",)), "kind", what, do)])
    form = form_of(document)
    auto = _auto_layout(document, form)
    spec = validated(form, document if auto is None else undivided(document, _layout_type(form).undivided))
    findings = (
        spec.findings() if auto is None else (*spec.model_findings(), *spec.findings_beside(), *auto.findings(spec))
    )
    problems = [Problem(document.where(key), dotted(key), message, do) for key, message, do in findings]
    if problems:
        raise SpecError(problems)
    file_index = len(layers) - len(overrides) - (2 if variant else 1)
    cleaned = _without_foreign_end(spec, document, layers, len(overrides), file_index)
    name = f"{written.name}:{variant}" if variant else written.name
    notices = (*_document_notices(document), *unusual(spec), *cleaned.notices)
    differences = LazySequence(lambda: _changes(written, variant, overrides, document) if variant or overrides else ())
    adjusted = {key: after for (key, after), (_, before) in zip(cleaned.spec, spec, strict=True) if after is not before}
    return LoadedScenario(
        *(name, cleaned.spec, document, written, variant, overrides, notices, auto, differences, cleaned.borrowed),
        adjusted=adjusted,
        end_notices=cleaned.notices,
    )


def _changes(
    written: Written, variant: str | None, overrides: tuple[str, ...], document: Document
) -> tuple[Change, ...]:
    """Return the keys that differ from the file."""
    file = merged_layers(written, None, ())

    def inherited() -> Mapping[str, Any]:
        """Return the file with its bases and references merged, if these can be read without the request."""
        try:
            return dict(resolved_layers(written, None, ()).data)
        except SpecError:
            return dict(file.data)

    return changes(file, merged_layers(written, variant, overrides), inherited, document.data)


def _layout_type(form: type[Scenario]) -> Any:
    """Return the type of the section `parallelism`."""
    return form.model_fields[PARALLELISM].annotation


def _auto_layout(document: Document, form: type[Scenario]) -> AutoSpec | None:
    """Return the section `parallelism` with `auto` and its pins, or None for an explicit layout."""
    layout_type = _layout_type(form)
    if not is_auto(document):
        if problems := misspelled(document):
            placeholder = document if layout_type.auto is None else undivided(document, layout_type.undivided)
            raise SpecError([*problems, *_problems(form, placeholder)])
        return None
    if layout_type.auto is None:
        what, do = "`auto` does not cover models of this kind", "give the division; the guides show how"
        raise SpecError([Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)])
    part = auto_part(layout_type.auto)
    spelled = spelled_out(document)
    problems = _problems(part, spelled)
    if BATCH in form.model_fields:
        problems += missing_batch(document)
    if problems:
        raise SpecError([*problems, *_problems(form, undivided(document, layout_type.undivided))])
    layout: AutoSpec = getattr(part.model_validate(spelled.data), PARALLELISM)
    return layout


def _problems(form: type[BaseModel], document: Document) -> list[Problem]:
    try:
        form.model_validate(document.data)
    except ValidationError as error:
        return list(problems_of(error, document, form))
    return []


def variant_names(source: str | Path) -> tuple[str, ...]:
    """Return the names of the variants of a scenario file."""
    return tuple(read_written(source).variants)


def load_hardware(name: str, kind: str) -> tuple[BaseModel, Document]:
    """Return a chip, machine, pod or software stack by path or name, with its document."""
    document = load_document(name, kind)
    return validated(KINDS[kind], document), document


def hardware_named(name: str, kind: str) -> BaseModel:
    """Return a chip, pod or software stack by path or name; a shipped one is validated once while its files agree."""
    name = _ipu_name(name) if kind == "ipu" else name
    if shipped(name, kind) is None:
        return load_hardware(name, kind)[0]
    model, document = memo.HARDWARE.get((name, kind), lambda: load_hardware(name, kind))
    if not all(map(is_as_shipped, document.inputs)):
        memo.HARDWARE.forget()
        model, _ = memo.HARDWARE.get((name, kind), lambda: load_hardware(name, kind))
    return model


def load_ipu(name: str) -> Ipu:
    """Return a chip by path or name; shipped names may lack `ipu_`, and ignore case."""
    return validated(Ipu, load_document(_ipu_name(name), "ipu"))


def _ipu_name(name: str) -> str:
    own = f"ipu_{name.casefold()}"
    return own if shipped(own, "ipu") else name


def validated(model: type[_Model], document: Document) -> _Model:
    """Return the validated model of a document, or raise a `SpecError` with the places of all problems."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise SpecError(list(problems_of(error, document, model))) from None
