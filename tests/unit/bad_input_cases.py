"""Wrong scenarios with the messages that their readers should get."""

from __future__ import annotations

from collections.abc import Callable

from podsim.scenario import TrainingScenario, shipped_names
from podsim.scenario.families.bert import BertSpec
from podsim.scenario.transformer_training import ParallelismSpec

Run = Callable[..., tuple[int, str]]
ERROR, INFEASIBLE = 2, 3
SCENARIO = """\
system: ipu_pod16
software: popart_sdk_2.3
model: {kind: bert, size: large}
data: {sequence_length: 128, masked_token_count: 20}
parallelism:
  micro_batch_size: 1
  accumulation_factor: 96
  replication_factor: 4
  layers_per_ipu: [6, 6, 6, 6]
optimizer: {first_moment: fp16}
"""
PODS, SOFTWARE = (", ".join(shipped_names()[kind]) for kind in ("systems", "software"))
TOP_KEYS, PARALLELISM_KEYS, MODEL_KEYS = (
    ", ".join(spec.model_fields) for spec in (TrainingScenario, ParallelismSpec, BertSpec)
)
_CLOCK = "system: {base: ipu_pod16, machine: {ipu: {clock: %s}}}"
_ZERO_DIVISOR = "{vertices: {reduction: {output_vector: {half: 0}}}}"
_CLOCK_AT = "s.yaml:1:43 [system.machine.ipu.clock]: "
_CLOCK_RANGE = "write 1 MHz to 100 GHz, for example `1.85 GHz`"


def error_of(text: str, code: int = ERROR) -> tuple[int, str]:
    """Exit code and standard error of a message."""
    return code, f"error: {text}\n"


def _clock(written: str, what: str, do: str) -> tuple[str, str, str]:
    return "system: ipu_pod16", _CLOCK % written, f"{_CLOCK_AT}{what}\n  do: {do}"


def _layers(written: str, what: str, do: str) -> tuple[str, str, str]:
    return "size: large", f"size: large, layer_count: {written}", f"s.yaml:3:34 [model.layer_count]: {what}\n  do: {do}"


KEYS = {
    "unknown key": (
        "software:",
        "colour: red\nsoftware:",
        f"s.yaml:2:1: unknown key `colour`\n  do: remove it; known here: {TOP_KEYS}",
    ),
    "misspelt key": (
        "micro_batch_size",
        "micro_bach_size",
        "s.yaml:5:1 [parallelism]: key `micro_batch_size` is missing\n"
        "  do: add `micro_batch_size:` (Samples (sequences, packs or images) per run of the graph)\n"
        "s.yaml:6:3 [parallelism]: unknown key `micro_bach_size`\n"
        f"  do: did you mean `micro_batch_size`? known here: {PARALLELISM_KEYS}",
    ),
    "misspelt key of a quantity": (
        "system: ipu_pod16",
        "system: {base: ipu_pod16, machine: {ipu_count: {valeu: 4, source: mine, basis: assumed}}}",
        "s.yaml:1:37 [system.machine.ipu_count]: unknown key `valeu`\n"
        "  do: did you mean `value`? known here: basis, date, level, note, range, source, value",
    ),
    "missing key": (
        "data: {sequence_length: 128, masked_token_count: 20}",
        "data: {masked_token_count: 20}",
        "s.yaml:4:1 [data]: key `sequence_length` is missing\n"
        "  do: add `sequence_length:` (Tokens per sequence, or per pack)",
    ),
    "missing section": (
        "data: {sequence_length: 128, masked_token_count: 20}\n",
        "",
        "s.yaml:1:1: key `data` is missing\n  do: add `data:` (Training data)",
    ),
    "repeated key": (
        "  micro_batch_size: 1\n",
        "  micro_batch_size: 1\n  micro_batch_size: 2\n",
        "s.yaml:7:3 [parallelism.micro_batch_size]: key `micro_batch_size` appears twice, first at s.yaml:6:3\n"
        "  do: keep one of the two",
    ),
    "merge key": (
        "model: {kind: bert, size: large}",
        "model: {<<: {kind: bert}, size: large}",
        "s.yaml:3:9 [model.<<]: merge keys are not read\n  do: write the keys out, or name a file under `base:`",
    ),
    "key that is a list": (
        "software:",
        "? [a, b]\n: 1\nsoftware:",
        "s.yaml:2:3: a key must be text\n  do: write `key: value` lines",
    ),
    "tag": (
        "system: ipu_pod16",
        "system: !include ipu_pod16.yaml",
        "s.yaml:1:9 [system]: tag `!include` has no meaning here\n  do: remove it",
    ),
}

