"""Kinds of time: names, meanings and colours.

Program and engine account each stretch of time under a kind. The order below is the order of every breakdown: work
first, then movement from near to far, then waiting.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from podsim.report.chart import Fill, Shape

COMPUTE: Final = "compute"
ON_CHIP: Final = "on chip"
LINKS: Final = "links"
OFF_CHIP: Final = "off chip"
WAITING: Final = "waiting"
_SHAPES: Final = (Shape.SOLID, Shape.RISING, Shape.CROSSED, Shape.DOTS, Shape.LINES)
FAMILIES: Final = dict(zip((COMPUTE, ON_CHIP, LINKS, OFF_CHIP, WAITING), _SHAPES, strict=True))
"""Families of kinds, with their fill patterns."""


class Kind(NamedTuple):
    """Kind of time; kinds of a family share a hue and differ in lightness, for colour-blind readers."""

    name: str
    label: str
    meaning: str
    family: str
    colour: str


KINDS: Final = (
    Kind("matmul", "matmul", "matrix products on the AMP", COMPUTE, "#08306b"),
    Kind("vector", "vector", "element-wise, softmax, norms", COMPUTE, "#2171b5"),
    Kind("reduction", "reduction", "sums of partial results", COMPUTE, "#5ba3d6"),
    Kind("optimizer", "optimizer", "updating weights", COMPUTE, "#cfe1f2"),
    Kind("exchange", "exchange", "tile to tile, on the chip", ON_CHIP, "#00544a"),
    Kind("rearrange", "rearrange", "changes of tensor layout", ON_CHIP, "#1f9e80"),
    Kind("sync", "sync", "IPUs or tiles meet", ON_CHIP, "#7cc9b2"),
    Kind("superstep", "superstep", "fixed cost of each superstep", ON_CHIP, "#c3e8dc"),
    Kind("inter_ipu", "inter-IPU", "copies between stages", LINKS, "#9c3203"),
    Kind("tensor_parallel", "shard sums", "sums over shards of layers", LINKS, "#c9540a"),
    Kind("all_to_all", "all-to-all", "tokens to experts and back", LINKS, "#d8630d"),
    Kind("all_reduce", "all-reduce", "collectives over replicas", LINKS, "#e6750f"),
    Kind("gw_link", "GW-Link", "traffic between link domains", LINKS, "#fdb96b"),
    Kind("io_gather", "I/O gathers", "I/O tiles gather tensors", LINKS, "#fdd0a2"),
    Kind("contention", "contention", "slowed by other transfers", LINKS, "#fee6ce"),
    Kind("streaming", "streaming", "off-chip memory traffic", OFF_CHIP, "#6a2c86"),
    Kind("host", "host", "calls to and data from hosts", OFF_CHIP, "#c09ad0"),
    Kind("jitter", "jitter", "what calls take by chance", OFF_CHIP, "#e3d0ec"),
    Kind("slowed", "slowed", "what a slow part adds", COMPUTE, "#e9f1f9"),
    Kind("bubble", "bubble", "pipeline fills or flushes", WAITING, "#666666"),
    Kind("imbalance", "imbalance", "waiting for a slower stage", WAITING, "#8c8c8c"),
    Kind("update_wait", "update wait", "while another IPU updates", WAITING, "#aaaaaa"),
    Kind("host_wait", "host wait", "waiting for data from hosts", WAITING, "#c0c0c0"),
    Kind("weights_wait", "weights wait", "waiting for weights", WAITING, "#d0d0d0"),
    Kind("streaming_wait", "streaming wait", "waiting for I/O tiles", WAITING, "#dedede"),
    Kind("idle", "idle", "nothing left to do", WAITING, "#ebebeb"),
)
OTHER: Final = "other"  # sum of kinds that are too short to be shown separately
_OTHERS: Final = Kind(OTHER, OTHER, "kinds below 0.1 % together", WAITING, "#f7f7f7")
_BY_NAME: Final = {kind.name: kind for kind in (*KINDS, _OTHERS)}
_ORDER: Final = [kind.name for kind in KINDS]


def kind_of(name: str) -> Kind:
    """Return the kind called `name`; an unknown name gets a neutral colour.

    >>> kind_of("inter_ipu").label
    'inter-IPU'
    >>> kind_of("debug_print").label
    'debug print'
    """
    return _BY_NAME.get(name) or Kind(name, name.replace("_", " "), "not described", COMPUTE, "#f0d94a")


def fill_of_kind(name: str) -> Fill:
    """Return the fill of a kind of time: the pattern shows its family, the lightness the member."""
    known = kind_of(name)
    return Fill(known.colour, FAMILIES[known.family])


def legend_of_kinds(names: Iterable[str]) -> dict[str, Fill]:
    """Return a legend of kinds of time, in their standard order."""
    return {kind_of(name).label: fill_of_kind(name) for name in in_kind_order(names)}


def in_kind_order(names: Iterable[str]) -> list[str]:
    """Return distinct names in the order of `KINDS`, unknown ones last and by name.

    >>> in_kind_order(["bubble", "zzz", "matmul", "bubble"])
    ['matmul', 'bubble', 'zzz']
    """
    distinct = set(names)
    return [name for name in _ORDER if name in distinct] + sorted(distinct.difference(_ORDER))


def is_waiting(name: str) -> bool:
    """Return True if an IPU neither works nor moves data during this kind of time."""
    return kind_of(name).family == WAITING
