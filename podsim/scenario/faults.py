"""Faults: parts of a pod that are slower than nominal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import Spec
from podsim.scenario.quantity import CountOrZero, Quantity, Real

if TYPE_CHECKING:
    from podsim.scenario.hardware import System
    from podsim.scenario.scenario import Finding

_Share = Annotated[Real, Quantity("share", ("0 %", "100 %"))]
_Time = Annotated[Real, Quantity("s", ("0 s", "1e9 s"))]
_START: Any = "0 s"
SLOWER: Final = {"ipu": "clock", "link": "bandwidth", "machine": "bandwidth", "host": "cores"}
"""Key with the remaining speed of each part."""


class FaultSpec(Spec):
    """Fault of one part of a pod: an IPU, a link between two IPUs, a part of a machine, or a host server."""

    ipu: CountOrZero | None = None
    """Number of the IPU in the pod."""
    link: tuple[CountOrZero, CountOrZero] | None = None
    """Numbers of two IPUs that are joined by IPU-Links; both directions are slower."""
    machine: CountOrZero | None = None
    """Number of the machine, with `part`."""
    part: Literal["host_link", "gw_link", "streaming_memory"] | None = None
    """Slower part of the machine."""
    host: CountOrZero | None = None
    """Number of the host server."""
    clock: _Share | None = None
    """Remaining clock of the IPU, as a share of nominal."""
    bandwidth: _Share | None = None
    """Remaining bandwidth of the link or part of a machine, as a share of nominal."""
    cores: _Share | None = None
    """Remaining cores of the host server, as a share of nominal."""
    begin: _Time = Field(default=_START, alias="from")
    """Begin of the fault, in time spent on weight updates since the start of the run."""
    end: _Time | None = Field(default=None, alias="until")
    """End of the fault; if left out, the end of the run."""

    @property
    def subject(self) -> str:
        """Key that names the part."""
        return next(key for key in SLOWER if getattr(self, key) is not None)

    @property
    def share(self) -> float:
        """Remaining speed as a fraction of nominal."""
        return float(getattr(self, SLOWER[self.subject]))

    @property
    def name(self) -> str:
        """Name of the part in a sentence."""
        where = getattr(self, self.subject)
        if self.subject == "link":
            return f"link {where[0]}-{where[1]}"
        return f"{self.subject} {where}" + (f" {self.part}" if self.part else "")

    @property
    def text(self) -> str:
        """Description of the fault in a sentence.

        >>> FaultSpec(ipu=3, clock="90 %").text
        'ipu 3 at 90 % of its clock'
        """
        key = SLOWER[self.subject]
        speed = getattr(self, key).provenance.text
        window = "" if not self.begin else f" from {self.begin.provenance.text}"
        until = "" if self.end is None else f" until {self.end.provenance.text}"
        return f"{self.name} at {speed} of its {key}{window}{until}"

    def meets(self, other: FaultSpec) -> bool:
        """Return True if both concern the same part at the same time."""
        ahead, behind = sorted((self, other), key=lambda fault: fault.begin)
        return self._part == other._part and (ahead.end is None or ahead.end > behind.begin)

    @property
    def _part(self) -> tuple[str, object, str | None]:
        where = getattr(self, self.subject)
        return self.subject, frozenset(where) if isinstance(where, tuple) else where, self.part

    @model_validator(mode="after")
    def _is_one_fault(self) -> FaultSpec:
        subjects = [key for key in SLOWER if getattr(self, key) is not None]
        if len(subjects) != 1:
            what = (
                "no part is named" if not subjects else f"{' and '.join(f'`{key}`' for key in subjects)} are both named"
            )
            raise BadValueError(what, "name one part: `ipu`, `link`, `machine` or `host`")
        expected = SLOWER[subjects[0]]
        speeds = [key for key in dict.fromkeys(SLOWER.values()) if getattr(self, key) is not None]
        if speeds != [expected]:
            what = f"`{subjects[0]}` goes with `{expected}`" + (f", not with `{speeds[0]}`" if speeds else "")
            raise BadValueError(what, f"write what is left of it, `{expected}: 50 %`")
        if (self.machine is None) != (self.part is None):
            raise BadValueError("`machine` and `part` go together", "write both, `machine: 0, part: gw_link`")
        if self.end is not None and self.end <= self.begin:
            raise BadValueError("`until` is not after `from`", "give a later `until`, or leave it out")
        return self


def fault_findings(
    faults: Sequence[FaultSpec], system: System, replicas: int, ipus_per_replica: int, *, has_run: bool
) -> Iterator[Finding]:
    """Yield faults of parts that the pod does not have or the run does not use, and overlapping faults of one part."""
    starts = (system.first_ipu(replica, ipus_per_replica) for replica in range(replicas)) if faults else ()
    ipus = [start + local for start in starts for local in range(ipus_per_replica)]
    machines, hosts = sorted({ipu // system.machine.ipu_count for ipu in ipus}), range(int(system.host_count))
    for number, fault in enumerate(faults):
        place = ("faults", number)
        for key, numbers, existing, what in (
            ("ipu", (fault.ipu,), ipus, "IPUs that run"),
            ("link", fault.link or (), ipus, "IPUs that run"),
            ("machine", (fault.machine,), machines, "machines that run"),
            ("host", (fault.host,), hosts, "host servers"),
        ):
            beyond = [each for each in numbers if each is not None and each not in existing]
            if beyond:
                missing = f"there is no {key} {beyond[0]} among the {len(existing)} {what}"
                yield (*place, key), missing, f"use {_numbers(existing)}"
        if fault.link and len(set(fault.link)) == 1:
            yield (*place, "link"), f"IPU {fault.link[0]} has no link to itself", "name two IPUs that are joined"
        if not has_run and (fault.begin or fault.end is not None):
            key = "until" if fault.end is not None else "from"
            yield (*place, key), "nothing says how long the run is", "add `run`, or leave `from` and `until` out"
        for other in faults[:number]:
            if fault.meets(other):
                yield place, f"{fault.name} is in two faults at one time", "let one end before the other begins"
                break


def _numbers(numbers: Sequence[int]) -> str:
    """Return sorted numbers as a list of ranges.

    >>> _numbers([0, 1, 2, 8, 9])
    '0 to 2 or 8 to 9'
    """
    firsts = [number for place, number in enumerate(numbers) if not place or numbers[place - 1] != number - 1]
    lasts = [number for place, number in enumerate(numbers, 1) if place == len(numbers) or numbers[place] != number + 1]
    return " or ".join(f"{first} to {last}" for first, last in zip(firsts, lasts, strict=True))