REFERENCES = {
    "missing system": (
        "system: ipu_pod16",
        "system: ipu_pod17",
        f"s.yaml:1:1 [system]: no pod `ipu_pod17` was found\n  do: did you mean `ipu_pod16`? known here: {PODS}",
    ),
    "missing base of a system": (
        "system: ipu_pod16",
        "system: {base: nothing_like_it}",
        f"s.yaml:1:10 [system.base]: no pod `nothing_like_it` was found\n  do: check the path; known here: {PODS}",
    ),
    "missing software": (
        "popart_sdk_2.3",
        "popart_sdk_2.4",
        "s.yaml:2:1 [software]: no software stack `popart_sdk_2.4` was found\n"
        f"  do: did you mean `popart_sdk_2.5`? known here: {SOFTWARE}",
    ),
    "missing chip": (
        "system: ipu_pod16",
        "system: {base: ipu_pod16, machine: {ipu: ipu_gc300}}",
        "s.yaml:1:37 [system.machine.ipu]: no IPU `ipu_gc300` was found\n"
        "  do: did you mean `ipu_gc200`? known here: ipu_bow, ipu_c600, ipu_gc2, ipu_gc200",
    ),
    "a machine in place of a pod": (
        "system: ipu_pod16",
        "system: ipu_m2000",
        "s.yaml:1:1 [system]: `ipu_m2000` describes a machine; a pod is needed here\n  do: name the file of a pod",
    ),
    "a base that is no name": (
        "system: ipu_pod16",
        "system: {base: [ipu_pod16]}",
        "s.yaml:1:10 [system.base]: needs the name of a file, not a list\n  do: write for example `base: ipu_pod64`",
    ),
    "a number in place of a system": (
        "system: ipu_pod16",
        "system: 16",
        "s.yaml:1:1 [system]: needs the name of a pod, or a mapping, not `16`\n"
        "  do: write for example `system: ipu_pod64`",
    ),
}

QUANTITIES = {
    "wrong unit": _clock("1.3 GB", "unit `GB` does not fit here", "write for example `1.85 GHz`"),
    "no unit": _clock("1.3e9", "`1300000000.0` has no unit", "write for example `1.85 GHz`"),
    "not a quantity": _clock("fast", "`fast` is not a quantity", "write for example `1.85 GHz`"),
    "a list": _clock("[1 GHz]", "needs a quantity, not a list", "write for example `1.85 GHz`"),
    "no value": _clock("null", "needs a quantity, not nothing", "write for example `1.85 GHz`"),
    "negative": _clock("-1 GHz", "`-1 GHz` is too small", _CLOCK_RANGE),
    "zero": _clock("0 GHz", "`0 GHz` is too small", _CLOCK_RANGE),
    "NaN": _clock("nan GHz", "`nan GHz` is not a finite number", _CLOCK_RANGE),
    "infinite": _clock("inf GHz", "`inf GHz` is not a finite number", _CLOCK_RANGE),
    "absurd": _clock("1e-300 Hz", "`1e-300 Hz` is too small", _CLOCK_RANGE),
    "a value without its source": _clock(
        "{value: 1 GHz}", "needs `source` beside `value`", "add it, or write the quantity alone, `1.85 GHz`"
    ),
    "an unknown basis": (
        "system: ipu_pod16",
        _CLOCK % "{value: 1 GHz, source: mine, basis: guessed}",
        "s.yaml:1:79 [system.machine.ipu.clock.basis]: `guessed` is not one of `published`, `measured`, `derived`, "
        "`calibrated` or `assumed`\n  do: write one of them",
    ),
    "a range that is a number": _clock(
        "{value: 1 GHz, source: mine, basis: assumed, range: 3}",
        "range needs a list of two quantities",
        "write for example `range: [1.85 GHz, 1.85 GHz]`",
    ),
    "a range that ends before it starts": _clock(
        "{value: 1 GHz, source: mine, basis: assumed, range: [2 GHz, 1 GHz]}",
        "range ends before it starts",
        "write the smaller bound first",
    ),
    "a range above its value": _clock(
        "{value: 1 GHz, source: mine, basis: assumed, range: [1.1 GHz, 2 GHz]}",
        "`1 GHz` lies outside its range, 1.1 GHz to 2 GHz",
        "widen `range` until it holds `value`",
    ),
    "a range below its value": _clock(
        "{value: 1 GHz, source: mine, basis: assumed, range: [0.5 GHz, 999 MHz]}",
        "`1 GHz` lies outside its range, 0.5 GHz to 999 MHz",
        "widen `range` until it holds `value`",
    ),
    "half an IPU": (
        "system: ipu_pod16",
        "system: {base: ipu_pod16, machine: {ipu_count: 3.5}}",
        "s.yaml:1:37 [system.machine.ipu_count]: `3.5` is not a whole number\n  do: write 1 to 1024, for example `4`",
    ),
    "an efficiency above one": (
        "system: ipu_pod16",
        "system: {base: ipu_pod16, machine: {ipu_link: {efficiency: 120 %}}}",
        "s.yaml:1:48 [system.machine.ipu_link.efficiency]: `120 %` is too large\n"
        "  do: write 1 % to 100 %, for example `85 %`",
    ),
}

