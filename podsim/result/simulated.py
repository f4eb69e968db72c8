"""What was simulated: pod, chip, clock, software stack, and what differs from the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podsim.deferred import Deferred
from podsim.format import format_count, format_significant
from podsim.scenario import LoadedScenario
from podsim.scenario.resolve import Change

_GIGA: Final = 1e9
_DESCRIPTION: Final = "description"
_LONGEST_VALUE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What was simulated.

    Attributes:
        system: Name of the pod.
        ipu: Name of its chip.
        clock_hz: Clock of the chip. [Hz]
        software: Name of the software stack.
        ipus_used: IPUs that the figures stand for.
        ipu_count: IPUs of the pod.
        variant: The variant of the file that was chosen.
        overrides: `key.path=value` texts that were applied.
        changes: Keys that are not as the file has them.
        model: Its published name, or its family with layers and width.
        borrowed: Whether its description is that of a base from which it differs.
    """

    system: str
    ipu: str
    clock_hz: float
    software: str
    ipus_used: int
    ipu_count: int
    variant: str | None = None
    overrides: tuple[str, ...] = ()
    changes: Sequence[Change] = ()
    model: str = ""
    borrowed: bool = False

    @property
    def machine(self) -> str:
        """Pod, IPUs in use, chip, clock and software stack."""
        used = f"{format_count(self.ipus_used)} of {format_count(self.ipu_count)} IPUs"
        clock = f"{format_significant(self.clock_hz / _GIGA, 4)} GHz"
        return f"{self.system}, {used} in use, {self.ipu} at {clock}; {self.software}"

    @property
    def difference(self) -> str:
        """What differs from the file."""
        if not self.changes:
            return "as the file says" if self.variant is None else f"variant {self.variant}"
        differing = "; ".join(f"{each.key} {_text(each.before)} → {_text(each.after)}" for each in self.changes)
        return f"changed: {differing}" if self.variant is None else f"variant {self.variant}: {differing}"

    def titled(self, description: str) -> str:
        """A description, marked as that of the file if something else was simulated; without any model and pod."""
        if not description:
            return f"{self.model} on {self.system}" if self.model else ""
        named = any(text.partition("=")[0].strip() == _DESCRIPTION for text in self.overrides)
        if named or not (self.changes or self.variant or self.borrowed):
            return description
        if self.variant is None or self.overrides:
            return f"Changed from: {description}"
        described = any(change.key == _DESCRIPTION for change in self.changes)
        return description if described else f"Variant {self.variant} of: {description}"


def simulated(loaded: LoadedScenario, ipus_used: int, further: tuple[Change, ...] = ()) -> Simulated:
    """What was simulated, from a scenario.

    Args:
        loaded: The scenario, its division chosen.
        ipus_used: IPUs that the figures stand for.
        further: What was given beside the file, variant and overrides.
    """
    spec = loaded.spec
    ipu = spec.system.machine.ipu
    return Simulated(
        system=spec.system.name,
        ipu=ipu.name,
        clock_hz=ipu.clock_hz,
        software=spec.software.name,
        ipus_used=ipus_used,
        ipu_count=spec.system.ipu_count,
        variant=loaded.variant,
        overrides=loaded.overrides,
        changes=Deferred(lambda: (*loaded.changes, *further)),
        model=spec.model.title,
        borrowed=loaded.borrowed,
    )


def _text(value: object) -> str:
    """A value as a line shows it."""
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{…}"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
