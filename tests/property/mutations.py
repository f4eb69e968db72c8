"""Files that were valid until somebody slipped: every shipped scenario, with all that it names written out."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from podsim.scenario.library import data_root
from podsim.scenario.yaml_file import read_yaml

Path_ = tuple[Any, ...]
_ROOT = data_root()
_PARTS = {"ipu", "vertices", "machine", "host"}
_EXTREMES: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 2**31, 2**64, 10**12, 10**30, 0.5, 1e-300, 1e300, float("inf"), float("nan"), True, None),
    *("", " ", "auto", "nan s", "1e999 GB/s", "-1 GHz", "0 B", "1 ps", "1 b", "1000 THz", "99999 GB", "template", "."),
    *([], {}, [[]], [0], {"value": 1}, ["a", {"b": []}], "x" * 5000, "\u0000", "../..", "ipu_pod16.yaml", "bow_pod64"),
)
_FEW_REQUESTS = {"request_count": 50, "loads": [0.5]}
_UNITS = ("GB/s", "MB", "GHz", "us", "s", "KiB", "b", "%", "", "W", "cycles")


@cache
def _shipped() -> tuple[tuple[Path, str | None], ...]:
    """Every shipped scenario and each of its variants."""
    return tuple(
        (path, name)
        for path in sorted((_ROOT / "scenarios").rglob("*.yaml"))
        for name in (None, *(_read(path).get("variants") or ()))
    )


@cache
def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(path).data
    return data


@cache
def _whole(path: Path, variant: str | None) -> dict[str, Any]:
    """A scenario with base, pod, machine, chip, vertices and stack written out."""
    data = _based(_read(path))
    over = (data.get("variants") or {}).get(variant, {})
    whole = _inlined(_merged({key: value for key, value in data.items() if key != "variants"}, over))
    return _merged(whole, {"serving": _FEW_REQUESTS}) if "serving" in whole else whole


def _merged(base: Any, over: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return base | {key: _merged(base.get(key), value) for key, value in over.items()}


@cache
def _files() -> dict[str, Path]:
    return {path.stem: path for folder in ("hardware_specs", "scenarios") for path in (_ROOT / folder).rglob("*.yaml")}


def _named(text: str) -> Path:
    """The shipped file that a name or a path means."""
    return _files()[text.removesuffix(".yaml").rsplit("/")[-1]]


def _based(data: Any) -> Any:
    base = data.get("base") if isinstance(data, dict) else None
    if base is None:
        return data
    return _merged(_based(_read(_named(base))), {key: value for key, value in data.items() if key != "base"})


def _inlined(data: dict[str, Any]) -> dict[str, Any]:
    """Parts by name written out, one level of it at a time."""
    result = {}
    for key, value in data.items():
        if key in {"system", "software"} | _PARTS and isinstance(value, str) and value in _files():
            value = _based(_read(_named(value)))
        result[key] = _inlined(value) if isinstance(value, dict) and key in {"system", "software"} | _PARTS else value
    return result


def _paths(data: Any, path: Path_ = ()) -> Iterator[Path_]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _parent(data: Any, path: Path_) -> Any:
    for key in path[:-1]:
        data = data[key]
    return data


def _copy(data: Any) -> Any:
    return json.loads(json.dumps(data))


def _delete(data: Any, path: Path_, rng: random.Random) -> None:
    del _parent(data, path)[path[-1]]


def _swap_type(data: Any, path: Path_, rng: random.Random) -> None:
    _parent(data, path)[path[-1]] = rng.choice(_EXTREMES)


def _scale(data: Any, path: Path_, rng: random.Random) -> None:
    parent, key = _parent(data, path), path[-1]
    factor = 10.0 ** rng.choice([-9, -6, -3, -2, -1, 1, 2, 3, 6, 9])
    value, unit = parent[key], ""
    if isinstance(value, str):
        number, _, unit = value.partition(" ")
        try:
            value = float(number)
        except ValueError:
            return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    scaled = value * factor
    whole = isinstance(value, int) and (factor > 1 or rng.random() < 0.8)
    parent[key] = f"{scaled:g} {unit}" if unit else round(scaled) if whole else scaled


def _nudge(data: Any, path: Path_, rng: random.Random) -> None:
    parent, key = _parent(data, path), path[-1]
    value = parent[key]
    if isinstance(value, int) and not isinstance(value, bool):
        parent[key] = rng.choice([value + 1, value - 1, -value, 2 * value, value // 2, 3 * value, 0])


def _unit(data: Any, path: Path_, rng: random.Random) -> None:
    parent, key = _parent(data, path), path[-1]
    if isinstance(parent[key], str) and parent[key][:1].isdigit():
        parent[key] = f"{parent[key].partition(' ')[0]} {rng.choice(_UNITS)}"


def _swap_values(data: Any, path: Path_, rng: random.Random) -> None:
    other = rng.choice(list(_paths(data)))
    if path[: len(other)] == other or other[: len(path)] == path:
        return
    one, two = _parent(data, path), _parent(data, other)
    one[path[-1]], two[other[-1]] = two[other[-1]], one[path[-1]]


def _rename(data: Any, path: Path_, rng: random.Random) -> None:
    parent = _parent(data, path)
    if isinstance(parent, dict):
        names = [str(each[-1]) for each in _paths(data)]
        parent[rng.choice([rng.choice(names), str(path[-1])[:-1], str(path[-1]) + "s"])] = parent.pop(path[-1])


_SLIPS: tuple[Callable[[Any, Path_, random.Random], None], ...] = (
    *(_delete, _swap_type, _swap_type, _scale, _scale, _scale, _nudge, _nudge, _nudge, _unit, _swap_values, _rename),
)


def _cut(text: bytes, rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text))]


def _noise(text: bytes, rng: random.Random) -> bytes:
    spoiled = bytearray(text)
    for _ in range(rng.randrange(1, 6)):
        spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
    return bytes(spoiled)


def _twice(text: bytes, rng: random.Random) -> bytes:
    lines = text.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    return b"".join([*lines[:place], lines[place], *lines[place:]])


GOALS: tuple[dict[str, Any], ...] = (
    {
        "kind": "goal",
        "description": "BERT in half an hour",
        "scenario": "bert_v1.1_pod16_open",
        "objective": "cost",
        "second": "energy",
        "limits": {"time_to_train_s": "< 30 min", "rack_power": ["> 1 kW", "< 20 kW"]},
        "deadline": "12 h",
        "budget": "500 USD",
        "systems": ["bow_pod16", "16 of ipu_pod64"],
        "divisions": ["as given"],
        "lease": "partition",
        "overrides": ["cost.price_per_ipu_hour=1.5 USD"],
        "trials": 2,
        "draws": 0,
        "seed": 1,
    },
    {
        "kind": "goal",
        "jobs": [
            {"name": "a", "scenario": "bert_v1.1_pod16_open", "ipus": 32, "limits": {"time": "< 7 min"}},
            {"name": "b", "scenario": "bert_v1.1_pod16_open", "variant": None, "overrides": ["optimizer.kind=lamb"]},
        ],
        "order": "together",
        "systems": ["bow_pod64"],
        "divisions": ["as given"],
        "draws": 0,
    },
    {
        "kind": "goal",
        "scenario": "bert_base_c600",
        "systems": ["c600"],
        "divisions": ["as given"],
        "objective": "samples_per_s_per_w",
        "vary": {
            "system.machine.ipu.clock": ["1.3 GHz", "1.5 GHz"],
            "forward.batch_size": {"from": 1, "to": 4, "step": 1},
        },
        "derived": {"forward.batches_per_call": "${8 // batch_size}"},
        "where": ["batch_size != 3"],
        "trials": 3,
        "draws": 0,
    },
    {
        "kind": "goal",
        "scenario": "serving_llama2_7b_pod64",
        "variant": "pod16_int4",
        "systems": ["ipu_pod16"],
        "divisions": ["as given"],
        "objective": "energy_per_token_j",
        "limits": {"p99_latency": "< 30 s", "ipus": "<= 64"},
        "request_rate": 1.0,
        "overrides": ["serving.request_count=50"],
        "draws": 0,
    },
)
"""Goals that take little work."""


def mutated_goal(seed: int) -> dict[str, Any] | bytes:
    """A goal with one to three slips, or once in ten times a spoiled text. The same seed gives the same."""
    rng = random.Random(f"goal {seed}")
    data = _copy(rng.choice(GOALS))
    if rng.random() < 0.1:
        return rng.choice([_cut, _noise, _twice])(json.dumps(data, indent=1).encode(), rng)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if paths := list(_paths(data)):
            rng.choice(_SLIPS)(data, rng.choice(paths), rng)
    return data


def mutated(seed: int) -> dict[str, Any] | bytes:
    """Data with one to three slips, or once in ten times a spoiled text. The same seed gives the same."""
    rng = random.Random(seed)
    if rng.random() < 0.1:
        return rng.choice([_cut, _noise, _twice])(rng.choice(_texts()), rng)
    data = _copy(_whole(*rng.choice(_shipped())))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        paths = list(_paths(data))
        # Hardware has most of the keys; the scenario's own are as likely all together.
        own = rng.random() < 0.5
        near = [path for path in paths if (path[0] not in ("system", "software")) == own]
        rng.choice(_SLIPS)(data, rng.choice(near or paths), rng)
    return data


def slipped(given: Any, seed: int) -> str | bytes:
    """Plain data as JSON with one to three slips, or once in four times a spoiled text of it."""
    rng = random.Random(seed)
    data = _copy(given)
    if rng.random() < 0.25:
        return rng.choice([_cut, _noise, _twice, _deep])(json.dumps(data, indent=1).encode(), rng)
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice(_SLIPS)(data, rng.choice(list(_paths(data))), rng)
    return json.dumps(data)


def spoiled(text: str, seed: int) -> bytes:
    """A text that was cut, in which bytes were changed, a line is there twice, or brackets have no end."""
    rng = random.Random(seed)
    return rng.choice([_cut, _noise, _noise, _twice, _deep])(text.encode(), rng)


def _deep(text: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(text))
    return text[:place] + rng.choice([b"[", b'{"a":']) * 50_000 + text[place:]


@cache
def _texts() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((_ROOT / "scenarios").rglob("*.yaml")))


_BUSY_STUDY: dict[str, Any] = {
    "kind": "study",
    "scenario": "bert_v1.1_pod16_open",
    "names": {"replicas": [2, 4], "rate": {"from": 8, "to": 32, "count": 3, "scale": "log", "whole": True}},
    "keys": {
        "system.machine.ipu.clock": {"from": "1.2 GHz", "to": "2 GHz"},
        "parallelism.micro_batch_size": [1, 2, 3],
        "parallelism.accumulation_factor": [384, 192, 128],
    },
    "zipped": [["parallelism.micro_batch_size", "parallelism.accumulation_factor"]],
    "derived": {
        "system.machine.ipu_link.bandwidth_per_direction": "${rate} GB/s",
        "parallelism.replication_factor": "${max(2, min(replicas, 4)) // 1}",
    },
    "where": [
        "1536 % (4 * micro_batch_size) == 0",
        "not replicas > 4 or round(rate / 3, 1) >= 2.7 and rate ** 2 < 1e4",
    ],
    "samples": {"count": 4, "seed": 1},
}
_TOKENS = re.compile(r"\d+\.?\d*|\w+|\*\*|//|[<>=!]=|\S")
_OTHERS = (
    *(
        "0",
        "1",
        "-1",
        "64",
        "65",
        "10**9",
        "-10**9",
        "1e308",
        "1e999",
        "10**64",
        "2**63",
        "'a'",
        "'1 GHz'",
        "True",
        "None",
    ),
    *("and", "or", "not", "+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "~", "==", "!=", "<", ">=", "in"),
    *("(", ")", "((", "))", "[", "]", "{", "}", "${", ",", ":", ".", "lambda", "if", "else", "await", "\\", "#", "\n"),
    *(
        "abs",
        "ceil",
        "floor",
        "log2",
        "max",
        "min",
        "round",
        "sqrt",
        "factorial",
        "range",
        "sum",
        "print",
        "__import__",
    ),
    *(
        "replicas",
        "rate",
        "clock",
        "micro_batch_size",
        "point",
        "status",
        "-" * 400,
        "(" * 250,
        "not " * 120,
        "9" * 300,
    ),
)


def mutated_expression(rng: random.Random, text: str) -> str:
    """An expression in which some words were replaced, lost, doubled or added."""
    tokens = _TOKENS.findall(text) or ["1"]
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(tokens))
        word = rng.choice((*_OTHERS, *tokens))
        slips = {"replace": [word], "lose": [], "double": [tokens[place]] * 2, "add": [tokens[place], word]}
        tokens[place : place + 1] = slips[rng.choice(list(slips))]
        tokens = tokens or ["1"]
    return " ".join(tokens)


@cache
def _studies() -> tuple[dict[str, Any], ...]:
    found = (_read(path) for path in sorted((_ROOT / "studies").glob("*.yaml")))
    return (_BUSY_STUDY, *(data for data in found if data.get("kind") == "study"))


def mutated_study(seed: int) -> dict[str, Any]:
    """A study with one to three slips, half of them in its expressions. The same seed gives the same."""
    rng = random.Random(seed)
    data = _copy(_BUSY_STUDY if rng.random() < 0.5 else rng.choice(_studies()))
    for _ in range(rng.choice([1, 1, 2, 3])):
        paths = [path for path in _paths(data) if path[0] != "kind"]
        texts = [path for path in paths if path[0] in ("where", "derived") and isinstance(_at(data, path), str)]
        if texts and rng.random() < 0.5:
            path = rng.choice(texts)
            inside = re.sub(r"\$\{(.*)\}", r"\1", _at(data, path))
            spoiled = mutated_expression(rng, inside)
            _parent(data, path)[path[-1]] = spoiled if path[0] == "where" else f"${{{spoiled}}}"
        elif paths:
            rng.choice(_SLIPS)(data, rng.choice(paths), rng)
    return data


def _at(data: Any, path: Path_) -> Any:
    return _parent(data, path)[path[-1]]
