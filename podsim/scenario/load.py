"""Loading: from a path, a name or a mapping to a checked, frozen specification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from podsim.deferred import Deferred
from podsim.errors import Problem, SpecError
from podsim.scenario.auto import (
    AutoSpec,
    auto_part,
    is_auto,
    missing_batch,
    misspelled,
    spelled_out,
    undivided,
)
from podsim.scenario.base import HardwareSpec, with_written
from podsim.scenario.belonging import belonging
from podsim.scenario.changes import Change, changes
from podsim.scenario.document import VALUE, Document, KeyPath
from podsim.scenario.families.registry import form_of
from podsim.scenario.hardware import Machine, System
from podsim.scenario.host import Host
from podsim.scenario.ipu import Ipu
from podsim.scenario.library import SCENARIOS, data_root, is_as_shipped
from podsim.scenario.pins import BATCH, PARALLELISM
from podsim.scenario.plausible import unusual
from podsim.scenario.problems import problems_of
from podsim.scenario.resolve import REFERENCES, assigned, load_document
from podsim.scenario.scenario import Scenario
from podsim.scenario.software import Software
from podsim.scenario.vertices import Vertices
from podsim.scenario.wording import dotted, shown
from podsim.scenario.written import VARIANTS, Written, laid_out, laid_over, layers_of, read_written

KINDS: dict[str, type[BaseModel]] = {
    "pod": System,
    "machine": Machine,
    "ipu": Ipu,
    "vertices": Vertices,
    "host": Host,
    "software": Software,
}
"""Kinds of file beside scenarios."""
_COMMANDS = {"study": "sweep", "goal": "plan"}
"""Kinds of file that ask about many scenarios, and what takes them."""
_NAMES = frozenset({"base", "kind", *(key for each in REFERENCES.values() for key in each)})
"""Keys that stand for more than their value."""
_APART = ("base", "expect", "kind", VARIANTS)
"""Sections whose keys are not laid over one another as others are."""
_OWNERS = ("data", "description", "model", "optimizer", "run")
"""Sections that say to what the end of a run belongs, or what it is."""
_Model = TypeVar("_Model", bound=BaseModel)
_Wanted = TypeVar("_Wanted", bound=Scenario)


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A scenario with the files that it was read from.

    Attributes:
        name: Name of the file, with the variant if one was chosen.
        spec: The checked scenario, system and software resolved.
        document: The merged data with the place of every key.
        written: The scenario as it was written, so that more can be laid over it.
        variant: The variant that was chosen.
        overrides: `key.path=value` texts that were applied.
        notices: What a reader must know of how it was read, and of quantities that nothing real has.
        auto: What is pinned where the division is to be chosen; the one in `spec` is a stand-in then.
        changes: Keys that are not as the file has them.
        borrowed: Whether the description is that of something from which this differs.
        apart: Sections that are not as the document has them, since that belongs to another model.
        told: Notices of these.
    """

    name: str
    spec: Scenario
    document: Document
    written: Written
    variant: str | None = None
    overrides: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    auto: AutoSpec | None = None
    changes: Sequence[Change] = ()
    borrowed: bool = False
    apart: Mapping[str, Any] = field(default_factory=dict)
    told: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where files that it names are looked up."""
        return self.written.folder

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(path, SHA-256) of every file read."""
        return self.document.inputs

    @property
    def shipped_name(self) -> str | None:
        """`name` or `name@variant` of the shipped scenario that this is, by its files; None for any other."""
        if self.overrides or self.written.path is None:
            return None
        shipped = data_root().resolve() / SCENARIOS
        is_shipped = self.written.path.resolve().is_relative_to(shipped) and all(map(is_as_shipped, self.inputs))
        variant = f"@{self.variant}" if self.variant else ""
        return f"{self.written.name}{variant}" if is_shipped else None

    @property
    def resolved(self) -> dict[str, Any]:
        """The scenario as it was simulated, system and software by name."""
        data = self.spec.model_dump(mode="json", exclude={"system", "software"}, exclude_none=True)
        return {"system": self.spec.system.name, "software": self.spec.software.name} | data

    def where(self, *path: str) -> str:
        """`file:line:column [key.path]` of a key."""
        return f"{self.document.where(path)} [{'.'.join(path)}]"

    def gives(self, *path: str) -> bool:
        """Whether a key was written."""
        return self.document.at(path) is not None

    def divided(self, spec: Scenario) -> LoadedScenario:
        """The scenario with the division that was chosen."""
        return replace(self, spec=spec, auto=None)

    def of(self, wanted: type[_Wanted], do: str | None = None) -> _Wanted:
        """The specification, if it is of an activity.

        Args:
            wanted: The scenarios of the activity.
            do: The cure if it is of another.

        Raises:
            PodsimError: It is of another.
        """
        return self.spec.of(wanted, do, self.name)


