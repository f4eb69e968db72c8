"""A scenario as it was written, and what is laid over it: base, file, variant, then each `--set` in turn."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.scenario.document import MAX_DEPTH, Document, KeyPath
from podsim.scenario.plain import plain_data
from podsim.scenario.replacing import BASE, note_on_kept, settled
from podsim.scenario.resolve import assigned, base_name, lay_over, located, read_named, resolve, without
from podsim.scenario.wording import known_here, shown

KIND, VARIANTS, EXPECT = "scenario", "variants", "expect"


@dataclass(frozen=True, slots=True)
class Written:
    """A scenario as it was written, neither laid over its base nor resolved.

    Attributes:
        name: What it is called.
        document: The file, or the mapping.
        path: The file; None for a mapping.
    """

    name: str
    document: Document
    path: Path | None = None

    @property
    def folder(self) -> Path:
        """Where files that it names are looked up."""
        return Path() if self.path is None else self.path.parent

    @property
    def variants(self) -> Mapping[str, Any]:
        """Named differences.

        Raises:
            SpecError: They are not mappings.
        """
        given = self.document.data.get(VARIANTS)
        named = {} if given is None else given
        if not isinstance(named, dict) or not all(isinstance(each, dict) for each in named.values()):
            what, do = "needs a mapping of names to mappings", "write `variants: {name: {key: value}}`"
            raise SpecError([Problem(self.document.where((VARIANTS,)), VARIANTS, what, do)])
        return named


def read_written(source: object) -> Written:
    """The scenario that a path, a shipped name or a mapping holds.

    Raises:
        SpecError: It is none of them, or cannot be read.
    """
    if isinstance(source, Mapping):
        return Written("scenario", Document(plain_data(source)))
    if not isinstance(source, (str, os.PathLike)) or not isinstance(os.fspath(source), str):
        what = f"a scenario is a path, a name or a mapping, not {shown(source)}"
        raise SpecError([Problem("", "", what, "give for example `bert_v1.1_pod16_open`")])
    document, path = read_named(os.fspath(source), KIND)
    return Written(path.stem, document, path)


def laid_out(written: Written, variant: str | None, overrides: Sequence[str]) -> Document:
    """Everything laid over one another, bases and references resolved.

    Raises:
        SpecError: A file is missing or wrong, there is no such variant, or keys would be lost.
    """
    document = laid_over(written, variant, overrides)
    notices = tuple(_choices_that_stay(document, written.folder))
    return resolve(replace(document, notices=(*document.notices, *notices), replaced=()), KIND, (written.folder,))


def _choices_that_stay(document: Document, folder: Path) -> Iterator[str]:
    for each in document.replaced:
        pod = document.at((*each.key[:-1], BASE))
        own = _own(pod, str(each.key[-1]), (folder,)) if isinstance(pod, str) else None
        if own is not None and own != each.value:
            yield note_on_kept(each, pod, own)


def _own(name: str, key: str, folders: tuple[Path, ...]) -> Any:
    """The value of a key in the file of a pod, or in the nearest of its bases; None for a pod that cannot be read."""
    for _ in range(MAX_DEPTH):
        try:
            pod, path = read_named(name, "pod", folders)
        except SpecError:
            return None
        if key in pod.data or not isinstance(pod.data.get(BASE), str):
            return pod.data.get(key)
        name, folders = pod.data[BASE], (path.parent,)
    return None


def laid_over(written: Written, variant: str | None, overrides: Sequence[str]) -> Document:
    """Everything laid over one another, the names of pods and stacks left as names.

    Raises:
        SpecError: As of `laid_out`.
    """
    return settled(reduce(lay_over, layers_of(written, variant, overrides)))


def layers_of(written: Written, variant: str | None, overrides: Sequence[str]) -> list[Document]:
    """What is laid over one another: the bases from the first one on, the file, the variant, each override.

    Raises:
        SpecError: As of `laid_out`.
    """
    layers = [without(written.document, VARIANTS), *_chosen(written, variant)]
    layers = [_located(layer, (written.folder,)) for layer in layers]
    layers += [_located(assigned(text), (Path(), written.folder)) for text in overrides]
    chain = () if written.path is None else (written.path.resolve(),)
    named = next((layer for layer in reversed(layers) if BASE in layer.data), None)
    bases = [] if named is None else _bases(named, (written.folder,), chain)
    return [*bases, *(without(layer, BASE) for layer in layers)]


def _located(layer: Document, folders: tuple[Path, ...]) -> Document:
    return replace(layer, data=located(layer.data, KIND, folders))


def _bases(document: Document, folders: tuple[Path, ...], chain: tuple[Path, ...]) -> list[Document]:
    """The base of a scenario behind the bases of its own; variants and expectations are not inherited."""
    name = base_name(document, KIND)
    base, path = read_named(name, KIND, folders, document.where((BASE,)), (BASE,), chain)
    base = _located(without(base, VARIANTS, EXPECT), (path.parent,))
    further = _bases(base, (path.parent,), (*chain, path.resolve())) if BASE in base.data else []
    return [*further, without(base, BASE)]


def _chosen(written: Written, variant: str | None) -> list[Document]:
    """The variant that was asked for."""
    variants, document = written.variants, written.document
    if variant is None:
        return []
    if variant not in variants:
        do = known_here(variant, variants, "leave `--variant` out")
        what = f"there is no variant {shown(variant)}"
        raise SpecError([Problem(document.where((VARIANTS,)), VARIANTS, what, do)])
    beginning: KeyPath = (VARIANTS, variant)
    places = {path[2:]: place for path, place in document.places.items() if path[:2] == beginning and len(path) > 2}
    return [Document(variants[variant], places)]
