"""Wrong scenarios of transformers: what is wrong, where, what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str]]
HEAD = "system: ipu_pod4\nsoftware: pytorch_sdk_3.1\n"
LAYOUT = """\
parallelism:
  micro_batch_size: 1
  accumulation_factor: 16
  replication_factor: 1
  layers_per_ipu: [3, 3, 3, 3]
"""
BERT = HEAD + "model: {kind: bert, size: base}\ndata: {sequence_length: 128}\n" + LAYOUT
VIT = HEAD + "model: {kind: vit, size: base}\n" + LAYOUT
GPT = HEAD + "model: {kind: decoder, size: gpt2_small}\ndata: {sequence_length: 128}\n" + LAYOUT
T5 = HEAD + "model: {kind: t5, size: small}\ndata: {source_length: 64, target_length: 64}\n" + LAYOUT

CASES = {
    "pre-training without masked tokens": (
        BERT,
        "s.yaml:4:1 [data.masked_token_count]: pre-training predicts masked positions; their number is missing\n"
        "  do: add it, for example 76 of 512 tokens; or set `model.task`",
    ),
    "packs in fine-tuning": (
        BERT.replace("base}", "base, task: span}").replace(
            "128}", "128, packing: {sequences_per_pack: 2.0, max_sequences_per_pack: 3}}"
        ),
        "s.yaml:4:30 [data.packing]: packs are modelled for pre-training, not for `task: span`\n"
        "  do: leave it out, or `--set data.packing=null`",
    ),
    "patches larger than an image": (
        VIT.replace("base}", "base, patch_size: 225}"),
        "s.yaml:3:1 [model]: patches of 225 pixels are larger than images of 224\n"
        "  do: change image_size or patch_size",
    ),
    "too few positions": (
        GPT.replace("128}", "2048}"),
        "s.yaml:4:8 [data.sequence_length]: 2048 tokens, the model has 1024 positions\n"
        "  do: shorten it, or raise model.position_count",
    ),
    "a bias of nothing": (
        GPT.replace("gpt2_small}", "gpt2_small, bias: [qkv, norm]}"),
        "s.yaml:3:42 [model.bias]: `norm` is not one of `qkv`, `projection`, `feed_forward`, `head`\n"
        "  do: write for example `[qkv, projection]`",
    ),
    "a bias twice": (
        GPT.replace("gpt2_small}", "gpt2_small, bias: [qkv, qkv]}"),
        "s.yaml:3:42 [model.bias]: `qkv` is in the list twice\n  do: keep one of the two",
    ),
    "a bias in words": (
        GPT.replace("gpt2_small}", "gpt2_small, bias: qkv}"),
        "s.yaml:3:42 [model.bias]: needs true, false or a list of dense layers, not `qkv`\n"
        "  do: write for example `[qkv, projection]`",
    ),
    "more is turned than heads are wide": (
        GPT.replace("gpt2_small}", "gptj_6b, rotary_size: 258}"),
        "s.yaml:3:1 [model]: rotary_size 258 of heads that are 256 wide: pairs of elements are turned\n"
        "  do: write an even number up to 256, or leave rotary_size out",
    ),
    "an odd number is turned": (
        GPT.replace("gpt2_small}", "gptj_6b, rotary_size: 63}"),
        "s.yaml:3:1 [model]: rotary_size 63 of heads that are 256 wide: pairs of elements are turned\n"
        "  do: write an even number up to 256, or leave rotary_size out",
    ),
    "learned positions that turn": (
        GPT.replace("gpt2_small}", "gpt2_small, rotary_size: 32}"),
        "s.yaml:3:1 [model]: learned positions turn nothing; rotary_size is 32\n"
        "  do: leave rotary_size out, or write `rotary: true`",
    ),
    "too few experts": (
        GPT.replace("gpt2_small}", "gpt2_small, experts: {count: 1, per_token: 2}}"),
        "s.yaml:3:42 [model.experts]: a token cannot go through 2 of 1 expert\n  do: use a per_token of at most 1",
    ),
    "experts that are a number": (
        GPT.replace("gpt2_small}", "gpt2_small, experts: 8}"),
        "s.yaml:3:42 [model.experts]: needs a mapping of keys to values, not `8`\n"
        "  do: write `key: value` lines under it",
    ),
    "too few micro-batches for a head of its own": (
        GPT.replace("16", "8"),
        "s.yaml:7:3 [parallelism.accumulation_factor]: 8 micro-batches are too few for 5 pipeline stages\n"
        "  do: use 2·5 - 1 = 9 or more",
    ),
    "two places of the head": (
        GPT.replace(
            "layers_per_ipu: [3, 3, 3, 3]",
            "head_on: last_ipu\n  stages: [{ipu: 0, embedding: true, layers: 12, head: true}]",
        ),
        "s.yaml:5:1 [parallelism]: `head_on` and `stages` are both given\n  do: write `head: true` in the stage that "
        "holds it",
    ),
    "IPUs without anything": (
        GPT.replace("[3, 3, 3, 3]", "[6, 6, 0, 0]"),
        "s.yaml:9:3 [parallelism.layers_per_ipu]: nothing is on IPU 2, 3\n  do: place layers there, or use fewer IPUs",
    ),
    "a call longer than the run": (
        VIT.replace("[3, 3, 3, 3]", "[3, 3, 3, 3]\n  updates_per_session_call: 8") + "run: {weight_updates: 5}\n",
        "s.yaml:9:3 [parallelism.updates_per_session_call]: 8 weight updates in a call; the run has 5\n"
        "  do: use at most 5",
    ),
    "an encoder behind its decoder": (
        T5.replace(
            "layers_per_ipu: [3, 3, 3, 3]",
            "stages: [{ipu: 0, embedding: true, decoder_layers: 6}, {ipu: 1, layers: 6, head: true}]",
        ),
        "s.yaml:9:3 [parallelism.stages]: a stage has encoder layers behind decoder layers\n"
        "  do: place the encoder first",
    ),
    "classes without their head": (
        BERT.replace("base}", "base, task: span, class_count: 3}"),
        "s.yaml:3:1 [model]: class_count has no meaning with `task: span`\n  do: leave it out",
    ),
    "training and generation": (
        GPT + "generation: {prompt_tokens: 5, output_tokens: 5}\n",
        "s.yaml:10:1 [generation]: `data` (training) and `generation` are both given\n  do: keep one of the two",
    ),
    "decoder layers forgotten": (
        T5.replace("layers_per_ipu: [3, 3, 3, 3]", "stages: [{ipu: 0, embedding: true, layers: 6, head: true}]"),
        "s.yaml:9:3 [parallelism.stages]: decoder layers add up to 0, the model has 6\n  do: place 6 of them",
    ),
    "epochs of an unknown set": (
        VIT + "run: {epochs: 3}\n",
        "s.yaml:9:7 [run.epochs]: the size of the training set is not known\n  do: add data.samples_per_epoch",
    ),
    "reference runs of another model": (
        VIT + "run: {samples_to_converge: {reference_convergence: true}}\n",
        "s.yaml:9:7 [run.samples_to_converge]: MLPerf has reference runs of BERT only\n"
        "  do: give a number of samples, tokens or epochs",
    ),
    "two ends": (
        VIT + "run: {epochs: 3, weight_updates: 10}\n",
        "s.yaml:9:1 [run]: `epochs` and `weight_updates` are both given\n"
        "  do: keep one of the two; `null` takes the other away",
    ),
}


@pytest.mark.parametrize(("text", "message"), CASES.values(), ids=CASES)
def test_a_wrong_scenario(podsim: Run, text: str, message: str) -> None:
    Path("s.yaml").write_text(text)
    assert podsim("run", "s.yaml") == (2, f"error: {message}\n")