def load_scenario(
    source: str | Path | Mapping[str, Any] | LoadedScenario, variant: str | None = None, overrides: Sequence[str] = ()
) -> LoadedScenario:
    """Load, merge and check a scenario.

    Args:
        source: A path, the name of a shipped scenario, a mapping, or a scenario that was loaded before.
        variant: One of its variants.
        overrides: `key.path=value` texts, applied last; over a loaded scenario, after those it was loaded with.

    Raises:
        SpecError: Everything that is wrong with it, each with its place.
    """
    _check_arguments(variant, overrides)
    if not isinstance(source, LoadedScenario):
        return _loaded(read_written(source), variant, tuple(overrides))
    if not overrides and variant in (None, source.variant):
        return source
    if None not in (variant, source.variant) and variant != source.variant:
        what = f"{source.name} was loaded with variant `{source.variant}`; `{variant}` cannot be laid over it"
        raise SpecError([Problem("", VARIANTS, what, "load it again, with the variant that is meant")])
    patched = _patched(source, overrides) if variant in (None, source.variant) else None
    return patched or _loaded(source.written, variant or source.variant, (*source.overrides, *overrides))


def _patched(loaded: LoadedScenario, texts: Sequence[str]) -> LoadedScenario | None:
    """A loaded scenario with other values at some keys, of which no other part is read or checked again.

    Returns:
        None where more than values change, or where something is wrong with them: then all of it is read, which
        finds every problem with its place.
    """
    document, spec = loaded.document, loaded.spec
    sections = {name: each for name, each in spec if isinstance(each, HardwareSpec)}
    try:
        for text in texts:
            over = assigned(text)
            path = max(over.places, key=len)
            before, value = document.at(path), over.at(path)
            if loaded.auto is not None or not _is_leaf(document, path, before, value):
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
    spec = spec.model_copy(update=loaded.apart) if loaded.apart else spec
    overrides = (*loaded.overrides, *texts)
    written, variant = loaded.written, loaded.variant
    differing = Deferred(lambda: _changes(written, variant, overrides, document))
    notices = (*document.notices, *unusual(spec), *loaded.told)
    return replace(loaded, spec=spec, document=document, overrides=overrides, notices=notices, changes=differing)


def _below(path: KeyPath, data: Any) -> Iterator[KeyPath]:
    """Keys of all that lies in the data of a key."""
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in parts:
        yield (*path, key)
        yield from _below((*path, key), value)


def _is_leaf(document: Document, path: KeyPath, before: Any, value: Any) -> bool:
    """Whether another value at a key changes that value and nothing else."""
    parents = [document.at(path[:length]) for length in range(1, len(path))]
    is_plain = not isinstance(value, (dict, list)) and value is not None and not isinstance(before, list)
    is_leaf = not isinstance(before, dict) or VALUE in before
    in_mappings = all(isinstance(each, dict) and VALUE not in each for each in parents)
    refers = path[0] in (*_APART, *_OWNERS) or path[-1] in _NAMES
    return is_plain and is_leaf and in_mappings and not refers


def _with_leaf(data: Any, path: KeyPath, value: Any) -> Any:
    return {**data, path[0]: _with_leaf(data.get(path[0]), path[1:], value)} if path else value


def _check_arguments(variant: object, overrides: object) -> None:
    """Refuse arguments that Python lets through and the command line does not."""
    if variant is not None and not isinstance(variant, str):
        raise SpecError([Problem("", "variant", f"needs a name, not {shown(variant)}", "give a name, or leave it out")])
    if isinstance(overrides, str) or not isinstance(overrides, Sequence):
        what = f"needs a list of texts, not {shown(overrides)}"
        raise SpecError([Problem("", "overrides", what, 'give for example `["system=bow_pod64"]`')])


