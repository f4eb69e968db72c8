"""Catalogue of all shipped files, one line each; read without validation, so that a list appears at once.

Only the top-level keys that a list shows are parsed, since parsing takes most of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podsim import disk
from podsim.scenario.library import shipped_files

_KEY = re.compile(r"^(?=[a-z_]+:)", re.MULTILINE)
_PLAIN = re.compile(r"[a-z_]+: +(?P<text>[A-Za-z0-9](?:[^\s:#]|[:#](?=\S)| (?=[^\s#]))*)\s*(?: #.*\s*)*")
_LISTED = ("base", "description", "kind", "name", "system", "variants")
LISTS = ("scenarios", "studies", "systems", "software")
"""Titles of the lists."""
_PRESENCE_ONLY = ("data", "generation", "forward", "serving")


@dataclass(frozen=True, slots=True)
class ListedScenario:
    """Entry of a scenario."""

    name: str
    description: str  # `description` of the file
    kind: str  # `training`, `generation`, `serving` or `forward`
    system: str  # name of its pod
    variants: tuple[str, ...]  # names of its variants


@dataclass(frozen=True, slots=True)
class ListedPart:
    """Entry of a system or a software stack."""

    name: str
    description: str  # its full name


@dataclass(frozen=True, slots=True)
class ListedStudy:
    """Entry of a study."""

    name: str  # argument of its command
    command: str  # `sweep`, `plan`, `serve` or `check`
    description: str  # `description` of the file


@dataclass(frozen=True, slots=True, repr=False)
class Catalogue:
    """Entries of shipped files, complete or reduced by a search."""

    scenarios: tuple[ListedScenario, ...]
    studies: tuple[ListedStudy, ...]
    systems: tuple[ListedPart, ...]
    software: tuple[ListedPart, ...]

    def __repr__(self) -> str:
        """Return the output of `podsim list`: a line for each entry, its name first."""
        return "\n".join(_lines(self))

    def matching(self, words: Sequence[str]) -> Catalogue:
        """Return the entries that contain all words, ignoring case; the name of a list matches all its entries."""

        def matches(title: str) -> Any:
            entries = getattr(self, title)
            return tuple(entry for entry in entries if _contains_all({**asdict(entry), "list": title}, words))

        return Catalogue(matches("scenarios"), matches("studies"), matches("systems"), matches("software"))

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return the catalogue as plain data, for JSON."""
        return {kind: list(map(asdict, getattr(self, kind))) for kind in LISTS}


def _lines(entries: Catalogue) -> Iterator[str]:
    sections: dict[str, list[tuple[str, ...]]] = {
        "scenarios": [_scenario_row(scenario) for scenario in entries.scenarios],
        "studies": [(study.name, f"podsim {study.command}", study.description) for study in entries.studies],
        "systems": [(system.name, system.description) for system in entries.systems],
        "software": [(stack.name, stack.description) for stack in entries.software],
    }
    for title, rows in sections.items():
        if rows:
            yield f"{title}:"
            yield from _aligned(rows)


def _scenario_row(scenario: ListedScenario) -> tuple[str, ...]:
    variants = f"; variants: {', '.join(scenario.variants)}" if scenario.variants else ""
    return scenario.name, scenario.kind, scenario.system, scenario.description + variants


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def catalogue() -> Catalogue:
    """Return all shipped files in order of names, cached on disk until a file or a line of code changes."""
    kinds = ("scenario", "study", "pod", "software")
    files = {kind: {path.stem: path.read_bytes() for path in shipped_files(kind)} for kind in kinds}
    names = [f"{kind}/{name}".encode() for kind in kinds for name in files[kind]]
    contents = [content for kind in kinds for content in files[kind].values()]
    code = disk.source(Path(__file__).parent.glob("**/*.py"))
    key = disk.digest([b"catalogue", code, *names, *contents])
    return disk.cached(key, lambda: _catalogue_of(files), Catalogue.to_dict, _from_dict)


