"""Programs whose durations are computed again for other numbers, without another compilation.

A plan is compiled once with numbers of a tape: the cycles of its parts, and every number of its system and software.
For a plan of the same shape the tape then repeats the arithmetic alone. A plan that differs in anything else that was
read, or for which the compiler would have decided otherwise, is compiled as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from podsim import memo
from podsim.placement.phases import PhaseCost
from podsim.placement.plan import Plan
from podsim.placement.stage_cost import StageCost, UpdateCost
from podsim.program.task import Program
from podsim.scenario.assumptions import numbers, watched
from podsim.scenario.base import keys_of
from podsim.tape import Tape
from podsim.tiles.account import Account, cycles_by_kind

_Spec = TypeVar("_Spec", bound=BaseModel)
_UPDATES: Final = ("gather", "optimizer", "scatter")
_PHASES: Final = ("exchanged", "updated", "tied")
_of_stage = attrgetter("forward", "recompute", "backward")
_of_update, _of_phase = attrgetter(*_UPDATES), attrgetter(*_PHASES)
"""Accounts of a stage and of an update, and updates of a phase."""
_shape_of_stage = attrgetter("stage", "recomputed", "redoes_all")


def _other_fields(kind: type, names: Sequence[str]) -> Callable[[Any], tuple[object, ...]]:
    """Return a reader of all fields of a dataclass but some."""
    return attrgetter(*(name for name in kind.__dataclass_fields__ if name not in names))  # type: ignore[attr-defined]


_shape_of_update = _other_fields(UpdateCost, _UPDATES)
_shape_of_phase = _other_fields(PhaseCost, ("cost", *_PHASES))
_HARDWARE: Final = ("system", "software")


class PricedProgram:
    """Program of a plan whose durations are numbers of a tape."""

    def __init__(self, plan: Plan, compiled: Callable[[Plan], Program]) -> None:
        """Compile a plan."""
        self._tape = tape = Tape()
        self._shape = _shape(plan)
        read: dict[str, set[str]] = {}
        priced: dict[str, Any] = {}
        hardware = {}
        for name in _HARDWARE:
            known = {key: tape.number(value) for key, value in _numbers(getattr(plan, name), name)}
            priced |= known
            hardware[name], read[name] = watched(_with_numbers(getattr(plan, name), name, known), name)

        def recorded(account: Account) -> Account:
            cycles: list[Any] = [tape.number(each) for each in cycles_by_kind(account)]
            return Account(*cycles)

        with memo.bypassed():
            self.program = compiled(replace(_with_accounts(plan, recorded), **hardware))
        # Numbers that nothing read may have any value; all else that was read has to stay as it is.
        names = {key: name for part in _HARDWARE for key, name in _names(getattr(plan, part), part)}
        seen = set().union(*read.values()) & names.keys()
        self._inputs = [attrgetter(names[key]) if key in seen else None for key in priced]
        self._values = [float("nan") if key in seen else value for key, value in _hardware_numbers(plan)]
        self._fixed = [
            (find, value)
            for key in seen - priced.keys()
            for find in [attrgetter(names[key])]
            for value in [find(plan)]
            if not isinstance(value, BaseModel)
        ]

    def values(self, plan: Plan) -> list[Any] | None:
        """Return all numbers of the tape for another plan; None if it has to be compiled."""
        if any(find(plan) != value for find, value in self._fixed) or _shape(plan) != self._shape:
            return None
        hardware = (
            value if find is None else find(plan) for find, value in zip(self._inputs, self._values, strict=True)
        )
        cycles = (each for account in _accounts(plan) for each in cycles_by_kind(account))
        try:
            return self._tape.repeat([*hardware, *cycles])
        except AttributeError:  # a section that the recorded plan had is missing
            return None


def _hardware_numbers(plan: Plan) -> Iterator[tuple[str, Any]]:
    for name in _HARDWARE:
        yield from _numbers(getattr(plan, name), name)


def _names(part: BaseModel, path: str, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the key path and the attribute path of every field, of inner sections too."""
    for each, name in keys_of(type(part)).items():
        inner, value = (f"{key or path}.{each}", f"{path}.{name}"), getattr(part, name)
        yield inner
        if isinstance(value, BaseModel):
            yield from _names(value, inner[1], inner[0])


def _numbers(part: BaseModel, path: str) -> Iterator[tuple[str, float]]:
    """Yield the key path and the value of every number that is no count; counts shape a program."""
    return ((f"{path}.{key}", number) for key, number, dimension in numbers(part) if dimension != "count")


def _with_numbers(part: _Spec, path: str, changes: dict[str, Any]) -> _Spec:
    """Return the section with other numbers by key path."""
    changed = {}
    for key, name in keys_of(type(part)).items():
        value, inner = getattr(part, name), f"{path}.{key}"
        if isinstance(value, BaseModel):
            changed[name] = _with_numbers(value, inner, changes)
        elif inner in changes:
            changed[name] = changes[inner]
    return part.model_copy(update=changed)


def _shape(plan: Plan) -> tuple[object, ...]:
    """Return all of a plan that its program depends on, without times and without the machines."""
    return (
        *(plan.workload, plan.layout, plan.precision, plan.optimizer),
        [_shape_of_stage(cost) for cost in plan.stages],
        [_shape_of_update(cost) for cost in plan.updates],
        [
            (_shape_of_phase(each), _shape_of_stage(each.cost), *map(_shape_of_update, _of_phase(each)))
            for each in plan.phases
        ],
    )


def _accounts(plan: Plan) -> Iterator[Account]:
    """Yield the accounts of a plan, in the order of `_with_accounts`."""
    for cost in plan.stages:
        yield from _of_stage(cost)
    for update in plan.updates:
        yield from _of_update(update)
    for phase in plan.phases:
        yield from _of_stage(phase.cost)
        for update in _of_phase(phase):
            yield from _of_update(update)


def _with_accounts(plan: Plan, change: Callable[[Account], Account]) -> Plan:
    """Return the plan with other accounts."""

    def passes(cost: StageCost) -> StageCost:
        forward, recompute, backward = map(change, _of_stage(cost))
        return replace(cost, forward=forward, recompute=recompute, backward=backward)

    def update(cost: UpdateCost) -> UpdateCost:
        gather, optimizer, scatter = map(change, _of_update(cost))
        return replace(cost, gather=gather, optimizer=optimizer, scatter=scatter)

    def phase(cost: PhaseCost) -> PhaseCost:
        passed = passes(cost.cost)
        exchanged, updated, tied = map(update, _of_phase(cost))
        return replace(cost, cost=passed, exchanged=exchanged, updated=updated, tied=tied)

    stages, updates, phases = map(passes, plan.stages), map(update, plan.updates), map(phase, plan.phases)
    return replace(plan, stages=tuple(stages), updates=tuple(updates), phases=tuple(phases))
