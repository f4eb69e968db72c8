"""Chakra execution traces as a recorded graph; whatever is wrong is said with its file and node.

Source: [chakra_schema].
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any, Final

from podsim.chakra.messages import COLLECTIVE_TYPES, NODE_TYPES, message_class, unframed
from podsim.chakra.unroll import MOST_NODES
from podsim.chakra.write import GROUPS, OWN, TYPES
from podsim.errors import PodsimError
from podsim.escaped import line
from podsim.program import recorded
from podsim.program.recorded import Kind, Node, Recorded
from podsim.user_file import content_of

_FILE: Final = re.compile(r"(.+)\.(\d{1,6})\.et")
_KINDS: Final[Mapping[str, Kind]] = {**{name: kind for kind, name in TYPES.items()}, "METADATA": recorded.COMPUTE}
_COLLECTIVES: Final = {"REDUCE_SCATTER_BLOCK": "reduce_scatter"}
_LARGEST: Final = 2**30
"""Largest file that is read. [B]"""
_FEWER: Final = "record fewer iterations"
_GZIP: Final = b"\x1f\x8b"
_PS_PER_US: Final = 10**6
_CPU: Final = "cpu"


def read_chakra(folder: str | Path) -> Recorded:
    """Read the traces of all ranks, `PREFIX.0.et` and so on, compressed or not, and the groups beside them."""
    files = _files(Path(folder))
    groups = _groups(Path(folder), len(files))
    ranks, count = [], 0
    for path in files:
        ranks.append(_rank(path, groups, MOST_NODES - count))
        count += len(ranks[-1])
    return Recorded(tuple(ranks), groups, tuple(map(str, files)))


def _files(folder: Path) -> list[Path]:
    """Return the files of a trace, one for each rank, in the order of ranks."""
    if not folder.is_dir():
        what, do = "is not a folder", "give the folder that holds PREFIX.0.et, PREFIX.1.et and so on"
        raise PodsimError(what, where=str(folder), do=do)
    found: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := _FILE.fullmatch(path.name):
            found.setdefault(match[1], {})[int(match[2])] = path
    if len(found) != 1:
        what = f"holds traces of {len(found)} runs" if found else "holds no execution trace"
        raise PodsimError(what, where=str(folder), do="put the files of one run there: PREFIX.0.et, PREFIX.1.et, …")
    ((prefix, files),) = found.items()
    missing = next((rank for rank in range(len(files)) if rank not in files), None)
    if missing is not None:
        what = f"rank {missing} is missing: there is no {line(prefix)}.{missing}.et, but one of rank {max(files)}"
        raise PodsimError(what, where=str(folder), do="add it; ranks are counted from 0 without a gap")
    return [files[rank] for rank in range(len(files))]


def _groups(folder: Path, count: int) -> dict[str, tuple[int, ...]]:
    """Ranks of each group; the one without a name has all."""
    everybody = {"": tuple(range(count))}
    files = [folder / GROUPS] if (folder / GROUPS).is_file() else sorted(folder.glob("*.json"))
    if not files:
        return everybody
    do = 'write the ranks of each group: {"0": [0, 1], "1": [2, 3]}'
    if len(files) > 1:
        what = f"several JSON files, and none is called {GROUPS}"
        raise PodsimError(what, where=str(folder), do=f"call the one with the groups of ranks {GROUPS}")
    try:
        found = json.loads(_bytes(files[0]))
    except (ValueError, RecursionError):
        raise PodsimError("is not valid JSON", where=str(files[0]), do=do) from None
    if not isinstance(found, dict):
        raise PodsimError("is not an object of groups", where=str(files[0]), do=do)
    for name, ranks in found.items():
        whole = isinstance(ranks, list) and ranks and all(type(rank) is int and 0 <= rank < count for rank in ranks)
        if not whole or len(set(ranks)) < len(ranks):
            what = f"group `{line(name)}` is not a list of different ranks from 0 to {count - 1}"
            raise PodsimError(what, where=str(files[0]), do=do)
    return {name: tuple(ranks) for name, ranks in found.items()} | everybody


def _bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzip."""
    data = content_of(path, _LARGEST, "name a folder of traces", smaller=_FEWER)
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.open(BytesIO(data)) as file:
            data = file.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error):
        what = "cannot be read: it is cut off, or not what its first bytes say"
        raise PodsimError(what, where=str(path), do="copy the file again") from None
    if len(data) > _LARGEST:
        what = f"has more than {_LARGEST:,} bytes"
        raise PodsimError(what, where=str(path), do=_FEWER)
    return data


