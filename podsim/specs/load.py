"""Loading: from a path, a name or a mapping to a checked, frozen specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from podsim.errors import PodsimError, Problem, SpecError
from podsim.specs.assumptions import AnyScenario
from podsim.specs.auto import (
    AUTO_PARTS,
    PARALLELISM,
    AutoSpec,
    is_auto,
    missing_batch,
    misspelled,
    spelled_out,
    undivided,
)
from podsim.specs.changes import Change, changes
from podsim.specs.checks import cross_check
from podsim.specs.families import (
    SEQ2SEQ_KIND,
    VISION_KIND,
    DecoderTrainingSpec,
    Seq2SeqScenarioSpec,
    VisionScenarioSpec,
)
from podsim.specs.forward import GRAPH_KIND, BertPassSpec, GraphScenarioSpec, VisionPassSpec
from podsim.specs.hardware import HostSpec, IpuSpec, MachineSpec, PodSpec
from podsim.specs.image import IMAGE_KINDS, ImageScenarioSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.library import SCENARIOS, data_root, is_as_shipped
from podsim.specs.model_checks import model_findings
from podsim.specs.pins import pin_findings
from podsim.specs.plausible import unusual
from podsim.specs.problems import problems_of
from podsim.specs.resolve import load_document
from podsim.specs.scenario import ScenarioBase, ScenarioSpec
from podsim.specs.software import SoftwareSpec
from podsim.specs.vertices import VerticesSpec
from podsim.specs.wording import dotted, known_here, shown
from podsim.specs.written import VARIANTS, Written, laid_out, laid_over, read_written
from podsim.specs.yaml_source import Document

KINDS: dict[str, type[BaseModel]] = {
    "scenario": ScenarioSpec,
    "image_scenario": ImageScenarioSpec,
    "decoder_scenario": DecoderTrainingSpec,
    "vision_scenario": VisionScenarioSpec,
    "seq2seq_scenario": Seq2SeqScenarioSpec,
    "inference_scenario": InferenceScenarioSpec,
    "forward_scenario": GraphScenarioSpec,
    "bert_pass": BertPassSpec,
    "vision_pass": VisionPassSpec,
    "pod": PodSpec,
    "machine": MachineSpec,
    "ipu": IpuSpec,
    "vertices": VerticesSpec,
    "host": HostSpec,
    "software": SoftwareSpec,
}
_DECODER_KIND = "decoder"
_FAMILIES: dict[str, type[AnyScenario]] = {
    "bert": ScenarioSpec,
    VISION_KIND: VisionScenarioSpec,
    SEQ2SEQ_KIND: Seq2SeqScenarioSpec,
    **dict.fromkeys(IMAGE_KINDS, ImageScenarioSpec),
    _DECODER_KIND: InferenceScenarioSpec,
    GRAPH_KIND: GraphScenarioSpec,
}
"""Families of models; a decoder with `data:` is trained, otherwise it generates."""
_PASSES: dict[str, type[AnyScenario]] = {"bert": BertPassSpec, VISION_KIND: VisionPassSpec}
"""Families that `forward:` asks for forward passes instead."""
_Model = TypeVar("_Model", bound=BaseModel)
_Wanted = TypeVar("_Wanted", bound=ScenarioBase)


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A scenario with what it was read from.

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
    """

    name: str
    spec: AnyScenario
    document: Document
    written: Written
    variant: str | None = None
    overrides: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    auto: AutoSpec | None = None
    changes: tuple[Change, ...] = ()

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
        """Name of the shipped scenario that this is, by its files; None for anything that differs from one."""
        if self.variant is not None or self.overrides or self.written.path is None:
            return None
        shipped = data_root().resolve() / SCENARIOS
        is_shipped = self.written.path.resolve().is_relative_to(shipped) and all(map(is_as_shipped, self.inputs))
        return self.written.name if is_shipped else None

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

    def divided(self, spec: AnyScenario) -> LoadedScenario:
        """The same with the division that was chosen."""
        return replace(self, spec=spec, auto=None)

    def of(self, wanted: type[_Wanted], do: str | None = None) -> _Wanted:
        """The specification, if it is of an activity.

        Args:
            wanted: The scenarios of the activity.
            do: The cure if it is of another.

        Raises:
            PodsimError: It is of another.
        """
        if not isinstance(self.spec, wanted):
            own = self.spec.activity
            what = f"{self.name} describes {own.words}, not {wanted.activity.words}"
            raise PodsimError(what, do=do or f"use podsim.run, or {own.verb}")
        return self.spec


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
    if variant is None and not overrides:
        return source
    if None not in (variant, source.variant) and variant != source.variant:
        what = f"{source.name} was loaded with variant `{source.variant}`; `{variant}` cannot be laid over it"
        raise SpecError([Problem("", VARIANTS, what, "load it again, with the variant that is meant")])
    return _loaded(source.written, variant or source.variant, (*source.overrides, *overrides))


