"""Parser of YAML 1.2: from a text to plain data with the place of every key, or to all problems."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from podsim.errors import Problem, SpecError
from podsim.scenario.document import LONE_SURROGATE, MAX_DEPTH, Document, KeyPath, is_text, refusal

_MAX_NODES = 5_000

_STANDARD_TAG = "tag:yaml.org,2002:"
_MERGE_TAG = f"{_STANDARD_TAG}merge"
_SYNTAX_CURE = "check quotes, brackets and indentation"

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def parsed(text: str, name: str) -> Document:
    """Parse a text; `name` stands for the file in messages."""
    if "\0" in text:
        raise refusal(name, "the file is binary, not text", "name a YAML file")
    node = _compose(text, name)
    if node is None:
        raise refusal(name, "the file is empty", "start from `scenarios/template.yaml`")
    if not isinstance(node, MappingNode):
        raise refusal(_place(name, node), "the file must hold a mapping", "write `key: value` lines")
    reader = _Reader(name)
    data = reader.value(node, ())
    if reader.problems:
        raise SpecError(reader.problems)
    return Document(data, reader.places)


def parsed_value(text: str) -> Any:
    """Return a single value as it would be read in a file; text that is not YAML stays text."""
    try:
        node = _compose(text, "")
        reader = _Reader("")
        value = None if node is None else reader.value(node, ())
    except SpecError:
        return text
    return text if reader.problems else value


def _compose(text: str, name: str) -> Node | None:
    """Return the tree of a text, or None for an empty text."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _BoundedComposer
    try:
        tree: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise refusal(place, *_syntax(error.problem or error.context or "")) from error
    except (YAMLError, RecursionError, ValueError) as error:
        raise refusal(name, f"not valid YAML: {str(error).splitlines()[0]}", "name a YAML file") from error
    return tree


def _syntax(problem: str) -> tuple[str, str]:
    """Return the message and the cure for a problem that the parser found."""
    if problem in _TOO_MUCH:
        return problem, _TOO_MUCH[problem]
    if problem == "but found another document":
        return "the file holds more than one document", "remove what follows `---`"
    return f"not valid YAML: {problem}", _SYNTAX_CURE


def _place(name: str, node: Node) -> str:
    return f"{name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


_TOO_MANY = f"the file holds more than {_MAX_NODES:,} values"
_TOO_DEEP = f"values are nested in more than {MAX_DEPTH} levels"
_TOO_MUCH = {
    _TOO_MANY: "remove anchors that multiply one another, or split the file",
    _TOO_DEEP: "remove brackets, or anchors that contain themselves",
}


class _BoundedComposer(Composer):
    """Composer that stops in the middle of a file with too many nodes or levels."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False
        self._count = self._level = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._count += 1
        self._level += 1
        problem = _excess(self._count, self._level)
        if problem:
            raise MarkedYAMLError(problem=problem, problem_mark=self.parser.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self._level -= 1
        return node


def _excess(node_count: int, depth: int) -> str:
    if node_count > 2 * _MAX_NODES:
        return _TOO_MANY
    return _TOO_DEEP if depth > MAX_DEPTH else ""


class _Reader:
    """Converter of nodes into data, which records places and problems."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self.places: dict[KeyPath, str] = {}
        self.problems: list[Problem] = []

    def value(self, node: Node, path: KeyPath) -> Any:
        self._count += 1
        excess = _TOO_MANY if self._count > _MAX_NODES else _excess(0, len(path))
        if excess:
            raise refusal(_place(self._name, node), excess, _TOO_MUCH[excess])
        if not str(node.tag).startswith(_STANDARD_TAG):
            self._complain(node, path, f"tag `{node.tag}` has no meaning here", "remove it")
        self.places.setdefault(path, _place(self._name, node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        if not is_text(node.value):
            self._complain(node, path, *LONE_SURROGATE)
            return ""
        return _scalar(node)

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else ""
            if not is_text(key):
                self._complain(key_node, path, *LONE_SURROGATE)
            elif not key:
                self._complain(key_node, path, "a key must be text", "write `key: value` lines")
            elif key_node.tag == _MERGE_TAG:
                cure = "write the keys out, or name a file under `base:`"
                self._complain(key_node, (*path, key), "merge keys are not read", cure)
            elif key in result:
                what = f"key `{key}` appears twice, first at {self.places[(*path, key)]}"
                self._complain(key_node, (*path, key), what, "keep one of the two")
            else:
                self.places[(*path, key)] = _place(self._name, key_node)
                result[key] = self.value(value_node, (*path, key))
        return result

    def _complain(self, node: Node, path: KeyPath, message: str, do: str) -> None:
        self.problems.append(Problem(_place(self._name, node), ".".join(map(str, path)), message, do))


def _scalar(node: ScalarNode) -> Any:
    """Convert a scalar by YAML 1.2's core schema; quoted text stays text."""
    text: str = node.value
    if node.style is not None:
        return text
    if _NULL.fullmatch(text):
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text) and len(text) < MAX_DEPTH:
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL_FLOAT.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text
