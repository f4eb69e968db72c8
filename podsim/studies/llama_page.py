"""The page "LLaMa2-7B on more and more IPUs": weights streamed, weights on the chips, other bandwidths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsim.specs import load_scenario
from podsim.studies.markdown import SIMULATED_NOTE, paragraph, table
from podsim.studies.pods import BOUNDS, RESIDENT, STREAMED, PodRow, links_overtake_compute, rows_of_pods
from podsim.validation.sensitivity import SCENARIO, sensitivity
from podsim.validation.show import sensitivity_cells

_MS_PER_S, _GIGA = 1e3, 1e9

_INTRO = """
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

_SENSITIVITY_INTRO = """
## The published rate, and the bandwidth behind it

One notebook runs LLaMa2-7B on a POD16, without keys and values kept and with all weights loaded for every token, at 7.0
and 7.02 tokens/s with one prompt and 7.55 with two [llama_notebook]; the scenario `llama2_7b_pod16_streamed` is that.
Half of its step waits for weights, although each load runs under the layer before it (on 64 I/O tiles, an assumption).
The bandwidth was never published. It is fitted, together with what the host takes for a logit, to four rows: the first
two of these and GPT-J in 16 and in 4 bits. So the row tests how the parts add up, and is no independent prediction.

```console
$ podsim run llama2_7b_pod16_streamed --set "system.machine.streaming_memory.bandwidth_per_machine=26 GB/s"
```

Predicted steps per second, and how long a step waits:
"""


def llama_page() -> str:
    """LLaMa2-7B on more and more IPUs, and at other bandwidths."""
    streamed, resident = rows_of_pods(STREAMED), rows_of_pods(RESIDENT)
    return "\n".join(
        [
            SIMULATED_NOTE,
            _INTRO,
            "## Weights streamed\n",
            _pod_table(streamed),
            "",
            _streamed_conclusion(streamed),
            "\n## Weights on the chips\n",
            _pod_table(resident),
            "",
            _resident_conclusion(resident),
            _SENSITIVITY_INTRO,
            table(*_header_and_rows(sensitivity_cells(sensitivity())), text_columns=()),
            "",
            _sensitivity_conclusion(),
            "",
        ]
    )


def _sensitivity_conclusion() -> str:
    machine = load_scenario(SCENARIO).spec.system.machine
    shared, own = machine.streaming_memory.machine_bytes_per_s, machine.streaming_memory.read_bytes_per_s
    return paragraph(
        f"""The {machine.ipu_count} IPUs of a machine share that memory, {shared / machine.ipu_count / _GIGA:.3g} GB/s
        for each. The {own / _GIGA:g} GB/s that one IPU can read alone do not act here. The table begins at the least
        that the run can have needed, all weights at 7.02 tokens/s."""
    )


def _pod_table(rows: Sequence[PodRow]) -> str:
    header = ["variant", "IPUs", "shards x stages", "sequences", "tokens/s", "on Bow", "per token", "first token"]
    header += [*BOUNDS, "bound"]
    return table(header, map(_pod_cells, rows), text_columns={0, len(header) - 1})


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
    return paragraph(
        f"""Streaming memory binds every row: all weights pass through it for every token, and each IPU brings its own
        share of it. From POD4 to POD16 throughput grows {growth:.2f} times and a token takes that much less time, as
        published: linear growth, falling latency [conductivity2024]. From {links.shards if links else "no"} shards on,
        links take longer than compute. What holds growth back is the call of the host and the sums over links, which
        do not shrink. Shards end at {widest.shards}, the number of heads. More IPUs can only be further stages: a step
        still takes {step_ms:.1f} ms on {last.ipu_count} IPUs, so **one sequence gains nothing beyond
        {widest.ipu_count} IPUs**; a second one in flight adds {second:.0%}. Bow changes next to nothing, as little of
        the step follows its clock."""
    )


def _widest_one(rows: Sequence[PodRow]) -> PodRow:
    """The row with the most shards and one stage."""
    return max((row for row in rows if row.stages == 1), key=lambda row: row.shards)


def _resident_conclusion(rows: Sequence[PodRow]) -> str:
    few, wide = rows[0], _widest_one(rows)
    links_ms = [_part_ms(row, ["links"]) for row in (few, wide)]
    tiles_ms = [_part_ms(row, ["compute", "exchange"]) for row in (few, wide)]
    return paragraph(
        f"""Without streaming, the call of the host binds: no single batch makes more than
        {1 / few.step_parts_s["host"]:.0f} steps/s, whatever the IPUs. What is left to gain is lost to links: from
        {few.shards} to {wide.shards} shards, compute and exchange go from {tiles_ms[0]:.1f} to {tiles_ms[1]:.1f} ms of
        a step, while the {2 * (wide.shards - 1)} steps of the ring for each sum take {links_ms[1]:.1f} ms instead of
        {links_ms[0]:.1f}. **Throughput of one sequence stops to rise at {few.shards} shards.** In prefill links bind
        already. Stages add memory, and room for more sequences at a time; those wait for each other at the last stage,
        which holds the call."""
    )


def _part_ms(row: PodRow, bounds: Iterable[str]) -> float:
    return sum(row.step_parts_s[bound] for bound in bounds) * _MS_PER_S


def _header_and_rows(cells: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    return cells[0], cells[1:]
