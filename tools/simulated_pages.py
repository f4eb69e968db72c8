"""Pages of docs/reference that are written from simulations: "Bow over GC200" and "LLaMa2-7B on more and more IPUs"."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from textwrap import fill

from notebooks.bow_over_gc200 import (
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
from notebooks.llama2_7b import BOUNDS, RESIDENT, STREAMED, PodRow, links_overtake_compute, rows_of_pods
from podsim.scenario import load_scenario

_NOTE = "<!-- written by tools/make_reference.py from simulations; run `./dev docs` -->"
_WIDTH = 120
_MS_PER_S, _GIGA = 1e3, 1e9


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Collection[int]) -> str:
    """Return a table whose columns are right-aligned, except text columns."""
    ruler = ["---" if column in text_columns else "--:" for column in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ruler, *rows))


def _paragraph(text: str) -> str:
    """Return text in lines of the width of a page."""
    return fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)


_SHARES = {
    CLOCK: "clock",
    PIPELINE: "pipeline",
    LINK: "links",
    HOST: "hosts",
    STREAMING: "streaming",
    UPDATES: "updates",
}

_BOW_INTRO = """
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
    """Return a page with every training workload on both chips."""
    rows = bow_over_gc200()
    return "\n".join([_NOTE, _BOW_INTRO, _bow_table(rows), "", _bow_conclusion(rows)])


def _bow_table(rows: Sequence[BowRow]) -> str:
    header = ["scenario", "GC200", "Bow", "simulated", "shares give", *_SHARES.values(), "held back by"]
    return _table(header, (_bow_cells(row) for row in rows), text_columns={0, len(header) - 1})


def _bow_cells(row: BowRow) -> list[str]:
    rates = [f"{row.gc200_per_s:,.0f}/s", f"{row.bow_per_s:,.0f}/s"]
    ratios = [f"**{row.ratio:.3f}**", f"{row.ratio_of_shares:.3f}"]
    return [f"`{row.name}`", *rates, *ratios, *(f"{row.shares[each]:.1%}" for each in _SHARES), row.held_back_by]


def _bow_conclusion(rows: Sequence[BowRow]) -> str:
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

{_paragraph(text)}
"""


def _by_model(rows: Sequence[BowRow]) -> dict[str, list[BowRow]]:
    return {model: [row for row in rows if row.model == model] for model in sorted({row.model for row in rows})}


_LLAMA_INTRO = """
# LLaMa2-7B on more and more IPUs

Each row is a variant of `llama2_7b_pods`: 512 tokens of prompt, 512 of output, keys and values on the chip. One row by
hand, and the same with Bow:

```console
$ podsim run llama2_7b_pods --variant pod4
$ podsim run llama2_7b_pods --variant pod4 --set system=bow_pod4
```

*Shards* share every layer, *stages* hold the layers in turn, *sequences* are generated at a time. The parts of a decode
step are in milliseconds and go through all stages; with several sequences in flight, the slowest stage sets the pace.
"""


def llama_page() -> str:
    """Return a page of LLaMa2-7B on increasing numbers of IPUs."""
    streamed, resident = rows_of_pods(STREAMED), rows_of_pods(RESIDENT)
    return "\n".join(
        [
            _NOTE,
            _LLAMA_INTRO,
            "## Weights streamed\n",
            _pod_table(streamed),
            "",
            _streamed_conclusion(streamed),
            "\n## Weights on the chips\n",
            _pod_table(resident),
            "",
            _resident_conclusion(resident),
            "",
        ]
    )


def _pod_table(rows: Sequence[PodRow]) -> str:
    header = ["variant", "IPUs", "shards x stages", "sequences", "tokens/s", "on Bow", "per token", "first token"]
    header += [*BOUNDS, "bound"]
    return _table(header, map(_pod_cells, rows), text_columns={0, len(header) - 1})


def _pod_cells(row: PodRow) -> list[str]:
    result = row.gc200
    times = (result.time_per_output_token_s, result.time_to_first_token_s)
    return [
        f"`{row.variant}`",
        str(row.ipu_count),
        f"{row.shards} x {row.stages}",
        str(row.sequences),
        f"**{result.tokens_per_s:.2f}**",
        f"{row.bow_tokens_per_s:.2f}",
        *(f"{time_s * _MS_PER_S:.1f} ms" for time_s in times),
        *(f"{row.step_parts_s[bound] * _MS_PER_S:.1f}" for bound in BOUNDS),
        result.decode.bound,
    ]


def _streamed_conclusion(rows: Sequence[PodRow]) -> str:
    first, pod16, last = rows[0], next(row for row in rows if row.variant == "pod16"), rows[-1]
    widest = _widest_one(rows)
    links = links_overtake_compute(rows)
    growth = pod16.gc200.tokens_per_s / first.gc200.tokens_per_s
    step_ms = last.gc200.decode.time_s * _MS_PER_S
    second = last.gc200.tokens_per_s / widest.gc200.tokens_per_s - 1
    return _paragraph(
        f"""Streaming memory binds every row: all weights pass through it for every token, and each IPU brings its own
        share of it. From POD4 to POD16 throughput grows {growth:.2f} times and a token takes that much less time, as
        published: linear growth, falling latency [conductivity2024]. From {links.shards if links else "no"} shards on,
        links take longer than compute. What holds growth back is the sums over links, which take longer with every
        shard. Shards end at {widest.shards}, the number of heads. More IPUs can only be further stages: a step
        still takes {step_ms:.1f} ms on {last.ipu_count} IPUs, so **one sequence gains nothing beyond
        {widest.ipu_count} IPUs**; a second one in flight adds {second:.0%}. Bow changes next to nothing, as little of
        the step follows its clock."""
    )


def _widest_one(rows: Sequence[PodRow]) -> PodRow:
    """Return the row with the most shards and one stage."""
    return max((row for row in rows if row.stages == 1), key=lambda row: row.shards)


def _resident_conclusion(rows: Sequence[PodRow]) -> str:
    few, wide = rows[0], _widest_one(rows)
    links_ms = [_part_ms(row, ["links"]) for row in (few, wide)]
    tiles_ms = [_part_ms(row, ["compute", "exchange"]) for row in (few, wide)]
    return _paragraph(
        f"""Without streaming, the sums over links bind, and what tiles gain is lost to them: from
        {few.shards} to {wide.shards} shards, compute and exchange go from {tiles_ms[0]:.1f} to {tiles_ms[1]:.1f} ms of
        a step, while the {2 * (wide.shards - 1)} steps of the ring for each sum take {links_ms[1]:.1f} ms instead of
        {links_ms[0]:.1f}. **Throughput of one sequence stops to rise at {few.shards} shards.** Stages add memory, and
        room for more sequences at a time."""
    )


def _part_ms(row: PodRow, bounds: Iterable[str]) -> float:
    return sum(row.step_parts_s[bound] for bound in bounds) * _MS_PER_S