def _loaded(written: Written, variant: str | None, overrides: tuple[str, ...]) -> LoadedScenario:
    document = laid_out(written, variant, overrides)
    _check_kind(document)
    wanted = form_of(document)
    auto = _pinned(document, wanted)
    spec = validated(wanted, document if auto is None else undivided(document, _division(wanted).undivided))
    findings = (
        spec.findings() if auto is None else (*spec.model_findings(), *spec.findings_beside(), *auto.findings(spec))
    )
    problems = [Problem(document.where(key), dotted(key), message, do) for key, message, do in findings]
    if problems:
        raise SpecError(problems)
    layers = layers_of(written, variant, overrides)
    own = belonging(spec, document, layers, len(overrides), len(layers) - len(overrides) - (2 if variant else 1))
    name = f"{written.name}:{variant}" if variant else written.name
    notices = (*document.notices, *unusual(spec), *own.notices)
    differing = Deferred(lambda: _changes(written, variant, overrides, document) if variant or overrides else ())
    apart = {key: after for (key, after), (_, before) in zip(own.spec, spec, strict=True) if after is not before}
    return LoadedScenario(
        *(name, own.spec, document, written, variant, overrides, notices, auto, differing, own.borrowed),
        apart=apart,
        told=own.notices,
    )


def _check_kind(document: Document) -> None:
    """Refuse a question about many scenarios, with the command that takes it."""
    kind = str(document.data.get("kind"))
    if kind in _COMMANDS:
        what, do = f"this is a {kind}, not a scenario", f"`podsim {_COMMANDS[kind]}` takes it"
        raise SpecError([Problem(document.where(("kind",)), "kind", what, do)])


def _changes(
    written: Written, variant: str | None, overrides: tuple[str, ...], document: Document
) -> tuple[Change, ...]:
    """Keys that are not as the file has them."""
    file = laid_over(written, None, ())
    return changes(file, laid_over(written, variant, overrides), partial(_inherited, written, file), document.data)


def _inherited(written: Written, file: Document) -> Mapping[str, Any]:
    """The file with all that it refers to, as far as that can be read without what was asked."""
    try:
        return dict(laid_out(written, None, ()).data)
    except SpecError:
        return dict(file.data)


def _division(wanted: type[Scenario]) -> Any:
    """How such scenarios are divided."""
    return wanted.model_fields[PARALLELISM].annotation


def _pinned(document: Document, wanted: type[Scenario]) -> AutoSpec | None:
    """What `parallelism: auto` leaves no choice about; None for a division that is given."""
    division = _division(wanted)
    if not is_auto(document):
        if problems := misspelled(document):
            stand_in = document if division.auto is None else undivided(document, division.undivided)
            raise SpecError([*problems, *_problems(wanted, stand_in)])
        return None
    if division.auto is None:
        what, do = "`auto` does not cover models of this kind", "give the division; the guides show how"
        raise SpecError([Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)])
    part = auto_part(division.auto)
    written = spelled_out(document)
    problems = _problems(part, written)
    if BATCH in wanted.model_fields:
        problems += missing_batch(document)
    if problems:
        raise SpecError([*problems, *_problems(wanted, undivided(document, division.undivided))])
    pinned: AutoSpec = getattr(part.model_validate(written.data), PARALLELISM)
    return pinned


def _problems(wanted: type[BaseModel], document: Document) -> list[Problem]:
    try:
        wanted.model_validate(document.data)
    except ValidationError as error:
        return list(problems_of(error, document, wanted))
    return []


def variant_names(source: str | Path) -> tuple[str, ...]:
    """The variants that a scenario file names."""
    return tuple(read_written(source).variants)


def load_hardware(name: str, kind: str) -> tuple[BaseModel, Document]:
    """A chip, machine, pod or software stack by path or name, with its document."""
    document = load_document(name, kind)
    return validated(KINDS[kind], document), document


def load_ipu(name: str) -> Ipu:
    """A chip by path or name; `gc200` and `bow` stand for the shipped ones."""
    short = {"gc200": "ipu_gc200", "bow": "ipu_bow"}
    return validated(Ipu, load_document(short.get(name, name), "ipu"))


def validated(model: type[_Model], document: Document) -> _Model:
    """What a document describes.

    Raises:
        SpecError: Everything that is wrong with it, each with its place.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise SpecError(list(problems_of(error, document, model))) from None
