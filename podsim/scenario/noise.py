"""How much what is not planned to the cycle differs from one time to the next."""

from __future__ import annotations

from typing import Annotated

from pydantic import model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import HardwareSpec
from podsim.scenario.quantity import APART, Quantity, Real

_Spread = Annotated[Real, Quantity("s", ("0 s", "1000 s"), usual=("0 s", "1 s")), APART]
_Share = Annotated[Real, Quantity("share", ("0 %", "50 %"), usual=("0 %", "5 %")), APART]


class Noise(HardwareSpec):
    """Noise of session calls that train. What IPUs compute and exchange is planned to the cycle, and has none."""

    call_spread_s: _Spread
    """Standard deviation of a call, common to all IPUs: what the process that calls does."""
    late_call_share: _Share | None = None
    """Share of calls that one machine is late for, each machine by itself; none if left out."""
    late_call_time_s: _Spread | None = None
    """How late it is then, on average, distributed exponentially; all machines of a run wait for the latest."""
    run_spread_s: _Spread | None = None
    """Standard deviation, from run to run, of what a call takes on average; none if left out."""

    @model_validator(mode="after")
    def _late_calls_are_whole(self) -> Noise:
        if self.late_call_share and self.late_call_time_s is None:
            raise BadValueError("late_call_share is given, but not how late", "add `late_call_time: 100 ms`")
        return self
