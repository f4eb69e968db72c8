"""What is asked on the planner page: a scenario, what was moved in it, and how the two are written down.

An address, a command and a YAML file hold the same question. What comes out of an address or of a file that was dropped
on the page is not trusted: it may name what is shipped, and no other file of the machine.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from podsim import memo
from podsim.errors import Problem, SpecError
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.library import shipped, shipped_names
from podsim.scenario.resolve import REFERENCES, assigned, laid_over, read_written
from podsim.scenario.wording import dotted, flow, nearest, shown
from podsim.scenario.yaml_file import parse_yaml

ANEW: Final = "parallelism=auto"
DIVISION: Final = "parallelism."
LONGEST_TEXT: Final = 1 << 16
"""Of a scenario that comes in an address, or in a file that is dropped. [bytes]"""
_NAMING: Final = frozenset({"base", "file", *(key for keys in REFERENCES.values() for key in keys)})
"""Keys whose texts name files."""
_NAME_LENGTH: Final = 12
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".onnx"})


@dataclass(frozen=True, slots=True)
class Question:
    """A scenario with what was moved in it, in the order in which keys are laid over it.

    One that was dropped on the page has its text, and the folder of files that came with it; any other has a name.
    """

    scenario: str
    variant: str = ""
    text: str = ""
    folder: str = ""
    serves: bool = False
    anew: bool = False
    moved: tuple[tuple[str, str], ...] = ()

    def with_value(self, key: str, value: str) -> Question:
        """The question with a value at a key; an empty one leaves the key as it is in the scenario."""
        found = {each: text for each, text in self.moved if each != key}
        if value:
            found[key] = value
        # What names a part comes before keys of that part.
        return replace(self, moved=tuple(sorted(found.items(), key=lambda each: (each[0].count("."), each[0]))))

    @property
    def as_written(self) -> Question:
        """The scenario with nothing moved."""
        return replace(self, anew=False, moved=())

    @property
    def overrides(self) -> tuple[str, ...]:
        """`key.path=value` texts, as `--set` takes them."""
        kept = [(key, value) for key, value in self.moved if not (self.anew and key.startswith(DIVISION))]
        return (*(f"{key}={value}" for key, value in kept), *([ANEW] if self.anew else []))

    def loaded(self, scratch: Path) -> LoadedScenario:
        """The scenario, loaded and checked.

        Raises:
            SpecError: Everything that is wrong with it.
        """

        def load() -> LoadedScenario:
            return load_scenario(self.source(scratch), self.variant or None)

        if not self.is_settled:
            return load_scenario(self.source(scratch), self.variant or None, self.overrides)
        return load_scenario(memo.ASKED.get((self.scenario, self.text, self.variant), load), None, self.overrides)

    @property
    def is_settled(self) -> bool:
        """Whether its scenario stays what it is: it is shipped, or was dropped on the page."""
        return bool(self.text) or shipped(self.scenario, "scenario") is not None

    def source(self, scratch: Path) -> str:
        """The name or path that is loaded."""
        if not self.text:
            return self.scenario
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:_NAME_LENGTH]
        path = (Path(self.folder) if self.folder else scratch / digest) / f"{self.scenario}.yaml"
        if not path.is_file() or path.read_text(encoding="utf-8") != self.text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text, encoding="utf-8")
        return str(path)

    def command(self) -> str:
        """The command that gives the same answer."""
        name = f"{self.scenario}.yaml" if self.text else self.scenario
        variant = ["--variant", self.variant] if self.variant else []
        sets = [part for each in self.overrides for part in ("--set", each)]
        return shlex.join(["podsim", "serve" if self.serves else "run", name, *variant, *sets])

    def yaml(self, scratch: Path) -> str:
        """A scenario file that asks the same; it keeps the names of shipped parts."""
        written = read_written(self.source(scratch))
        data = laid_over(written, self.variant or None, self.overrides).data
        told = {key: value for key, value in data.items() if key != "description"}
        lines = _block(told if self.overrides else data, "")  # a description is of the scenario as it was
        return "\n".join((f"# {self.command()}", *lines, ""))

    def query(self) -> str:
        """The question as the part of an address behind the question mark."""
        packed = base64.urlsafe_b64encode(zlib.compress(self.text.encode())).decode() if self.text else ""
        switches = {"scenario": self.scenario, "variant": self.variant, "yaml": packed}
        switches |= {"serve": "1" if self.serves else "", "auto": "1" if self.anew else ""}
        pairs = [(name, value) for name, value in switches.items() if value]
        return urlencode([*pairs, *(("set", f"{key}={value}") for key, value in self.moved)])


def read_query(query: str, named: Iterable[str], default: str) -> Question:
    """The question of an address.

    Raises:
        SpecError: It names a file that nobody named, or is no question.
    """
    pairs = parse_qsl(query, keep_blank_values=True)
    single = dict(pairs)
    question = Question(single.get("scenario") or default, single.get("variant", ""))
    if "yaml" in single:
        question = replace(question, scenario=stem_of(question.scenario), text=_unpacked(single["yaml"]))
        check_names(parse_yaml(question.text, question.scenario).data)
    elif question.scenario not in named and shipped(question.scenario, "scenario") is None:
        close = nearest(question.scenario, shipped_names()["scenarios"])
        do = f"did you mean `{close}`?" if close else "name a shipped one, or start `podsim ui FILE.yaml`"
        what = f"{shown(question.scenario)} is neither shipped nor named at the start of `podsim ui`"
        raise SpecError([Problem("address", "scenario", what, do)])
    for each in (value for name, value in pairs if name == "set"):
        check_names(assigned(each).data)
        key, _, value = each.partition("=")
        question = question.with_value(key.strip(), value.strip())
    return replace(question, serves=bool(single.get("serve")), anew=bool(single.get("auto")))


def dropped(name: str, text: str, folder: str = "", own: Sequence[str] = ()) -> Question:
    """The question of a scenario file that was dropped on the page.

    Raises:
        SpecError: It is no YAML, or names files of this machine.
    """
    check_names(parse_yaml(text, name).data, own)
    return Question(stem_of(name), text=text, folder=folder)


def check_names(data: Mapping[str, Any], own: Sequence[str] = ()) -> None:
    """Refuse what names a file that is neither shipped nor came along.

    Raises:
        SpecError: Lists every such key.
    """
    wrong = [(path, value) for path, value in _named_files(data, ()) if value not in own and not _is_shipped(value)]
    if wrong:
        what = "{} is no shipped name, and a page reads no other file"
        do = "write a shipped name, or start `podsim ui FILE.yaml`, which reads what that file names"
        raise SpecError([Problem("page", dotted(path), what.format(shown(value)), do) for path, value in wrong])


def _named_files(data: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key in _NAMING and isinstance(value, str):
                yield (*path, key), value
            yield from _named_files(value, (*path, str(key)))
    elif isinstance(data, Sequence) and not isinstance(data, str):
        for each in data:
            yield from _named_files(each, path)


def _is_shipped(name: str) -> bool:
    return any(shipped(name, kind) is not None for kind in REFERENCES)


def _block(data: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Lines of YAML: a key each, what is not a mapping in one line."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _block(value, f"{indent}  ")
        else:
            yield f"{indent}{key}: {flow(value)}"


def stem_of(name: str) -> str:
    """The name of a file without folder and suffix, of characters that a file and a command may have.

    >>> stem_of("runs/mine.yaml"), stem_of("bert_v1.1_pod64_open")
    ('mine', 'bert_v1.1_pod64_open')
    """
    path = PurePath(name.replace("\\", "/"))
    stem = path.stem if path.suffix.lower() in _SUFFIXES else path.name
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in stem).strip(".") or "scenario"


def _unpacked(packed: str) -> str:
    try:
        taken = zlib.decompressobj()
        data = taken.decompress(base64.urlsafe_b64decode(packed.encode()), LONGEST_TEXT)
        if not taken.eof:
            raise ValueError(packed)
        return data.decode("utf-8")
    except (ValueError, binascii.Error, zlib.error) as error:
        what, do = "holds no scenario", "copy the address again, whole"
        raise SpecError([Problem("address", "yaml", what, do)]) from error