def _check_arguments(variant: object, overrides: object) -> None:
    """What Python lets through and the command line does not."""
    if variant is not None and not isinstance(variant, str):
        raise SpecError([Problem("", "variant", f"needs a name, not {shown(variant)}", "give a name, or leave it out")])
    if isinstance(overrides, str) or not isinstance(overrides, Sequence):
        what = f"needs a list of texts, not {shown(overrides)}"
        raise SpecError([Problem("", "overrides", what, 'give for example `["system=bow_pod64"]`')])


def _loaded(written: Written, variant: str | None, overrides: tuple[str, ...]) -> LoadedScenario:
    document = laid_out(written, variant, overrides)
    family = family_of(document)
    auto = _pinned(document, family)
    spec = _validate(family, document if auto is None else undivided(document, family))
    problems = [
        Problem(document.where(key), dotted(key), message, do)
        for key, message, do in (
            cross_check(spec) if auto is None else (*model_findings(spec), *pin_findings(spec, auto))
        )
    ]
    if problems:
        raise SpecError(problems)
    name = f"{written.name}:{variant}" if variant else written.name
    notices = (*document.notices, *unusual(spec))
    differing = _changes(written, variant, overrides, document) if variant or overrides else ()
    return LoadedScenario(name, spec, document, written, variant, overrides, notices, auto, differing)


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


def _pinned(document: Document, family: type[AnyScenario]) -> AutoSpec | None:
    """What `parallelism: auto` leaves no choice about; None for a division that is given."""
    if is_auto(document) and family not in AUTO_PARTS:
        what, do = "`auto` does not cover models of this kind", "give the division; the guides show how"
        raise SpecError([Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)])
    problems = [] if is_auto(document) else misspelled(document)
    if is_auto(document):
        try:
            pinned = AUTO_PARTS[family].model_validate(spelled_out(document).data)
        except ValidationError as error:
            problems = list(problems_of(error, document, AUTO_PARTS[family]))
        problems += missing_batch(document, family)
    if problems:
        stand_in = undivided(document, family) if family in AUTO_PARTS else document
        raise SpecError([*problems, *_problems(family, stand_in)])
    return pinned.parallelism if is_auto(document) else None


def _problems(family: type[AnyScenario], document: Document) -> list[Problem]:
    try:
        family.model_validate(document.data)
    except ValidationError as error:
        return list(problems_of(error, document, family))
    return []


def family_of(document: Document) -> type[AnyScenario]:
    """As the family of its model wants it."""
    model = document.data.get("model")
    kind = model.get("kind") if isinstance(model, dict) else None
    kind = kind if isinstance(kind, str) else None
    if kind == _DECODER_KIND and {"data", "generation"} <= document.data.keys():
        what, do = "`data` (training) and `generation` are both given", "keep one of the two"
        raise SpecError([Problem(document.where(("generation",)), "generation", what, do)])
    if "forward" in document.data and kind in _PASSES:
        return _PASSES[kind]
    if kind == _DECODER_KIND and "data" in document.data and "generation" not in document.data:
        return DecoderTrainingSpec
    if isinstance(kind, str) and kind not in _FAMILIES:
        where, message = document.where(("model", "kind")), f"`{kind}` is not a family of models"
        raise SpecError([Problem(where, "model.kind", message, known_here(kind, _FAMILIES, "use one"))])
    return _FAMILIES.get(str(kind), ScenarioSpec)


def variant_names(source: str | Path) -> tuple[str, ...]:
    """The variants that a scenario file names."""
    return tuple(read_written(source).variants)


def load_hardware(name: str, kind: str) -> tuple[BaseModel, Document]:
    """A chip, machine, pod or software stack by path or name, with its document."""
    document = load_document(name, kind)
    return _validate(KINDS[kind], document), document


def load_ipu(name: str) -> IpuSpec:
    """A chip by path or name; `gc200` and `bow` stand for the shipped ones."""
    short = {"gc200": "ipu_gc200", "bow": "ipu_bow"}
    return _validate(IpuSpec, load_document(short.get(name, name), "ipu"))


def _validate(model: type[_Model], document: Document) -> _Model:
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise SpecError(list(problems_of(error, document, model))) from None
