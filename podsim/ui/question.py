"""Question of the planner page: a scenario with changed values, as address, command or YAML file.

Addresses and dropped files are not trusted: they may name shipped files, and no other file of the machine.
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
from podsim.scenario.resolve import REFERENCES, assigned, merged_layers, read_written
from podsim.scenario.wording import dotted, flow, nearest, quoted
from podsim.scenario.yaml_file import parse_yaml

DIVISION: Final = "parallelism."
LONGEST_TEXT: Final = 1 << 16
"""Largest scenario in an address or a dropped file. [bytes]"""
_REPLANNED: Final = "parallelism=auto"
_NAMING: Final = frozenset({"base", "file", *(key for keys in REFERENCES.values() for key in keys)})
"""Keys whose texts name files."""
_NAME_LENGTH: Final = 12
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".onnx"})


@dataclass(frozen=True, slots=True)
class Question:
    """Scenario with changed values, in the order in which they are applied.

    A dropped scenario has its text, and the folder of files dropped with it; any other has a name.
    """

    scenario: str
    variant: str = ""
    text: str = ""
    folder: str = ""
    serves: bool = False
    replanned: bool = False
    moved: tuple[tuple[str, str], ...] = ()

    def with_value(self, key: str, value: str) -> Question:
        """Return the question with a value at a key; an empty value restores that of the scenario."""
        moved = {**dict(self.moved), key: value}
        # The name of a part comes before keys of that part.
        order = sorted(((key, text) for key, text in moved.items() if text), key=lambda kv: (kv[0].count("."), kv[0]))
        return replace(self, moved=tuple(order))

    @property
    def as_written(self) -> Question:
        """The scenario with nothing moved."""
        return replace(self, replanned=False, moved=())

    @property
    def overrides(self) -> tuple[str, ...]:
        """`key.path=value` texts, as `--set` takes them."""
        if not self.replanned:
            return tuple(f"{key}={value}" for key, value in self.moved)
        return (*(f"{key}={value}" for key, value in self.moved if not key.startswith(DIVISION)), _REPLANNED)

    def loaded(self, scratch: Path) -> LoadedScenario:
        """Return the scenario, loaded and checked."""
        if not self.is_settled:
            return load_scenario(self.source(scratch), self.variant or None, self.overrides)
        key = self.scenario, self.text, self.variant
        written = memo.ASKED.get(key, lambda: load_scenario(self.source(scratch), self.variant or None))
        return load_scenario(written, None, self.overrides)

    @property
    def is_settled(self) -> bool:
        """True if its scenario cannot change: it is shipped, or was dropped on the page."""
        return bool(self.text) or shipped(self.scenario, "scenario") is not None

    def source(self, scratch: Path) -> str:
        """Return the name or path to load."""
        if not self.text:
            return self.scenario
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:_NAME_LENGTH]
        path = (Path(self.folder) if self.folder else scratch / digest) / f"{self.scenario}.yaml"
        if not path.is_file() or path.read_text(encoding="utf-8") != self.text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text, encoding="utf-8")
        return str(path)

    def as_file(self, scratch: Path) -> str:
        """Write a scenario file that is equivalent to the question, and return its path."""
        return Question(f"{stem_of(self.scenario)}_moved", text=self.yaml(scratch), folder=self.folder).source(scratch)

    def command(self) -> str:
        """Return the command that gives the same answer."""
        name = f"{self.scenario}.yaml" if self.text else self.scenario
        variant = ["--variant", self.variant] if self.variant else []
        sets = [part for override in self.overrides for part in ("--set", override)]
        return shlex.join(["podsim", "serve" if self.serves else "run", name, *variant, *sets])

    def yaml(self, scratch: Path) -> str:
        """Return an equivalent scenario as YAML; it keeps the names of shipped parts."""
        written = read_written(self.source(scratch))
        data = dict(merged_layers(written, self.variant or None, self.overrides).data)
        if self.overrides:
            data.pop("description", None)  # it describes the unchanged scenario
        return "\n".join((f"# {self.command()}", *_block(data, ""), ""))

    def query(self) -> str:
        """Return the query part of an address for this question."""
        packed = base64.urlsafe_b64encode(zlib.compress(self.text.encode())).decode() if self.text else ""
        switches = {"scenario": self.scenario, "variant": self.variant, "yaml": packed}
        switches |= {"serve": "1" * self.serves, "auto": "1" * self.replanned}
        pairs = [(name, value) for name, value in switches.items() if value]
        return urlencode([*pairs, *(("set", f"{key}={value}") for key, value in self.moved)])


def read_query(query: str, named: Iterable[str], default: str) -> Question:
    """Return the question in an address; raise if it is malformed or names a file that is not allowed."""
    pairs = parse_qsl(query, keep_blank_values=True)
    single = dict(pairs)
    question = Question(single.get("scenario") or default, single.get("variant", ""))
    if "yaml" in single:
        unpacked = dropped_question(question.scenario, _unpacked(single["yaml"]))
        question = replace(unpacked, variant=question.variant)
    elif question.scenario not in named and shipped(question.scenario, "scenario") is None:
        close = nearest(question.scenario, shipped_names()["scenarios"])
        do = f"did you mean `{close}`?" if close else "name a shipped one, or start `podsim ui FILE.yaml`"
        what = f"{quoted(question.scenario)} is neither shipped nor named at the start of `podsim ui`"
        raise SpecError([Problem("address", "scenario", what, do)])
    for text in (value for name, value in pairs if name == "set"):
        _check_names(assigned(text).data)
        key, _, value = text.partition("=")
        question = question.with_value(key.strip(), value.strip())
    return replace(question, serves=bool(single.get("serve")), replanned=bool(single.get("auto")))


def dropped_question(name: str, text: str, folder: str = "", own: Sequence[str] = ()) -> Question:
    """Return the question for a dropped scenario file, which may refer to the `own` files dropped with it."""
    _check_names(parse_yaml(text, name).data, own)
    return Question(stem_of(name), text=text, folder=folder)


def _check_names(data: Mapping[str, Any], own: Sequence[str] = ()) -> None:
    """Refuse all that names a file that is neither shipped nor came along."""
    allowed = {name for _, name in _named_files(data, ()) if any(shipped(name, kind) for kind in REFERENCES)} | {*own}
    wrong = [(path, name) for path, name in _named_files(data, ()) if name not in allowed]
    if wrong:
        what = "{} is no shipped name, and a page reads no other file"
        do = "write a shipped name, or start `podsim ui FILE.yaml`, which reads what that file names"
        raise SpecError([Problem("page", dotted(path), what.format(quoted(name)), do) for path, name in wrong])


def _named_files(data: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key in _NAMING and isinstance(value, str):
                yield (*path, key), value
            yield from _named_files(value, (*path, str(key)))
    elif isinstance(data, Sequence) and not isinstance(data, str):
        for value in data:
            yield from _named_files(value, path)


def _block(data: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield lines of YAML with one key each; values other than mappings are in one line."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _block(value, f"{indent}  ")
        else:
            yield f"{indent}{key}: {flow(value)}"


def stem_of(name: str) -> str:
    """Return a file's name without folder and suffix, in characters that files and commands allow.

    >>> stem_of("runs/mine.yaml"), stem_of("bert_v1.1_pod64_open")
    ('mine', 'bert_v1.1_pod64_open')
    """
    path = PurePath(name.replace("\\", "/"))
    stem = path.stem if path.suffix.lower() in _SUFFIXES else path.name
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in stem).strip(".") or "scenario"


def _unpacked(packed: str) -> str:
    try:
        opened = zlib.decompressobj()
        data = opened.decompress(base64.urlsafe_b64decode(packed.encode()), LONGEST_TEXT)
        if not opened.eof:
            raise ValueError(packed)
        return data.decode("utf-8")
    except (ValueError, binascii.Error, zlib.error) as error:
        what, do = "holds no scenario", "copy the address again, whole"
        raise SpecError([Problem("address", "yaml", what, do)]) from error
