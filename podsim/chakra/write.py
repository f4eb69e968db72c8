"""Chakra execution traces of a result: one file a rank, and the groups of ranks in a JSON file beside.

Times are whole microseconds there; the exact ones stand in attributes that begin with `podsim_`, with the number of
tensors and the lane of a rank, which other readers ignore.

Source: [chakra_schema].
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from podsim.chakra.messages import COLLECTIVE_TYPES, NODE_TYPES, VERSION, framed, message_class
from podsim.chakra.unroll import unrolled
from podsim.errors import MissingDataError, OutputError
from podsim.program import recorded
from podsim.program.recorded import Kind, Node, Recorded
from podsim.result.base import Result
from podsim.result.files import check_writable, write_atomically

GROUPS: Final = "comm_groups.json"
OWN: Final = "podsim_"
TYPES: Final[Mapping[Kind, str]] = {
    recorded.COMPUTE: "COMP",
    recorded.LOAD: "MEM_LOAD",
    recorded.STORE: "MEM_STORE",
    recorded.SEND: "COMM_SEND",
    recorded.RECEIVE: "COMM_RECV",
    recorded.COLLECTIVE: "COMM_COLL",
}
_PS_PER_US: Final = 10**6
_Value = tuple[str, object]


def write_chakra(result: Result, folder: str | Path) -> int:
    """Write what a result's IPUs did as Chakra execution traces, `NAME.0.et` and so on, one a rank."""
    if result.program is None:
        do = "simulate with `record=True` and write that result"
        raise MissingDataError("this result has no timeline", where=str(folder), do=do)
    check_folder(folder)
    graph, makespan_ps = unrolled(result.program(), result.passes)
    about = {"scenario": result.name, "podsim": result.version, "system": result.simulated.machine}
    target = Path(folder)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        what = f"cannot be made: {error.strerror or type(error).__name__}"
        raise OutputError(what, where=str(folder), do="give a folder that can be written") from error
    groups = {str(number): name for number, name in enumerate(graph.groups)}
    names = {name: number for number, name in groups.items()}
    prefix = Path(result.name).name.removesuffix(".yaml").removesuffix(".yml")
    for rank, nodes in enumerate(graph.ranks):
        data = _file(nodes, graph, names, about | {"rank": str(rank), "makespan_ps": str(makespan_ps)})
        write_atomically(target / f"{prefix}.{rank}.et", data)
    listed = {number: list(graph.groups[name]) for number, name in groups.items()}
    write_atomically(target / GROUPS, f"{json.dumps(listed, indent=0)}\n".encode())
    return sum(map(len, graph.ranks))


def check_folder(folder: str | Path) -> None:
    """Refuse a folder that cannot be written, or that has traces, which a reader would take for ranks of this run."""
    message_class("Node")
    target = Path(folder)
    if target.is_dir():
        if any(target.glob("*.et")):
            what = "the folder has execution traces already"
            raise OutputError(what, where=str(folder), do="give another folder, or empty this one")
        check_writable(target / GROUPS)
    else:
        check_writable(target)


def _file(nodes: tuple[Node, ...], graph: Recorded, names: Mapping[str, str], about: Mapping[str, str]) -> bytes:
    """Return the content of a rank's file."""
    metadata = message_class("GlobalMetadata")(version=VERSION)
    for key, text in about.items():
        metadata.attr.add(name=f"{OWN}{key}", string_val=text)
    return framed([metadata, *(_message(node, graph, names) for node in nodes)])


def _message(node: Node, graph: Recorded, names: Mapping[str, str]) -> Any:
    duration_ps = node.duration_ps or 0
    end_us = (node.start_ps + duration_ps) // _PS_PER_US
    start_us = node.start_ps // _PS_PER_US
    message = message_class("Node")(
        id=node.number,
        name=node.name,
        type=NODE_TYPES.index(TYPES[node.kind]),
        data_deps=node.after,
        start_time_micros=start_us,
        duration_micros=end_us - start_us,
    )
    message.attr.add(name="is_cpu_op", bool_val=False)
    for name, (kind, value) in _attributes(node, graph, names):
        message.attr.add(name=name, **{f"{kind}_val": value})
    message.attr.add(name=f"{OWN}start_ps", uint64_val=node.start_ps)
    message.attr.add(name=f"{OWN}duration_ps", uint64_val=duration_ps)
    if node.lane:
        message.attr.add(name=f"{OWN}lane", string_val=node.lane)
    if node.tensor_count != 1:
        message.attr.add(name=f"{OWN}tensor_count", uint64_val=node.tensor_count)
    return message


def _attributes(node: Node, graph: Recorded, names: Mapping[str, str]) -> Iterator[tuple[str, _Value]]:
    """Yield the attributes that readers need for each kind of node."""
    size = round(node.size_bytes)
    match node.kind:
        case recorded.COMPUTE:
            yield "num_ops", ("int64", node.operations)
            yield "tensor_size", ("uint64", size)
        case recorded.LOAD | recorded.STORE:
            yield "tensor_size", ("uint64", size)
        case recorded.SEND | recorded.RECEIVE:
            yield "comm_size", ("int64", size)
            yield "comm_tag", ("int32", node.tag)
            yield ("comm_dst" if node.kind == recorded.SEND else "comm_src"), ("int32", node.peer)
        case recorded.COLLECTIVE:
            parts = len(graph.members(node)) if node.collective in recorded.GATHERED else 1
            yield "comm_type", ("int64", COLLECTIVE_TYPES.index(node.collective.upper()))
            yield "comm_size", ("int64", round(node.size_bytes / parts))
            yield "pg_name", ("string", names[node.group])
            yield f"{OWN}whole_bytes", ("double", node.size_bytes)
            if node.of_shards:
                yield f"{OWN}of_shards", ("bool", True)
