"""How many random inputs the properties are tried on."""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("PODSIM_EXAMPLES", "1"))

settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.register_profile("random", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "random")


def examples(count: int) -> Callable[..., object]:
    """Settings of a property that is tried so often, or `PODSIM_EXAMPLES` times as often."""
    return settings(
        max_examples=count * TIMES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
