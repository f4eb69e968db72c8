"""Prints the spread of weight updates in logged runs, the predicted spread, and the fit of the noise constants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsim.program.noise import late_table, maximum_moments
from podsim.report.table import Table, columns
from podsim.scenario.software import Noise
from podsim.show.markdown import to_markdown
from podsim.show.text import print_report
from podsim.units import PS_PER_S
from podsim.validation.show import share
from tools.noise import LATE_S, Spread, logged_runs, spread_of
from tools.noise_fit import noise_fits
from tools.refit import Refitted

Row = tuple[Spread, Noise]
_LOGGED = columns(
    *("submission", ">update [ms]", ">calls", ">blocks differ", ">updates would", ">lag 1", ">skew"),
    *(">first block [s]", ">slowest first [s]", ">drift", ">between runs"),
)
_PREDICTED = columns(
    *("submission", ">hosts", ">machines", ">usual [ms]", ">in evaluations [ms]", ">call [ms]", ">predicted [ms]"),
    *(">blocks differ", ">predicted", ">late evaluations", ">predicted", ">waits [ms]"),
)
_NOTHING = ("–", "–")


def rows_of_noise() -> tuple[Row, ...]:
    """Return all submissions with the noise of their software stack."""
    return tuple(
        (spread_of(logged_run), logged_run.spec.software.noise)
        for logged_run in logged_runs()
        if logged_run.spec.software.noise is not None
    )


def logged_table(rows: Sequence[Row]) -> Table:
    """Return a table of the spread of the blocks of each submission."""
    return Table(_LOGGED, [tuple(_logged(row)) for row, _ in rows])


def predicted_table(rows: Sequence[Row]) -> Table:
    """Return a table of the spread of calls and neighbouring blocks, logged and predicted."""
    return Table(_PREDICTED, [tuple(_predicted(row, noise)) for row, noise in rows])


def _logged(row: Spread) -> Iterator[str]:
    yield from (row.scenario, _ms(row.update_s), f"{row.calls:.0f}", f"{row.variation:.2%}")
    yield from (f"{row.variation * math.sqrt(row.updates):.1%}", f"{row.correlation:+.2f}", f"{row.skewness:+.1f}")
    yield from (f"{row.first_s:+.1f}", f"{row.worst_first_s:+.1f}") if row.evaluation_calls else _NOTHING
    yield from (str(share(row.drift, "+.1%")), f"{row.between_runs:.2%}")


def _predicted(row: Spread, noise: Noise) -> Iterator[str]:
    say = expected(row, noise)
    differ = row.call_s * math.sqrt(row.calls) / (row.update_s * row.updates)
    name = f"{row.scenario} *" if row.role == "calibration" else row.scenario
    yield from (name, str(row.hosts), str(row.machines), _ms(row.usual_call_s))
    yield from (_ms(row.usual_evaluation_s) if row.evaluation_calls else "–", _ms(row.call_s), _ms(say.call_s))
    yield from (f"{differ:.2%}", f"{say.block_variation:.2%}")
    yield from (f"{row.late_calls}", f"{say.late_calls:.1f}") if row.evaluation_calls else _NOTHING
    yield _ms(say.wait_s)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"


@dataclass(frozen=True, slots=True)
class Expected:
    """Spread of a submission that follows from constants of noise."""

    call_s: float  # standard deviation of a call. [s]
    block_variation: float  # standard deviation of a block over its mean, drift left out
    wait_s: float  # what a call takes longer, on average, since machines wait for the latest. [s]
    late_calls: float  # evaluations that meet a late call


def expected(row: Spread, noise: Noise) -> Expected:
    """Return the predicted spread of a submission."""
    table = late_table(noise, 1.0)
    mean, deviation = (each / PS_PER_S for each in maximum_moments(table, row.machines))
    call_s = math.hypot(noise.call_spread_s, deviation)
    share, mean_s = noise.late_call_share or 0.0, noise.late_call_time_s or 1.0
    return Expected(
        call_s,
        call_s * math.sqrt(row.calls) / (row.update_s * row.updates),
        mean - float(table.mean()) / PS_PER_S,
        row.evaluation_calls * (1 - (1 - share * math.exp(-LATE_S / mean_s)) ** row.machines),
    )


def main() -> None:
    """Print two tables, then the constants fitted again."""
    rows = rows_of_noise()
    print(to_markdown(logged_table(rows)))
    print(to_markdown(predicted_table(rows)))
    print_report(Refitted(noise_fits()).report())


if __name__ == "__main__":
    main()