def _rank(path: Path, groups: Mapping[str, tuple[int, ...]], most: int) -> tuple[Node, ...]:
    """Return the nodes of a file."""
    kinds = message_class("GlobalMetadata"), message_class("Node")
    from google.protobuf.message import DecodeError

    nodes: dict[int, Node] = {}
    at, do = 0, "record it again; a trace is a GlobalMetadata and then Nodes, each after its length"
    try:
        for number, (begin, data) in enumerate(unframed(_bytes(path))):
            at = begin
            message = kinds[number > 0].FromString(data)
            if number == 0:
                continue
            if message.id in nodes:
                what = f"there are two nodes {message.id}"
                raise PodsimError(what, where=f"{path}: node {message.id}", do="give each a number of its own")
            nodes[message.id] = _node(message, f"{path}: node {message.id}", groups)
            if len(nodes) > most:
                what = f"all files together have more than {MOST_NODES:,} nodes"
                raise PodsimError(what, where=str(path), do="record fewer iterations")
        if not nodes:
            raise ValueError("the file has no nodes")
    except DecodeError:
        raise PodsimError(f"the message from byte {at} on is no node", where=str(path), do=do) from None
    except ValueError as error:
        raise PodsimError(str(error), where=str(path), do=do) from None
    return tuple(nodes.values())


def _node(message: Any, where: str, groups: Mapping[str, tuple[int, ...]]) -> Node:
    """Return a node with the fields that its kind needs."""
    kind_name = NODE_TYPES[message.type] if 0 <= message.type < len(NODE_TYPES) else str(message.type)
    if kind_name not in _KINDS:
        known = kind_name in NODE_TYPES
        what = f"a node of type {kind_name} has no meaning on a pod" if known else f"there is no node type {kind_name}"
        raise PodsimError(what, where=where, do=f"use one of {', '.join(_KINDS)}")
    values = {each.name: getattr(each, each.WhichOneof("value") or "name") for each in message.attr}

    def number(key: str, default: int | None = None, least: int = 0) -> int:
        value = values.get(key, default)
        if value is None:
            raise PodsimError(f"a node of type {kind_name} needs the attribute {key}", where=where, do="add it")
        if not isinstance(value, int) or value < least:
            what = f"attribute {key} is {line(str(value))}"
            raise PodsimError(what, where=where, do=f"give a whole number from {least} on")
        return value

    kind = _KINDS[kind_name]
    own = f"{OWN}duration_ps"
    size, peer, tag, collective, group = 0, -1, 0, "", ""
    if kind in (recorded.COMPUTE, recorded.LOAD, recorded.STORE):
        size = number("tensor_size", 0 if kind == recorded.COMPUTE else None)
    elif kind == recorded.COLLECTIVE:
        collective, group = _collective(number("comm_type"), values, where, groups)
        if collective != recorded.BARRIER:
            size = number("comm_size")
        if collective in recorded.GATHERED:
            size *= len(groups[group])
    else:
        size, tag = number("comm_size"), number("comm_tag", 0)
        peer = number("comm_dst" if kind == recorded.SEND else "comm_src")
    whole, operations = values.get(f"{OWN}whole_bytes"), number("num_ops", 0)
    timed = own in values or message.duration_micros or not (operations or size) or kind_name == "METADATA"
    return Node(
        message.id,
        message.name,
        kind,
        tuple(dict.fromkeys((*message.ctrl_deps, *message.data_deps))),
        number(f"{OWN}start_ps", message.start_time_micros * _PS_PER_US),
        number(own, message.duration_micros * _PS_PER_US) if timed else None,
        size_bytes=whole if isinstance(whole, float) and 0 <= whole < inf else size,
        operations=operations,
        peer=peer,
        tag=tag,
        collective=collective,
        group=group,
        tensor_count=number(f"{OWN}tensor_count", 1, 1),
        lane=_lane_of(values),
        of_shards=values.get(f"{OWN}of_shards") is True,
    )


def _collective(
    number: int, values: Mapping[str, Any], where: str, groups: Mapping[str, tuple[int, ...]]
) -> tuple[str, str]:
    """Return the kind and the group of a collective."""
    name = COLLECTIVE_TYPES[number] if number < len(COLLECTIVE_TYPES) else ""
    if not name:
        what = f"there is no collective of type {number}"
        raise PodsimError(what, where=where, do=f"use 0 to {len(COLLECTIVE_TYPES) - 1}: {', '.join(COLLECTIVE_TYPES)}")
    group = str(values.get("pg_name", values.get("comm_group", "")))
    if group and group not in groups:
        what = f"group `{line(group)}` is not listed"
        raise PodsimError(what, where=where, do=f"list its ranks in {GROUPS} beside the traces")
    return _COLLECTIVES.get(name, name.lower()), group


def _lane_of(values: Mapping[str, Any]) -> str:
    """Return the lane of a node within its rank; a processor's work has a lane of its own."""
    lane = values.get(f"{OWN}lane", "")
    return str(lane) if lane else _CPU if values.get("is_cpu_op") is True else ""
