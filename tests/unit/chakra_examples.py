"""Two IPUs in four stretches, by hand, and a reader of Chakra files that knows nothing of podsim.

ipu0  0..10 forward, 10..14 sends 1,000 B             waits for ipu1              25..28 reduce-scatter
ipu1  waits for ipu0            14..20 loads 600 B, 20..25 backward (and 1 ps)    25..28 reduce-scatter
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from podsim.program.task import Barrier, Collective, Exchange, Group, Phase, Program, Transfer, Work

US = 10**6
SUM = Exchange((Transfer("chunk", "all_reduce", (), 3 * US),), Collective("reduce_scatter", (0, 1), 2001.0, 2, 1))
PROGRAM = Program(
    (
        Group(
            "replica0",
            ("ipu0", "ipu1"),
            (
                Phase(
                    "fill",
                    1,
                    {
                        "ipu0": (
                            Work("forward", (("matmul", 7 * US), ("vector", 3 * US))),
                            Exchange((Transfer("acts", "inter_ipu", (("rail", 4 * US),), size=1000, receiver="ipu1"),)),
                        )
                    },
                    "bubble",
                ),
                Phase(
                    "main",
                    1,
                    {
                        "ipu1": (
                            Exchange((Transfer("weights", "streaming", (("ipu1/streaming/read", 6 * US),), size=600),)),
                            Work("backward", (("matmul", 5 * US + 1),)),
                        )
                    },
                    "bubble",
                ),
                Phase("ring", 1, dict.fromkeys(("ipu0", "ipu1"), (SUM, Barrier("ring", "all_reduce"))), "update_wait"),
            ),
        ),
    )
)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and the place behind it."""
    value = shift = 0
    while True:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of a message: varints, 8 bytes, or bytes behind their length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        match tag & 7:
            case 0:
                value, at = varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                length, at = varint(data, at)
                yield tag >> 3, data[at : at + length]
                at += length


def messages(path: Path) -> Iterator[list[tuple[int, int | bytes]]]:
    """Fields of each message of a file."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        length, at = varint(data, at)
        yield list(fields(data[at : at + length]))
        at += length


def attributes(message: list[tuple[int, int | bytes]]) -> dict[str, int | bytes]:
    """Values of attributes (field 10) by name (field 1)."""
    found: dict[str, int | bytes] = {}
    for inner in (list(fields(value)) for number, value in message if number == 10 and isinstance(value, bytes)):
        name = next(value for number, value in inner if number == 1)
        assert isinstance(name, bytes)
        found[name.decode()] = next((value for number, value in inner if number != 1), 0)
    return found
