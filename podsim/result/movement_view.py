"""What a transfer or a collective costs, for a reader and for a program; what moves is imported when it is asked."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from podsim.errors import BadValueError, PodsimError
from podsim.options import Half, Over
from podsim.report.table import Cell, Column, Table
from podsim.result.cost import Cost, ranged, ranges_of
from podsim.units import format_bytes, format_significant, parse_quantity

if TYPE_CHECKING:
    from podsim.program.movement import Collective, Fabric, Movement
    from podsim.scenario import Software, System

_MICRO, _GIGA = 1e-6, 1e9
_LOADS = (4, 8, 16)
_CHIPS = ("tile", "ipus")
_MEASURED = "GC2"
_IPU = re.compile(r"ipu(\d{1,5})")
_ENDS = "`tile`, `ipu0` with the number of a chip, `ipus`, `random`, `host`, `memory` or `local`"


@dataclass(frozen=True, slots=True, repr=False)
class MovementCost(Cost):
    """A transfer or a collective, with nothing else on the machine.

    Attributes:
        what: Which, in words.
        fabric: What takes part.
        byte_count: Of a tile; see `cost_transfer` and `cost_collective`. [B]
        movement: What moves, and its time by cause.
        held_bytes: What the fullest tile holds in the end. [B]
        sigma: Standard deviation of the logarithm of predicted over measured time.
    """

    what: str
    fabric: Fabric
    byte_count: float
    movement: Movement
    held_bytes: float
    sigma: float

    @property
    def time_s(self) -> float:
        """From start to end. [s]"""
        return self.movement.time_s

    @property
    def bytes_per_s(self) -> float:
        """What arrives at all receivers together over the time. [B/s]"""
        return self.movement.bytes_per_s

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        from podsim.scenario.hardware import given

        return {
            "what": self.what,
            "ipu": self.fabric.ipu.name,
            "ipus": self.fabric.ipu_count,
            "tiles": self.fabric.tile_count,
            "system": given(self.fabric.system).name,
            "bytes_per_tile": self.byte_count,
            "moved_bytes": self.movement.moved_bytes,
            "fullest_tile_bytes": self.held_bytes,
            "cycles": self.time_s * self.fabric.ipu.clock_hz,
            "time_s": self.time_s,
            "bytes_per_s": self.bytes_per_s,
            "ranges": ranges_of(self.sigma, time_s=self.time_s, bytes_per_s=self.bytes_per_s),
            "bound": self.movement.bound,
            "breakdown_s": {name: time_s for name, time_s in self.movement.parts if time_s},
        }

    def _title(self) -> str:
        chips, tiles = self.fabric.ipu_count, self.fabric.tile_count
        where = f"{tiles} tile{'s' if tiles > 1 else ''} of {f'each of {chips}' if chips > 1 else 'one'}"
        return f"{self.what}, {self.byte_count:,.10g} B of a tile, {where} {self.fabric.ipu.name}"

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "time", ranged(self.time_s / _MICRO, self.sigma, format_significant, "us")
        rate = self.bytes_per_s / _GIGA
        yield "bandwidth", ranged(rate, self.sigma, format_significant, "GB/s", " over all receivers")
        yield "bound by", self.movement.bound
        memory = self.fabric.ipu.tile.memory_bytes
        if self.held_bytes > memory:
            yield "does not fit", f"a tile would hold {format_bytes(self.held_bytes)}; it has {format_bytes(memory)}"

    def _parts(self) -> Table:
        known = [(name, time_s) for name, time_s in self.movement.parts if time_s]
        rows = [(name, Cell(f"{time_s / _MICRO:,.3f}", time_s)) for name, time_s in known]
        return Table((Column("cause"), Column("us", is_number=True, unit="s")), rows)


def cost_collective(
    name: Collective,
    byte_count: str | float = 4,
    *,
    ipus: int = 1,
    tiles: int | None = None,
    over: Over | None = None,
    between: str | Sequence[int] | None = None,
    others: bool = False,
    dtype: Half = "fp32",
    system: str | System = "ipu_pod16",
    software: str | Software = "popart_sdk_2.5",
) -> MovementCost:
    """Show what a collective costs with nothing else on the machine.

    Args:
        name: Which: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `broadcast`, `gather`, `scatter` or
            `reduce`.
        byte_count: Of each tile: what it holds before a sum or an all-gather, what it sends to each other tile in an
            all-to-all, what the root sends to all or to each, or receives from each: `4`, or `40 kB`. [B]
        ipus: Chips that take part, the first ones of the pod, unless they are named.
        tiles: Tiles of each chip; all if left out.
        over: All tiles with all, or with those of their number on other chips, as in replicated tensors, which is meant
            with several chips if left out. Others than all-reduce, all-gather and reduce-scatter are always over tiles,
            as all are on one chip.
        between: Numbers of the chips that take part, in place of `ipus`: `0,5`; the root is on the first.
        others: Of the chip of a root, only the root takes part in a `broadcast`, `gather` or `scatter`.
        dtype: Format of what is summed.
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
    from podsim.result.evidence import residuals
    from podsim.scenario import Software, load_hardware

    if name not in COLLECTIVES:
        raise PodsimError(f"`{name}` is no collective", do=f"use one of: {', '.join(COLLECTIVES)}")
    if dtype not in ("fp16", "fp32"):
        raise PodsimError(f"`{dtype}` cannot be summed", where="--dtype", do="use fp16 or fp32")
    if over not in (None, "tiles", "ipus"):
        raise PodsimError(f"`{over}` is not known", where="--over", do="use tiles or ipus")
    chips = tuple(range(ipus)) if between is None else _numbers(between)
    over_ipus = len(chips) > 1 and name in OVER_IPUS and over != "tiles"
    fabric = _fabric(system, chips, tiles, joined=not over_ipus)
    byte_count = _bytes(byte_count)
    if byte_count != int(byte_count) or (fabric.all_tiles == 1 and name not in SUMS):
        what = f"`{byte_count:g}` bytes of {fabric.all_tiles} tile{'s' * (fabric.all_tiles > 1)} are no {name}"
        raise PodsimError(what, where="--bytes", do="use a whole number of bytes, and two tiles or more")
    what = f"{name}{f' of {dtype}' if name in SUMS else ''} over {'chips' if over_ipus else 'tiles'}"
    if over_ipus:
        stack = load_hardware(software, "software")[0] if isinstance(software, str) else software
        assert isinstance(stack, Software)
        _check_domains(fabric)
        movement = fabric.over_chips(name, int(byte_count), stack)
        what += f" with {stack.name}"
    else:
        if others and (len(chips) == 1 or name not in ROOTED):
            what = f"a {name} of {len(chips)} IPU{'s' * (len(chips) > 1)} has no root with others"
            raise PodsimError(what, where="--others", do="use broadcast, gather or scatter, and two IPUs or more")
        movement = replace(fabric, others=others).collective(name, int(byte_count), dtype)
    held = byte_count
    if name in ("all-gather", "all-to-all", "gather", "scatter"):
        held *= fabric.ipu_count if over_ipus else fabric.all_tiles
    is_measured = fabric.ipu.name == _MEASURED and not over_ipus
    sigma = residuals().of_kernel("collective" if is_measured else f"collective of {fabric.ipu.name}")
    return MovementCost(what, fabric, byte_count, movement, held, sigma)