NUMBERS = {
    "text": _layers("many", "needs a whole number, not `many`", "write for example `12`"),
    "fraction": _layers("3.5", "needs a whole number, not `3.5`", "write for example `12`"),
    "true": _layers("true", "needs a whole number, not `true`", "write for example `12`"),
    "nothing": _layers("null", "needs a whole number, not nothing", "write for example `12`"),
    "a mapping": _layers("{a: 1}", "needs a whole number, not a mapping", "write for example `12`"),
    "zero": _layers("0", "`0` is too small", "write 1 or more"),
    "negative": _layers("-24", "`-24` is too small", "write 1 or more"),
    "infinite": _layers(".inf", "needs a whole number, not `inf`", "write for example `12`"),
    "NaN": _layers(".nan", "needs a whole number, not `nan`", "write for example `12`"),
    "absurd": _layers("9000000000000", "`9000000000000` is too large", "write 10000 or less"),
    "NaN ratio": (
        "data: {",
        "data: {dropout: .nan, ",
        "s.yaml:4:8 [data.dropout]: `nan` is not a finite number\n  do: write for example `0.5`",
    ),
    "certain dropout": (
        "data: {",
        "data: {dropout: 1.0, ",
        "s.yaml:4:8 [data.dropout]: `1.0` is too large\n  do: write a number below 1",
    ),
    "a flag in words": (
        "size: large",
        "size: large, pooler: yes",
        "s.yaml:3:34 [model.pooler]: needs true or false, not `yes`\n  do: write `true` or `false`",
    ),
    "text without quotes": (
        "system: ipu_pod16",
        "description: 16\nsystem: ipu_pod16",
        's.yaml:1:1 [description]: needs text, not `16`\n  do: put it in quotes, `"16"`',
    ),
    "no such choice": (
        "size: large",
        "size: lagre",
        "s.yaml:3:21 [model.size]: `lagre` is not one of `tiny`, `base` or `large`\n  do: did you mean `large`?",
    ),
    "a family that is not known": (
        "kind: bert",
        "kind: resnext",
        "s.yaml:3:9 [model.kind]: `resnext` is not a family of models\n"
        "  do: did you mean `resnet`? known here: bert, vit, t5, resnet, efficientnet, efficientnet_v2, "
        "conductivity_cnn, decoder, graph, schnet",
    ),
    "an empty list": (
        "[6, 6, 6, 6]",
        "[]",
        "s.yaml:9:3 [parallelism.layers_per_ipu]: has too few entries: 0\n  do: write 1 or more",
    ),
    "a number in place of a list": (
        "[6, 6, 6, 6]",
        "24",
        "s.yaml:9:3 [parallelism.layers_per_ipu]: needs a list, not `24`\n  do: write for example `[6, 6, 6, 6]`",
    ),
    "memory above one": (
        "data: {",
        "memory: {available_memory_proportion: 1.5}\ndata: {",
        "s.yaml:4:10 [memory.available_memory_proportion]: `1.5` is not above 0 and at most 1\n"
        "  do: write for example `0.2`",
    ),
    "samples that never come": (
        "data: {",
        "run: {samples_to_converge: .inf}\ndata: {",
        "s.yaml:4:7 [run.samples_to_converge]: `inf` is not a number of samples\n"
        "  do: write a number from 1 to 1e15, a list of them, `{runs: [...], batch_size: ...}` or "
        "`{reference_convergence: true}`",
    ),
}