def shipped_list(*words: str) -> Catalogue:
    """Return the shipped scenarios, studies, systems and software stacks whose entries contain all words."""
    return catalogue().matching(words)


def _from_dict(data: Mapping[str, Any]) -> Catalogue:
    scenarios = (ListedScenario(**{**entry, "variants": tuple(entry["variants"])}) for entry in data["scenarios"])
    studies = tuple(ListedStudy(**entry) for entry in data["studies"])
    systems, software = (tuple(ListedPart(**entry) for entry in data[kind]) for kind in ("systems", "software"))
    return Catalogue(tuple(scenarios), studies, systems, software)


def _catalogue_of(files: Mapping[str, Mapping[str, bytes]]) -> Catalogue:
    scenarios, studies, systems, software = (
        {name: _outline(name, content.decode("utf-8")) for name, content in file.items()} for file in files.values()
    )
    return Catalogue(
        tuple(_scenario(name, scenarios) for name in sorted(scenarios)),
        tuple(_study(name, outline) for name, outline in sorted(studies.items())),
        tuple(_part(name, systems) for name in sorted(systems)),
        tuple(_part(name, software) for name in sorted(software)),
    )


def _contains_all(entry: Mapping[str, Any], words: Sequence[str]) -> bool:
    text = " ".join(map(str, entry.values())).casefold()
    return all(word.casefold() in text for word in words)


def _scenario(name: str, outlines: Mapping[str, Mapping[str, Any]]) -> ListedScenario:
    outline, chain = outlines[name], list(_chain(name, outlines))
    merged: dict[str, Any] = {key: value for base in reversed(chain) for key, value in base.items()}
    merged["model"] = {key: value for base in reversed(chain) for key, value in base.get("model", {}).items()}
    description = str(merged.get("description", ""))
    return ListedScenario(name, description, _activity_text(merged), _system(chain), tuple(outline.get("variants", ())))


def _study(name: str, outline: Mapping[str, Any]) -> ListedStudy:
    default = "serve" if "serving" in outline else "check"
    command = {"study": "sweep", "goal": "plan"}.get(str(outline.get("kind")), default)
    return ListedStudy(name, command, str(outline.get("description", "")))


def _part(name: str, outlines: Mapping[str, Mapping[str, Any]]) -> ListedPart:
    names = (str(base["name"]) for base in _chain(name, outlines) if "name" in base)
    return ListedPart(name, next(names, ""))


def _chain(name: str, outlines: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the outline of a shipped file and those of its bases, nearest first, as far as they are shipped."""
    seen: set[str] = set()
    while name in outlines and name not in seen:
        seen.add(name)
        yield outlines[name]
        name = Path(str(outlines[name].get("base", ""))).name.removesuffix(".yaml")


def _system(chain: Sequence[Mapping[str, Any]]) -> str:
    for outline in chain:
        system = outline.get("system")
        name = system.get("base") if isinstance(system, dict) else system
        if name is not None:
            return str(name)
    return ""


def _activity_text(data: Mapping[str, Any]) -> str:
    from podsim.scenario.activity import Activity
    from podsim.scenario.document import Document
    from podsim.scenario.families.registry import activity_of

    activity = activity_of(Document(dict(data)))
    return "serving" if activity is Activity.GENERATION and "serving" in data else str(activity)


def _outline(name: str, text: str) -> dict[str, Any]:
    """Return the outline of a file: the top-level keys that a list shows, parsed without the rest of the file."""
    outline: dict[str, Any] = {}
    rest = []
    for block in _KEY.split(text):
        key = block.partition(":")[0]
        plain = _PLAIN.fullmatch(block)
        if key in _PRESENCE_ONLY:
            outline[key] = {}
        elif key in _LISTED and plain:
            outline[key] = plain["text"]
        elif key in _LISTED or (key == "model" and "kind" in block):
            rest.append(block)
    if not rest:
        return outline
    from podsim.scenario.yaml_file import parse_yaml

    parsed: dict[str, Any] = parse_yaml("".join(rest), f"{name}.yaml").data
    return outline | parsed
