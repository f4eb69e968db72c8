"""Fields of parts that carry data."""

from __future__ import annotations

from typing import Annotated

from podsim.scenario.quantity import Quantity, Real, Whole

Bandwidth = Annotated[Real, Quantity("bytes_per_s", ("1 kB/s", "1000000 TB/s"), usual=("1 GB/s", "10 TB/s"))]
Efficiency = Annotated[Real, Quantity("share", ("1 %", "100 %"), usual=("50 %", "100 %"))]
Latency = Annotated[Real, Quantity("s", ("0 s", "1000 s"), usual=("0 s", "100 us"))]
Links = Annotated[Whole, Quantity("count", ("1", "1024"), usual=("1", "32"))]
