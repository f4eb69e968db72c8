"""The messages of a Chakra execution trace, described here so that no compiler of protobuf is needed.

Fields that podsim neither writes nor reads are left out: protobuf keeps and ignores them.

Source: [chakra_schema].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from podsim.packages import optional

VERSION: Final = "0.0.4"
NODE_TYPES: Final = (
    *("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL"),
    *("STORAGE", "BATCH", "CHECKPOINT"),
)
COLLECTIVE_TYPES: Final = (
    *("ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER"),
    *("REDUCE_SCATTER_BLOCK", "BARRIER"),
)
"""Names by the numbers that stand for them."""
_PACKAGE: Final = "ChakraProtoMsg"
_SCALARS: Final = {
    "double": (3, 1),
    "float": (5, 2),
    "int32": (7, 5),
    "int64": (9, 3),
    "uint32": (11, 13),
    "uint64": (13, 4),
    "sint32": (15, 17),
    "sint64": (17, 18),
    "fixed32": (19, 7),
    "fixed64": (21, 6),
    "sfixed32": (23, 15),
    "sfixed64": (25, 16),
    "bool": (27, 8),
    "string": (29, 9),
}
"""Values of attributes: number of the field, and of its type in a description."""
_FIELDS: Final = {
    "GlobalMetadata": (("version", 1, 9, False, ""), ("attr", 2, 11, True, "AttributeProto")),
    "Node": (
        ("id", 1, 4, False, ""),
        ("name", 2, 9, False, ""),
        ("type", 3, 5, False, ""),  # an enumeration is sent as a whole number
        ("ctrl_deps", 4, 4, True, ""),
        ("data_deps", 5, 4, True, ""),
        ("start_time_micros", 6, 4, False, ""),
        ("duration_micros", 7, 4, False, ""),
        ("attr", 10, 11, True, "AttributeProto"),
    ),
}
_LONGEST: Final = 2**26
"""Of a message; a longer one is no node. [B]"""
_VARINT_BITS: Final = 7
_VARINT_BYTES: Final = 5


@cache
def message_class(name: str) -> Any:
    """`GlobalMetadata`, `Node` or `AttributeProto`."""
    optional("google.protobuf", "Chakra traces need")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="podsim_chakra.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _FIELDS.items():
        made = file.message_type.add(name=message)
        for field, number, kind, repeated, of in fields:
            one = made.field.add(name=field, number=number, type=kind, label=3 if repeated else 1)
            if of:
                one.type_name = f".{_PACKAGE}.{of}"
    attribute = file.message_type.add(name="AttributeProto")
    attribute.field.add(name="name", number=1, type=9, label=1)
    attribute.oneof_decl.add(name="value")
    for field, (number, kind) in _SCALARS.items():
        attribute.field.add(name=f"{field}_val", number=number, type=kind, label=1, oneof_index=0)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def framed(messages: Iterable[Any]) -> bytes:
    """Messages one after the other, each behind its length."""
    parts: list[bytes] = []
    for message in messages:
        data = message.SerializeToString()
        parts += (_varint(len(data)), data)
    return b"".join(parts)


def unframed(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each message with the offset at which it begins."""
    at = 0
    while at < len(data):
        begin, length, shift = at, 0, 0
        while True:
            if at == len(data) or at - begin == _VARINT_BYTES:
                raise ValueError(f"byte {begin} begins no length of a message")
            byte = data[at]
            length |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + _VARINT_BITS
            if byte < 0x80:
                break
        if length > _LONGEST:
            raise ValueError(f"byte {begin} begins a message of {length:,} bytes, and none has more than {_LONGEST:,}")
        if at + length > len(data):
            raise ValueError(f"the message of {length:,} bytes from byte {begin} on is cut off")
        yield begin, data[at : at + length]
        at += length


def _varint(number: int) -> bytes:
    """Return an integer as a varint: seven bits in a byte, the lowest first.

    >>> _varint(300).hex()
    'ac02'
    """
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= _VARINT_BITS
    return bytes((*found, number))
