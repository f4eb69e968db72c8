"""Candidates and what came of them: a system, a division, and values of what varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from podsim.study.points import Value, short

_LONGEST: Final = 120
"""Letters of the name of a file."""
_OF_A_JOB: Final = ("name", "system", "ipus", "ipus_per_replica", "replicas", "figures")


@dataclass(frozen=True)
class Part:
    """A job on its part of a system.

    Attributes:
        name: Of the job; empty where there is only one.
        system: The partition that it has.
        ipu_count: IPUs of that.
        ipus_per_replica: IPUs of one copy of the model.
        replicas: Copies of the model.
        figures: Figures of the result by key.
        bill: What it costs, as JSON of results has it; empty where there are no prices.
        overrides: `key.path=value` texts that give the same.
        written: The scenario that gives the same, as a file.
        refused: Why its result is no answer, such as a queue that grows; empty if it is one.
    """

    name: str
    system: str
    ipu_count: int
    ipus_per_replica: int
    replicas: int
    figures: Mapping[str, Any]
    bill: Mapping[str, Any] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    written: str = ""
    refused: str = ""

    @property
    def used(self) -> int:
        """IPUs in use."""
        return self.ipus_per_replica * self.replicas


@dataclass(frozen=True)
class Option:
    """A system with a division, and what comes of it.

    Attributes:
        system: The pod or partition, as it was asked for.
        division: `as given`, or `chosen`.
        title: Name of the pod.
        ipu_count: IPUs of the pod or partition.
        ipus_per_replica: IPUs of one copy of the model.
        replicas: Copies of the model.
        figures: Figures by key: of the result, or of all jobs together; None where there is no result.
        reason: Why it is ruled out; empty if it is not.
        written: The scenario that gives the same, as a file; empty where there are several jobs.
        currency: Of its cost, where prices are given.
        values: Values of what varies.
        parts: The jobs, each on its part of the system.
        number: Its place among all candidates of the goal.
        together: Whether the jobs run side by side.
    """

    system: str
    division: str
    title: str = ""
    ipu_count: int = 0
    ipus_per_replica: int = 0
    replicas: int = 0
    figures: Mapping[str, Any] | None = None
    reason: str = ""
    written: str = ""
    currency: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    parts: Sequence[Part] = ()
    number: int = 0
    together: bool = False

    def value(self, figure: str | None) -> float | None:
        """A figure by its key, in its SI unit; None if it has none."""
        found = (self.figures or {}).get(figure) if figure else None
        return float(found) if isinstance(found, (int, float)) else None

    @property
    def name(self) -> str:
        """System, division and values in a word, for a file.

        >>> Option("32 of ipu_pod64", "as given", values={"system.machine.ipu.clock": "1.5 GHz"}).name
        '32-of-ipu_pod64-as-given-clock-1.5-GHz'
        """
        values = (f"{key.rpartition('.')[2]}-{short(value)}" for key, value in self.values.items())
        text = "-".join((self.system.removesuffix(".yaml").rpartition("/")[2], self.division, *values))
        return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in text)[:_LONGEST]

    @property
    def varied(self) -> str:
        """The values of what varies, in a cell.

        >>> Option("a", "chosen", values={"system.machine.ipu.clock": "1.5 GHz", "replicas": 4}).varied
        'clock 1.5 GHz, replicas 4'
        """
        return ", ".join(f"{key.rpartition('.')[2]} {short(value)}" for key, value in self.values.items())

    @property
    def label(self) -> str:
        """All that tells it from the others, in words."""
        return ", ".join(part for part in (self.system, self.division, self.varied) if part)

    @property
    def arithmetic(self) -> str:
        """IPUs of the pod, and how they are divided: IPUs of a copy × copies, of jobs side by side with a plus.

        >>> Option("ipu_pod64", "chosen", ipu_count=64, ipus_per_replica=4, replicas=16).arithmetic
        '64 (= 4 × 16)'
        """
        parts: Sequence[Part | Option] = self.parts or [self]
        products = [(each.ipus_per_replica, each.replicas) for each in parts if each.ipus_per_replica]
        if not products:
            return f"{self.ipu_count}"
        used = (sum if self.together else max)(ipus * replicas for ipus, replicas in products)
        products = products if self.together else list(dict.fromkeys(products))
        words = (" + " if self.together else ", then ").join(f"{ipus} × {replicas}" for ipus, replicas in products)
        sign = "=" if used == self.ipu_count else f"{used} used,"
        return f"{self.ipu_count} ({sign} {words})"

    @property
    def files(self) -> dict[str, str]:
        """Scenarios that give the same, by the name of the file."""
        if len(self.parts) <= 1:
            return {f"{self.name}.yaml": self.written}
        names = ("".join(letter if letter.isalnum() else "-" for letter in part.name) for part in self.parts)
        return {f"{self.name}-{name}.yaml": part.written for name, part in zip(names, self.parts, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        plain = {
            "system": self.system,
            "division": self.division,
            "varied": dict(self.values),
            "ipus": self.ipu_count,
            "ipus_per_replica": self.ipus_per_replica,
            "replicas": self.replicas,
            "arithmetic": self.arithmetic,
            "figures": None if self.figures is None else dict(self.figures),
            "currency": self.currency or None,
            "reason": self.reason or None,
        }
        if len(self.parts) > 1:
            jobs = (asdict(part) | {"ipus": part.ipu_count} for part in self.parts)
            plain["jobs"] = [{key: job[key] for key in _OF_A_JOB} for job in jobs]
        return plain


def option_of(row: Mapping[str, Any]) -> Option:
    """The option that plain data stands for, as `asdict` makes it of one."""
    parts = [Part(**(each | {"overrides": tuple(each["overrides"])})) for each in row["parts"]]
    return Option(**{**row, "parts": parts})