def cost_transfer(
    byte_count: str | float = 4,
    source: str = "tile",
    target: str = "tile",
    *,
    ipus: int = 1,
    tiles: int | None = None,
    both_ways: bool = False,
    load_bytes: int = 16,
    system: str | System = "ipu_pod16",
) -> MovementCost:
    """Show what a transfer costs: between tiles, chips, host and chips, or with streaming memory.

    Args:
        byte_count: Of each tile: `4`, or `40 kB`. [B]
        source: `tile`, `ipu0` with the number of a chip in the pod, `ipus`, `host`, `memory` for streaming memory, or
            `local` for loads of a tile from its own memory.
        target: The same; `random` is a tile of the other half of the chips, another for each sender.
        ipus: Chips that take part, the first ones of the pod, unless two are named.
        tiles: Tiles of each; if left out one between tiles, and all otherwise.
        both_ways: As much goes back at the same time, between two chips.
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
    from podsim.result.evidence import residuals

    byte_count = _bytes(byte_count)
    if load_bytes not in _LOADS:
        raise PodsimError(f"a load of `{load_bytes}` bytes is not known", where="--load", do="use 4, 8 or 16")
    between = (source, target) == ("tile", "tile")
    first, last = (int(match[1]) if (match := _IPU.fullmatch(end)) else None for end in (source, target))
    count = 2 if first is not None and last is not None else ipus
    fabric = _fabric(system, tuple(range(count)), 1 if between and tiles is None else tiles)
    if between:
        movement = fabric.between_tiles(byte_count, fabric.tile_count)
    elif first is not None and last is not None:
        _check_chips(fabric, first, last)
        movement = fabric.between_ipus(byte_count, first, last, both_ways=both_ways)
    elif source in _CHIPS and target == "random" and count > 1:
        movement = fabric.across(byte_count)
    elif (source == "host" and target in _CHIPS) or (source in _CHIPS and target == "host"):
        movement = fabric.with_host(byte_count)
    elif (source == "memory" and target in _CHIPS) or (source in _CHIPS and target == "memory"):
        _check_memory(fabric, byte_count)
        movement = fabric.with_memory(byte_count, "read" if source == "memory" else "write")
    elif source == "local" and target in ("tile", "local"):
        movement = fabric.read(byte_count, load_bytes)
    else:
        what = f"nothing is known of a transfer from `{source}` to `{target}` with {ipus} IPUs"
        raise PodsimError(
            what,
            where="--from",
            do=f"use {_ENDS}; from or to `host` and `memory` it is `ipus`; `random` needs two IPUs",
        )
    if both_ways and (first is None or last is None):
        what = f"only two chips send both ways, not `{source}` and `{target}`"
        raise PodsimError(what, where="--both-ways", do="leave it out, or use for example `ipu0` and `ipu1`")
    what = f"transfer from {source}" + ("" if source == "local" else f" to {target}") + ", both ways" * both_ways
    is_measured = fabric.ipu.name == _MEASURED and source != "memory" and target not in ("host", "memory")
    sigma = residuals().of_kernel("transfer" if is_measured else f"transfer of {fabric.ipu.name}")
    return MovementCost(what, fabric, byte_count, movement, byte_count, sigma)


def _fabric(system: str | System, chips: tuple[int, ...], tiles: int | None, *, joined: bool = True) -> Fabric:
    """Tiles of some chips, which IPU-Links join or not."""
    from podsim.program.movement import Fabric
    from podsim.scenario import System, load_hardware

    pod = load_hardware(system, "pod")[0] if isinstance(system, str) else system
    assert isinstance(pod, System)
    chip = pod.machine.ipu
    most = pod.domain_ipu_count if joined else pod.ipu_count
    if not chips or len(set(chips)) < len(chips) or not 0 <= min(chips) <= max(chips) < most:
        numbers = f"IPUs {min(chips)} to {max(chips)}" if chips else "no IPUs"
        joined_in = f"{most} that IPU-Links join in" if joined else f"{most} of"
        what = f"{numbers} are not so many different ones of the {joined_in} {pod.name}"
        raise PodsimError(what, where="--ipus", do="use others, fewer, or a larger pod: `--system`")
    if tiles is not None and not 1 <= tiles <= chip.tile.count:
        what = f"{tiles} tiles are not from 1 to the {chip.tile.count} of {chip.name}"
        raise PodsimError(what, where="--tiles", do="use fewer, or leave it out for all")
    return Fabric(chip, tiles or chip.tile.count, chips, pod)


def _check_domains(fabric: Fabric) -> None:
    """As many chips of the same places in each link domain."""
    from podsim.scenario.hardware import given

    system = given(fabric.system)
    size = system.domain_ipu_count
    places = defaultdict[int, list[int]](list)
    for chip in fabric.chips:
        places[chip // size].append(chip % size)
    if len({len(each) for each in places.values()}) > 1:
        what = f"{len(fabric.chips)} IPUs do not lie evenly in {len(places)} link domains of {size} of {system.name}"
        raise PodsimError(what, where="--ipus", do="take as many of each")


def _numbers(chips: str | Sequence[int]) -> tuple[int, ...]:
    """Numbers of chips.

    >>> _numbers("0,5")
    (0, 5)
    """
    if not isinstance(chips, str):
        return tuple(chips)
    numbers = [each.strip() for each in chips.split(",")]
    if not all(each.isdecimal() for each in numbers):
        raise PodsimError(f"`{chips}` are no numbers of chips", where="--between", do="write for example `0,5`")
    return tuple(map(int, numbers))


def _bytes(given: str | float) -> float:
    """A number of bytes, with a unit or without.

    >>> _bytes("4"), _bytes("40 kB")
    (4, 40000)
    """
    try:
        count = int(given if given.isdecimal() else parse_quantity(given, "bytes")) if isinstance(given, str) else given
    except BadValueError as error:
        raise PodsimError(str(error), where="--bytes", do="write for example `4` or `40 kB`") from None
    if not 0 < count <= _GIGA:
        raise PodsimError(f"`{count:g}` bytes are not from 1 to 1e9", where="--bytes", do="write for example `4`")
    return count


def _check_memory(fabric: Fabric, byte_count: float) -> None:
    from podsim.scenario.hardware import given

    machine, need = given(fabric.system).machine, byte_count * fabric.tile_count
    capacity = machine.streaming_memory.capacity_per_ipu_bytes
    if need > capacity:
        what = (
            f"an IPU moves {format_bytes(need)}; its streaming memory on {machine.name} holds {format_bytes(capacity)}"
        )
        raise PodsimError(what, where="--bytes", do="move less, or use a system with streaming memory: `--system`")


def _check_chips(fabric: Fabric, first: int, last: int) -> None:
    assert fabric.system is not None
    most = fabric.system.domain_ipu_count
    if first == last or max(first, last) >= most:
        what = f"IPU {first} and IPU {last} are not two of the {most} that IPU-Links join in {fabric.system.name}"
        raise PodsimError(what, where="--to", do=f"use two numbers from 0 to {most - 1}")
