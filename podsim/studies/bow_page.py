"""The page "Bow over GC200": every training workload on both chips."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.specs import load_scenario
from podsim.studies.bow import (
    CLOCK,
    HOST,
    LINK,
    PIPELINE,
    PUBLISHED_MEAN,
    STREAMING,
    UPDATES,
    BowRow,
    bow_over_gc200,
    mean_ratio,
)
from podsim.studies.markdown import SIMULATED_NOTE, paragraph, table

_GIGA = 1e9

_SHARES = {
    CLOCK: "clock",
    PIPELINE: "pipeline",
    LINK: "links",
    HOST: "hosts",
    STREAMING: "streaming",
    UPDATES: "updates",
}

_INTRO = """
# Bow over GC200

Bow is a GC200 at a higher clock. What does it make of each training workload that podsim ships?

Every scenario in a folder of `scenarios/` other than `scenarios/what_if/` that trains on GC200 is run on its pod and
on the same pod with Bow chips; of scenarios whose weight updates are equal to the picosecond, the first one. One row by
hand:

```console
$ podsim run bert_large_phase1_pod16
$ podsim run bert_large_phase1_pod16 --set system=bow_pod16
```

Shares are those of a weight update on GC200, on the IPU that sets the pace:

- **clock**: compute of tiles, the exchange on the chip, supersteps and sync. All of it is counted in cycles.
- **pipeline**: bubbles, and waiting for a slower stage. What is waited for is mostly counted in cycles, too.
- **links**: IPU-Links and GW-Links. **hosts**: session calls and data. **streaming**: memory behind the gateway.
- **updates**: waiting while another IPU updates its weights, which is mostly links and memory.

*Shares give* is what they let one expect, 1 ÷ (s ÷ clock ratio + 1 - s), where s is the share of the clock and of the
pipeline together [amdahl1967]. *Simulated* is the ratio of the two runs.
"""


def bow_page() -> str:
    """Every training workload on both chips."""
    rows = bow_over_gc200()
    return "\n".join([SIMULATED_NOTE, _INTRO, _table(rows), "", _conclusion(rows)])


def _table(rows: Sequence[BowRow]) -> str:
    header = ["scenario", "GC200", "Bow", "simulated", "shares give", *_SHARES.values(), "held back by"]
    return table(header, (_cells(row) for row in rows), text_columns={0, len(header) - 1})


def _cells(row: BowRow) -> list[str]:
    rates = [f"{row.gc200_per_s:,.0f}/s", f"{row.bow_per_s:,.0f}/s"]
    ratios = [f"**{row.ratio:.3f}**", f"{row.ratio_of_shares:.3f}"]
    return [f"`{row.name}`", *rates, *ratios, *(f"{row.shares[each]:.1%}" for each in _SHARES), row.held_back_by]


def _conclusion(rows: Sequence[BowRow]) -> str:
    mean, clock = mean_ratio(rows), rows[0].clock_ratio
    least, most = (each(row.ratio for row in rows) for each in (min, max))
    by_model = "\n".join(f"| mean of `{model}` | {mean_ratio(own):.3f} |" for model, own in _by_model(rows).items())
    spec = load_scenario(rows[0].name).spec
    gc200_ghz = spec.system.machine.ipu.clock_hz / _GIGA
    needed_ghz = gc200_ghz * clock / PUBLISHED_MEAN
    text = f"""**The published mean exceeds the ratio of the clocks, so it cannot come from the clock alone.** A
    workload that does nothing but compute gains {clock - 1:.1%}, and every link, host and memory takes from that.
    No workload here gains more than {most - 1:.1%}. For a mean of {PUBLISHED_MEAN - 1:.0%}, something else must have
    made the Bow runs faster: by {PUBLISHED_MEAN / clock - 1:.1%} if all of their time followed the clock, by
    {PUBLISHED_MEAN / mean - 1:.1%} if their shares were those of the workloads here. A later SDK, other hosts or
    batch sizes, or GC200 chips below {needed_ghz:.2f} GHz would do it; which of them did, podsim cannot
    tell. None of these is in the two runs of a row: they differ in the clock and in nothing else."""
    return f"""| over {len(rows)} workloads | Bow over GC200 |
|---|--:|
| mean, simulated | {mean:.3f} |
{by_model}
| least, most | {least:.3f}, {most:.3f} |
| ratio of the clocks, {gc200_ghz * clock:g} over {gc200_ghz:g} GHz | {clock:.3f} |
| mean, published [conductivity2024] | {PUBLISHED_MEAN:.2f} |

{paragraph(text)}
"""


def _by_model(rows: Sequence[BowRow]) -> dict[str, list[BowRow]]:
    return {model: [row for row in rows if row.model == model] for model in sorted({row.model for row in rows})}