SUMS = {
    "layers": (
        "[6, 6, 6, 6]",
        "[6, 6, 6, 7]",
        "s.yaml:9:3 [parallelism.layers_per_ipu]: layers add up to 25, the model has 24\n  do: place 24 layers",
    ),
    "replicas": (
        "replication_factor: 4",
        "replication_factor: 5",
        "s.yaml:8:3 [parallelism.replication_factor]: 5 replicas of 4 IPUs need 20 IPUs; IPU-POD16 has 16\n"
        "  do: use at most 4",
    ),
    "IPUs of a replica": (
        "[6, 6, 6, 6]",
        "[5, 5, 5, 5, 4]",
        "s.yaml:8:3 [parallelism.replication_factor]: 4 replicas of 5 IPUs need 20 IPUs; IPU-POD16 has 16\n"
        "  do: use at most 3",
    ),
    "IPUs of the pod": (
        "[6, 6, 6, 6]",
        "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 6, 6, 6]",
        "s.yaml:5:1 [parallelism]: a link domain of 16 IPUs has no room for a replica of 32 IPUs\n"
        "  do: use fewer IPUs per replica, or another pod",
    ),
    "micro-batches": (
        "accumulation_factor: 96",
        "accumulation_factor: 8",
        "s.yaml:7:3 [parallelism.accumulation_factor]: 8 micro-batches are too few for 5 pipeline stages\n"
        "  do: use 2·5 - 1 = 9 or more",
    ),
    "micro-batches that a schedule cannot divide": (
        "accumulation_factor: 96",
        "accumulation_factor: 96\n  schedule: grouped",
        "s.yaml:7:3 [parallelism.accumulation_factor]: 96 micro-batches are no multiple of 2·5 = 10, twice the stages "
        "of the grouped schedule\n  do: use 90 or 100",
    ),
    "too few micro-batches of a schedule": (
        "accumulation_factor: 96",
        "accumulation_factor: 4\n  schedule: interleaved",
        "s.yaml:7:3 [parallelism.accumulation_factor]: 4 micro-batches are too few for 5 pipeline stages\n"
        "  do: use 5 or more",
    ),
    "a schedule that is none": (
        "accumulation_factor: 96",
        "accumulation_factor: 96\n  schedule: 1f1b",
        "s.yaml:8:3 [parallelism.schedule]: `1f1b` is not one of `lock_step`, `grouped`, `interleaved` or "
        "`sequential`\n  do: write one of them",
    ),
    "a schedule without a pipeline": (
        "layers_per_ipu: [6, 6, 6, 6]",
        "execution: phased\n  schedule: grouped",
        "s.yaml:5:1 [parallelism]: phased execution has no pipeline, and `schedule` is given\n"
        "  do: leave it out, or write `execution: pipelined`",
    ),
    "more chunks than layers": (
        "layers_per_ipu: [6, 6, 6, 6]",
        "pipeline_stages: 4\n  chunks_per_ipu: 7",
        "s.yaml:10:3 [parallelism.chunks_per_ipu]: 7 chunks on each of 4 IPUs for 24 layers\n  do: use at most 6",
    ),
    "chunks of layers that are listed": (
        "layers_per_ipu: [6, 6, 6, 6]",
        "layers_per_ipu: [6, 6, 6, 6]\n  chunks_per_ipu: 2",
        "s.yaml:5:1 [parallelism]: `chunks_per_ipu` needs to know how many IPUs hold the layers in turn\n"
        "  do: write `pipeline_stages:` in place of `layers_per_ipu:` or `stages:`",
    ),
    "chunks on one IPU": (
        "layers_per_ipu: [6, 6, 6, 6]",
        "pipeline_stages: 1\n  chunks_per_ipu: 2",
        "s.yaml:5:1 [parallelism]: one IPU waits for no other, however many chunks it holds\n"
        "  do: leave chunks_per_ipu out",
    ),
    "chunks that shorten nothing": (
        "layers_per_ipu: [6, 6, 6, 6]",
        "pipeline_stages: 4\n  chunks_per_ipu: 2\n  schedule: interleaved",
        "s.yaml:5:1 [parallelism]: chunks shorten the cycles of other schedules, and not what IPUs wait for in "
        "`interleaved`\n  do: write `schedule: lock_step` or `grouped`, or leave chunks_per_ipu out",
    ),
    "micro-batches that chunks cannot divide": (
        "accumulation_factor: 96\n  replication_factor: 4\n  layers_per_ipu: [6, 6, 6, 6]",
        "accumulation_factor: 90\n  replication_factor: 4\n  pipeline_stages: 4\n  chunks_per_ipu: 2",
        "s.yaml:7:3 [parallelism.accumulation_factor]: 90 micro-batches are no multiple of 4, the IPUs, or groups of "
        "IPUs, that hold chunks in turn\n  do: use 88 or 92",
    ),
    "two placements": (
        "replication_factor: 4",
        "replication_factor: 4\n  stages: [{ipu: 0, embedding: true, layers: 24, head: true}]",
        "s.yaml:5:1 [parallelism]: `layers_per_ipu` and `stages` are both given\n  do: keep one of the two",
    ),
    "an empty stage": (
        "layers_per_ipu: [6, 6, 6, 6]",
        "stages: [{ipu: 0}]",
        "s.yaml:9:12 [parallelism.stages.0]: the stage holds nothing\n"
        "  do: give it embedding, layers, attention, feed_forward or head",
    ),
    "masked tokens": (
        "masked_token_count: 20",
        "masked_token_count: 200",
        "s.yaml:4:1 [data]: masked_token_count 200 is above sequence_length 128\n  do: lower it",
    ),
    "heads": (
        "size: large",
        "size: large, head_count: 7",
        "s.yaml:3:1 [model]: head_count 7 does not divide hidden_size 1024\n  do: change one of the two",
    ),
    "an odd machine": (
        "system: ipu_pod16",
        "system: {base: ipu_pod16, machine: {ipu_count: 3}}",
        "s.yaml:1:27 [system.machine]: ipu_count 3 is odd; a rung holds two IPUs\n  do: use an even number, or one IPU",
    ),
    "a pod beyond reason": (
        "system: ipu_pod16",
        "system: {base: ipu_pod16, machine_count: 1000000}",
        "s.yaml:1:1 [system]: 4000000 IPUs are more than a pod can have\n  do: use at most 65536 IPUs",
    ),
    "a divisor of zero": (
        "system: ipu_pod16",
        f"system: {{base: ipu_pod16, machine: {{ipu: {_ZERO_DIVISOR}}}}}",
        "s.yaml:1:82 [system.machine.ipu.vertices.reduction.output_vector.half]: `0` is too small\n"
        "  do: write 1 or more",
    ),
    "a saving above the whole": (
        "system: ipu_pod16",
        "system: {base: ipu_pod16, machine: {ipu: {vertices: {amp: {retention_saving: 22}}}}}",
        "s.yaml:1:54 [system.machine.ipu.vertices.amp]: retention_saving 22 is above the 21 cycles of half_worker\n"
        "  do: lower it",
    ),
    "memory of five IPUs": (
        "data: {",
        "memory: {available_memory_proportion: [0.1, 0.1, 0.1, 0.1, 0.1]}\ndata: {",
        "s.yaml:4:10 [memory.available_memory_proportion]: 5 numbers for 4 IPUs of a replica\n"
        "  do: give one number, or 4",
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in {
        "keys": KEYS,
        "references": REFERENCES,
        "quantities": QUANTITIES,
        "numbers": NUMBERS,
        "sums": SUMS,
    }.items()
    for name, case in cases.items()
}
