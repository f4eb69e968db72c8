"""A search among more candidates than can be looked at, by Optuna's tree-structured Parzen estimator.

Candidates are asked for in batches of a fixed size, and what came of a batch is told in the order in which it was
asked. So the same seed asks for the same candidates on any number of cores; and since what was simulated before is
not simulated again, a search that was killed goes through the same steps to where it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

from podsim.errors import PodsimError
from podsim.many.capacity.candidates import Candidates
from podsim.many.capacity.figures import second_of
from podsim.many.capacity.front import value
from podsim.many.capacity.goal import Goal
from podsim.many.capacity.option import Option
from podsim.many.capacity.shortfall import shortfall
from podsim.many.capacity.simulate import Options
from podsim.metrics import metric_of

_BATCH: Final = 8
_MOST_STALE: Final = 25
"""Batches in a row that bring nothing new end a search."""
_IMPOSSIBLE: Final = 1e6
"""Excess over limits that stands for a candidate without a result."""
_EXCESS: Final = "excess"
_MANY: Final = 64
"""Of more values neighbours are taken to be alike."""


def searched(candidates: Candidates, options: Options) -> list[Option]:
    """The options that a search looks at.

    Args:
        candidates: All that can be looked at.
        options: Simulates them.

    Raises:
        PodsimError: Optuna is not installed.
    """
    optuna, goal = _optuna(), candidates.goal
    first = list(_first(candidates))
    looked_at = {option.number: option for option in options.of([candidates.number(each) for each in first])}
    second = goal.second_figure or next(
        (name for each in looked_at.values() if each.figures and (name := second_of(goal.figure, each.figures))), None
    )
    study = _study(optuna, goal, 1 if second is None else 2)
    names = [f"axis{place}" for place in range(len(candidates.axes))]
    axes = {name: _axis(optuna, candidates, place) for place, name in enumerate(names)}
    for each in first:
        study.enqueue_trial(dict(zip(names, each, strict=True)))
    stale = 0
    while len(looked_at) < goal.trials and stale < _MOST_STALE:
        trials = [study.ask(axes) for _ in range(_BATCH)]
        numbers = [candidates.number(tuple(trial.params[name] for name in names)) for trial in trials]
        room = goal.trials - len(looked_at)
        new = list(dict.fromkeys(number for number in numbers if number not in looked_at))[:room]
        found = {option.number: option for option in options.of(new)}
        looked_at |= found
        stale = 0 if found else stale + 1
        for trial, number in zip(trials, numbers, strict=True):
            _told(study, trial, goal, second, looked_at.get(number))
    return list(looked_at.values())


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        what = "more candidates than --trials need a search, and optuna is not installed"
        raise PodsimError(what, do="pip install 'podsim[plan]', vary less, or raise --trials") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _study(optuna: Any, goal: Goal, figures: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some options of the sampler are marked as experimental
        sampler = optuna.samplers.TPESampler(seed=goal.seed, constant_liar=True, constraints_func=_constraints)
        return optuna.create_study(directions=["minimize"] * figures, sampler=sampler)


def _constraints(trial: Any) -> Sequence[float]:
    return (trial.user_attrs.get(_EXCESS, _IMPOSSIBLE),)


def _first(candidates: Candidates) -> Iterator[tuple[int, ...]]:
    """Every system and division, with the first and the last value of all that varies."""
    systems, divisions, *varied = candidates.axes
    ends = dict.fromkeys((tuple(0 for _ in varied), tuple(count - 1 for count in varied)))
    everywhere = (
        (system, division, *end) for end in ends for system, division in product(range(systems), range(divisions))
    )
    for place, each in enumerate(everywhere):
        if place < max(1, candidates.goal.trials // 2):
            yield each


def _axis(optuna: Any, candidates: Candidates, place: int) -> Any:
    """Places on an axis: in order where its values are numbers, else without."""
    count = candidates.axes[place]
    if place >= 2 and (count > _MANY or _is_ordered(candidates, place - 2)):
        return optuna.distributions.IntDistribution(0, count - 1)
    return optuna.distributions.CategoricalDistribution(tuple(range(count)))


def _is_ordered(candidates: Candidates, place: int) -> bool:
    from podsim.many.sweeps.expression import number_of

    assert candidates.goal.space is not None
    axis = candidates.goal.space.axes[place]
    numbers = [number_of(each[0]) for each in axis.values]
    return all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in numbers) and numbers in (
        sorted(numbers),
        sorted(numbers, reverse=True),
    )


def _told(study: Any, trial: Any, goal: Goal, second: str | None, option: Option | None) -> None:
    """Tell a study what came of a candidate."""
    names = [goal.figure] if second is None else [goal.figure, second]
    values = [None if option is None else value(option, name) for name in names]
    if option is None or values[0] is None:
        missed = _IMPOSSIBLE
    else:
        missed = shortfall(goal, option) + (1.0 if option.reason else 0.0)
    trial.set_user_attr(_EXCESS, missed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = [_IMPOSSIBLE if each is None else metric_of(n).rank(each) for n, each in zip(names, values, strict=True)]
        study.tell(trial, told)
