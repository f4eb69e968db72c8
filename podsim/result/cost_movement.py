"""Answers of `podsim cost` for transfers and collectives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from podsim.errors import BadValueError, PodsimError
from podsim.options import BYTES, SYSTEM, Half, Over, Shell
from podsim.result.cost import Cost, hardware, ranges_of, require, whole_numbers
from podsim.units import format_bytes, parse_quantity

if TYPE_CHECKING:
    from podsim.program.movement import Collective, Participants, TransferTime
    from podsim.scenario import Software, System

_LARGEST_BYTES = 1e9
_CHIPS = ("tile", "ipus")
_MEASURED = "GC2"
_ENDS = "`tile`, `ipu0` with the number of a chip, `ipus`, `random`, `host`, `memory` or `local`"


@dataclass(frozen=True, kw_only=True, repr=False)
class MovementCost(Cost):
    """Predicted time of a transfer or a collective on an idle machine.

    Attributes:
        what: Description of the transfer.
        participants: Participating tiles and chips.
        byte_count: Bytes of a tile; see `cost_transfer` and `cost_collective`. [B]
        movement: Transferred bytes and time by cause.
        held_bytes: Content of the fullest tile at the end. [B]
        bytes_per_s: Bytes that arrive at all receivers, over the time. [B/s]
    """

    what: str
    participants: Participants
    byte_count: float
    movement: TransferTime
    held_bytes: float
    bytes_per_s: float


def cost_collective(
    name: Collective,
    byte_count: Annotated[str | float, BYTES] = 4,
    *,
    ipus: int = 1,
    tiles: int | None = None,
    over: Over | None = None,
    between: str | Sequence[int] | None = None,
    others: bool = False,
    dtype: Half = "fp32",
    system: Annotated[str | System, SYSTEM] = "ipu_pod16",
    software: str | Software = "popart_sdk_2.5",
) -> MovementCost:
    """Show the predicted time of a collective on an idle machine.

    Args:
        name: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `broadcast`, `gather`, `scatter` or `reduce`.
        byte_count: Bytes of each tile, `4` or `40 kB`: content before a sum or an all-gather, data for each other tile
            in an all-to-all, or data that the root sends to or receives from each tile. [B]
        ipus: Number of chips that take part: the first ones of the pod.
        tiles: Tiles of each chip; all if left out.
        over: `tiles` is one collective of all tiles. `ipus` is a collective for each tile number, of the tiles with
            that number on all chips, as in replicated tensors; it is the default with several chips. One chip always
            uses `tiles`, and so do other collectives than all-reduce, all-gather and reduce-scatter.
        between: Numbers of the chips that take part, instead of `ipus`: `0,5`; the root is on the first.
        others: Only the root of its chip takes part in a `broadcast`, `gather` or `scatter`.
        dtype: Format of the summed values.
        system: A pod: ipu_pod16, dss8440, or a file.
        software: The software stack, whose rings join chips.

    Returns:
        Time and rate with their ranges, and time by cause.

    Raises:
        PodsimError: A number, a name or a format is wrong.

    >>> cost = cost_collective("broadcast", 4, system="dss8440")
    >>> f"{cost.time_s * 1e6:.3f} us"
    '0.166 us'
    """
    from podsim.program.movement import COLLECTIVES, OVER_IPUS, ROOTED, SUMS

    require(name in COLLECTIVES, f"`{name}` is no collective", do=f"use one of: {', '.join(COLLECTIVES)}")
    require(dtype in ("fp16", "fp32"), f"`{dtype}` cannot be summed", "--dtype", do="use fp16 or fp32")
    require(over in (None, "tiles", "ipus"), f"`{over}` is not known", "--over", do="use tiles or ipus")
    chips = tuple(range(ipus)) if between is None else whole_numbers(between, ",")
    require(
        between is None or chips != (),
        f"`{between}` are no numbers of chips",
        "--between",
        do="write for example `0,5`",
    )
    count = len(chips)
    over_ipus = count > 1 and name in OVER_IPUS and over != "tiles"
    participants = _participants(system, chips, tiles, joined=not over_ipus)
    byte_count = _bytes(byte_count)
    what = f"`{byte_count:g}` bytes of {participants.all_tiles} tile{'s' * (participants.all_tiles > 1)} are no {name}"
    is_possible = byte_count == int(byte_count) and (participants.all_tiles > 1 or name in SUMS)
    require(is_possible, what, "--bytes", do="use a whole number of bytes, and two tiles or more")
    what = f"{name}{f' of {dtype}' if name in SUMS else ''} over {'chips' if over_ipus else 'tiles'}"
    if over_ipus:
        stack: Software = hardware(software, "software")
        pod: System = hardware(system, "pod")
        size = pod.domain_ipu_count
        domains = Counter(chip // size for chip in chips)
        uneven = f"{count} IPUs do not lie evenly in {len(domains)} link domains of {size} of {pod.name}"
        require(len({*domains.values()}) == 1, uneven, "--ipus", do="take as many of each")
        movement = participants.over_chips(name, int(byte_count), stack)
        what += f" with {stack.name}"
    else:
        rootless = f"a {name} of {count} IPU{'s' * (count > 1)} has no root with others"
        cure = "use broadcast, gather or scatter, and two IPUs or more"
        require(not others or (count > 1 and name in ROOTED), rootless, "--others", do=cure)
        movement = replace(participants, root_alone=others).collective(name, int(byte_count), dtype)
    held = byte_count
    if name in ("all-gather", "all-to-all", "gather", "scatter"):
        held *= participants.ipu_count if over_ipus else participants.all_tiles
    return _cost("collective", what, participants, byte_count, movement, held, is_measured=not over_ipus)


def cost_transfer(
    byte_count: Annotated[str | float, BYTES] = 4,
    source: Annotated[str, Shell(("--from",))] = "tile",
    target: Annotated[str, Shell(("--to",))] = "tile",
    *,
    ipus: int = 1,
    tiles: int | None = None,
    both_ways: bool = False,
    load_bytes: Annotated[int, Shell(("--load",))] = 16,
    system: Annotated[str | System, SYSTEM] = "ipu_pod16",
) -> MovementCost:
    """Show the predicted time of a transfer: between tiles, chips, host and chips, or with streaming memory.

    Args:
        byte_count: Bytes of each tile: `4`, or `40 kB`. [B]
        source: `tile`, `ipu0` with the number of a chip in the pod, `ipus`, `host`, `memory` for streaming memory, or
            `local` for loads of a tile from its own memory.
        target: Receiver, written like the sender; `random` is a different tile for each sender, on the other half of
            the chips.
        ipus: Number of chips that take part: the first ones of the pod, unless two are named.
        tiles: Tiles of each chip; by default one for transfers between tiles, and otherwise all.
        both_ways: Transfer the same amount back at the same time, between two chips.
        load_bytes: Width of a load, for `local`: 4, 8 or 16. [B]
        system: A pod: ipu_pod16, dss8440, or a file.

    Returns:
        Time and rate with their ranges, and time by cause.

    Raises:
        PodsimError: A number or a name is wrong.

    >>> cost = cost_transfer(4, "ipu0", "ipu3", tiles=1, system="dss8440")
    >>> f"{cost.time_s * 1e6:.2f} us"
    '0.79 us'
    """
    byte_count = _bytes(byte_count)
    require(load_bytes in (4, 8, 16), f"a load of `{load_bytes}` bytes is not known", "--load", do="use 4, 8 or 16")
    ends = [re.fullmatch(r"ipu(\d{1,5})", end) for end in (source, target)]
    named = [int(end[1]) for end in ends if end]
    between = (source, target) == ("tile", "tile")
    count = 2 if len(named) == 2 else ipus
    participants = _participants(system, tuple(range(count)), 1 if between and tiles is None else tiles)
    pod: System = hardware(system, "pod")
    inner = {source, target} - {*_CHIPS}  # the end that is not a participating chip
    if between:
        movement = participants.between_tiles(byte_count, participants.tile_count)
    elif len(named) == 2:
        first, last = named
        most = pod.domain_ipu_count
        what = f"IPU {first} and IPU {last} are not two of the {most} that IPU-Links join in {pod.name}"
        require(first != last and max(named) < most, what, "--to", do=f"use two numbers from 0 to {most - 1}")
        movement = participants.between_ipus(byte_count, first, last, both_ways=both_ways)
    elif source in _CHIPS and target == "random" and count > 1:
        movement = participants.across(byte_count)
    elif inner == {"host"} and len({source, target}) == 2:
        movement = participants.with_host(byte_count)
    elif inner == {"memory"} and len({source, target}) == 2:
        need, machine = byte_count * participants.tile_count, pod.machine
        room = machine.streaming_memory.capacity_per_ipu_bytes
        what = f"an IPU moves {format_bytes(need)}; its streaming memory on {machine.name} holds {format_bytes(room)}"
        require(need <= room, what, "--bytes", do="move less, or use a system with streaming memory: `--system`")
        movement = participants.with_memory(byte_count, "read" if source == "memory" else "write")
    elif source == "local" and target in ("tile", "local"):
        movement = participants.read(byte_count, load_bytes)
    else:
        what = f"nothing is known of a transfer from `{source}` to `{target}` with {ipus} IPUs"
        cure = f"use {_ENDS}; from or to `host` and `memory` it is `ipus`; `random` needs two IPUs"
        raise PodsimError(what, where="--from", do=cure)
    what = f"only two chips send both ways, not `{source}` and `{target}`"
    cure = "leave it out, or use for example `ipu0` and `ipu1`"
    require(not both_ways or len(named) == 2, what, "--both-ways", do=cure)
    what = f"transfer from {source}" + ("" if source == "local" else f" to {target}") + ", both ways" * both_ways
    is_measured = source != "memory" and target not in ("host", "memory")
    return _cost("transfer", what, participants, byte_count, movement, byte_count, is_measured=is_measured)


def _participants(
    system: str | System, chips: tuple[int, ...], tiles: int | None, *, joined: bool = True
) -> Participants:
    """Return the participating tiles of some chips; IPU-Links may join the chips."""
    from podsim.program.movement import Participants

    pod: System = hardware(system, "pod")
    chip = pod.machine.ipu
    most = pod.domain_ipu_count if joined else pod.ipu_count
    numbers = f"IPUs {min(chips)} to {max(chips)}" if chips else "no IPUs"
    which = "that IPU-Links join in" if joined else "of"
    what = f"{numbers} are not so many different ones of the {most} {which} {pod.name}"
    is_possible = 0 < len(chips) == len({*chips} & {*range(most)})
    require(is_possible, what, "--ipus", do="use others, fewer, or a larger pod: `--system`")
    what = f"{tiles} tiles are not from 1 to the {chip.tile.count} of {chip.name}"
    is_possible = tiles is None or 1 <= tiles <= chip.tile.count
    require(is_possible, what, "--tiles", do="use fewer, or leave it out for all")
    return Participants(chip, tiles or chip.tile.count, chips, pod)


def _cost(
    kind: str,
    what: str,
    participants: Participants,
    byte_count: float,
    movement: TransferTime,
    held: float,
    *,
    is_measured: bool,
) -> MovementCost:
    """Return the cost of a transfer; `is_measured` is True for a kind that was measured on one chip."""
    from podsim.result.evidence import residuals
    from podsim.scenario.hardware import present

    ipu, chips, tiles = participants.ipu, participants.ipu_count, participants.tile_count
    sigma = residuals().kernel_sigma(kind if is_measured and ipu.name == _MEASURED else f"{kind} of {ipu.name}")
    where = f"{tiles} tile{'s' * (tiles > 1)} of {f'each of {chips}' if chips > 1 else 'one'} {ipu.name}"
    time_s, bytes_per_s, memory = movement.time_s, movement.bytes_per_s, ipu.tile.memory_bytes
    cycles = time_s * ipu.clock_hz
    over = f"does not fit: a tile would hold {format_bytes(held)}; it has {format_bytes(memory)}"
    of = {"ipu": ipu.name, "ipus": chips, "tiles": tiles, "system": present(participants.system).name}
    moved = {"cycles": cycles, "moved_bytes": movement.moved_bytes, "fullest_tile_bytes": held, "bound": movement.bound}
    parts = {cause: part_s for cause, part_s in movement.parts if part_s}
    return MovementCost(
        title=f"{what}, {byte_count:,.10g} B of a tile, {where}",
        ipu=ipu,
        cycles=cycles,
        time_s=time_s,
        sigma=sigma,
        asked={"what": what, **of, "bytes_per_tile": byte_count},
        found={**ranges_of(sigma, time_s=time_s, bytes_per_s=bytes_per_s), **moved, "breakdown_s": parts},
        notes=[over] if held > memory else [],
        what=what,
        participants=participants,
        byte_count=byte_count,
        movement=movement,
        held_bytes=held,
        bytes_per_s=bytes_per_s,
    )


def _bytes(given: str | float) -> float:
    """Return a number of bytes, written with or without a unit.

    >>> _bytes("4"), _bytes("40 kB")
    (4, 40000)
    """
    try:
        count = int(given if given.isdecimal() else parse_quantity(given, "bytes")) if isinstance(given, str) else given
    except BadValueError as error:
        raise PodsimError(str(error), where="--bytes", do="write for example `4` or `40 kB`") from None
    is_possible = 0 < count <= _LARGEST_BYTES
    require(is_possible, f"`{count:g}` bytes are not from 1 to 1e9", "--bytes", do="write for example `4`")
    return count
