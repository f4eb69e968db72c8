"""What a transfer or a collective costs, for a reader and for a program."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from podsim.errors import PodsimError
from podsim.program.movement import COLLECTIVES, OVER_IPUS, ROOTED, SUMS, Collective, Fabric, Movement
from podsim.report.report import Tile
from podsim.report.table import Cell, Table, columns
from podsim.result.cost import Costed, off_by
from podsim.result.evidence import residuals
from podsim.scenario import System, load_hardware
from podsim.scenario.hardware import given
from podsim.scenario.software import Software
from podsim.units import format_bytes

_POD, _SOFTWARE = "ipu_pod16", "popart_sdk_2.5"
_MICRO, _GIGA = 1e-6, 1e9
_LOADS = (4, 8, 16)
_CHIPS = ("tile", "ipus")
_MEASURED = "GC2"
_IPU = re.compile(r"ipu(\d{1,5})")
_ENDS = "`tile`, `ipu0` with the number of a chip, `ipus`, `random`, `host`, `memory` or `local`"


@dataclass(frozen=True, slots=True, repr=False)
class MovementCost(Costed):
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

    def heading(self) -> str:
        """What moves."""
        return f"{self.what}, {self.byte_count:,.10g} B of a tile"

    @property
    def time_s(self) -> float:
        """From start to end. [s]"""
        return self.movement.time_s

    @property
    def factor(self) -> float:
        """How far its time may be off."""
        return off_by(self.sigma)

    @property
    def bytes_per_s(self) -> float:
        """What arrives at all receivers together over the time. [B/s]"""
        return self.movement.bytes_per_s

    def to_dict(self) -> dict[str, object]:
        """What `--json` prints."""
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
            "ranges": self.ranges(time_s=self.time_s, bytes_per_s=self.bytes_per_s),
            "bound": self.movement.bound,
            "breakdown_s": dict(self._parts()),
        }

    def where(self) -> str:
        """Tiles and chips that take part."""
        chips, tiles = self.fabric.ipu_count, self.fabric.tile_count
        whole = f"each of {chips}" if chips > 1 else "one"
        return f"{tiles} tile{'s' * (tiles > 1)} of {whole} {self.fabric.ipu.name}"

    def figures(self) -> Iterable[Tile]:
        """Bandwidth, what bounds it, and whether a tile holds what arrives."""
        yield self.figure("Bandwidth", self.bytes_per_s / _GIGA, "GB/s over all receivers")
        yield Tile("Bound by", self.movement.bound)
        memory = self.fabric.ipu.tile.memory_bytes
        if self.held_bytes > memory:
            held = f"a tile would hold {format_bytes(self.held_bytes)}; it has {format_bytes(memory)}"
            yield Tile("Does not fit", held)

    def parts(self) -> Table:
        """Time by cause."""
        rows = [(name, Cell(f"{time_s / _MICRO:,.3f}", time_s / _MICRO)) for name, time_s in self._parts()]
        return Table(columns("cause", ">us"), rows)

    def _parts(self) -> list[tuple[str, float]]:
        return [(name, time_s) for name, time_s in self.movement.parts if time_s]


def cost_collective(
    name: Collective,
    byte_count: int,
    *,
    ipus: int = 1,
    tiles: int | None = None,
    system: str | System = _POD,
    dtype: str = "fp32",
    over: str | None = None,
    between: Sequence[int] | None = None,
    others: bool = False,
    software: str | Software = _SOFTWARE,
) -> MovementCost:
    """What a collective costs with nothing else on the machine.

    Args:
        name: Which: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `broadcast`, `gather`, `scatter` or
            `reduce`.
        byte_count: Of a tile: what it holds before a sum or an all-gather, what it sends to each other tile in an
            all-to-all, what the root sends to all or to each, or receives from each. [B]
        ipus: Chips that take part, the first ones of the pod, unless they are named.
        tiles: Tiles of each; all if None.
        system: A pod, or the name or path of one.
        dtype: Format of what is summed: `fp16` or `fp32`.
        over: `tiles` if all tiles of all chips take part with each other; `ipus` if each takes part with those of its
            number on the other chips, as in replicated tensors, which is meant with several chips if None. The others
            than all-reduce, all-gather and reduce-scatter are always over tiles, as all are on one chip.
        between: Numbers of the chips that take part; the root is on the first.
        others: Whether a `broadcast`, `gather` or `scatter` leaves out the other tiles of the root's chip.
        software: A software stack, or the name or path of one, whose rings join chips.

    Raises:
        PodsimError: A number, a name or a format is wrong.

    >>> cost = cost_collective("broadcast", 4, system="dss8440")
    >>> f"{cost.time_s * 1e6:.3f} us"
    '0.166 us'
    """
    if name not in COLLECTIVES:
        raise PodsimError(f"`{name}` is no collective", do=f"use one of: {', '.join(COLLECTIVES)}")
    if dtype not in ("fp16", "fp32"):
        raise PodsimError(f"`{dtype}` cannot be summed", where="--dtype", do="use fp16 or fp32")
    if over not in (None, "tiles", "ipus"):
        raise PodsimError(f"`{over}` is not known", where="--over", do="use tiles or ipus")
    chips = tuple(range(ipus)) if between is None else tuple(between)
    over_ipus = len(chips) > 1 and name in OVER_IPUS and over != "tiles"
    fabric = _fabric(system, chips, tiles, joined=not over_ipus)
    _check_bytes(byte_count)
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
    byte_count: float,
    source: str = "tile",
    target: str = "tile",
    *,
    ipus: int = 1,
    tiles: int | None = None,
    both_ways: bool = False,
    load_bytes: int = 16,
    system: str | System = _POD,
) -> MovementCost:
    """What a transfer costs with nothing else on the machine.

    Args:
        byte_count: Of each tile. [B]
        source: `tile`, `ipu0` with the number of a chip in the pod, `ipus`, `host`, `memory` for streaming memory, or
            `local` for loads of a tile from its own memory.
        target: The same; `random` is a tile of the other half of the chips, another for each sender.
        ipus: Chips that take part, the first ones of the pod, unless two are named.
        tiles: Tiles of each; one between tiles and all otherwise if None.
        both_ways: Whether as much goes the other way at the same time, between two chips.
        load_bytes: Width of a load, for `local`: 4, 8 or 16. [B]
        system: A pod, or the name or path of one.

    Raises:
        PodsimError: A number or a name is wrong.

    >>> cost = cost_transfer(4, "ipu0", "ipu3", tiles=1, system="dss8440")
    >>> f"{cost.time_s * 1e6:.2f} us"
    '0.79 us'
    """
    _check_bytes(byte_count)
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
    system = given(fabric.system)
    size = system.domain_ipu_count
    places = defaultdict[int, list[int]](list)
    for chip in fabric.chips:
        places[chip // size].append(chip % size)
    if len({len(each) for each in places.values()}) > 1:
        what = f"{len(fabric.chips)} IPUs do not lie evenly in {len(places)} link domains of {size} of {system.name}"
        raise PodsimError(what, where="--ipus", do="take as many of each")


def _check_bytes(byte_count: float) -> None:
    if not 0 < byte_count <= _GIGA:
        raise PodsimError(f"`{byte_count:g}` bytes are not from 1 to 1e9", where="--bytes", do="write for example `4`")


def _check_memory(fabric: Fabric, byte_count: float) -> None:
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
