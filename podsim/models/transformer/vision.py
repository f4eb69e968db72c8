"""Vision transformers (ViT, DINO's backbone) in training: images as sequences of patches [dosovitskiy2021]."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.models.block import HostTensors, Workload
from podsim.models.transformer.build import layer_stack
from podsim.models.transformer.embedding import PatchEmbedding, patch_embedding
from podsim.models.transformer.head import ClassHead, head_block
from podsim.models.transformer.shape import WHOLE, Batch, LayerShape, Shards


@dataclass(frozen=True, slots=True)
class VisionShape:
    """Dimensions of a vision transformer."""

    layer_count: int
    hidden_size: int
    feed_forward_size: int  # inner width of the feed-forward block
    head_count: int
    patches: PatchEmbedding  # embedding of images
    class_count: int  # classes of the head, which reads the class token or the mean of the patches
    # True if scores are divided by the root of a head's width, False if multiplied by its inverse
    divides_scores: bool = True
    attention_padding: bool = False  # True if attention pads sequences to whole pieces that tiles copy


def vision_transformer(
    shape: VisionShape,
    batch: Batch,  # images; the sequence length is that of the patches
    bytes_per_value: int,  # size of an image's value on its way from the host [B]
    *,
    decoded_by_host: bool,  # True if host servers decode each image
    name: str = "ViT",
    sharing: Shards = WHOLE,
) -> Workload:
    """Return the training graph of a vision transformer, or that of its largest shard.

    Shards do not divide patches and classes.
    """
    layer = LayerShape(
        batch=batch,
        layer_count=shape.layer_count,
        hidden_size=shape.hidden_size,
        feed_forward_size=shape.feed_forward_size,
        head_count=shape.head_count,
        kv_head_count=shape.head_count,
        head_size=shape.hidden_size // shape.head_count,
        pre_norm=True,
        mask="none",
        divides_scores=shape.divides_scores,
        inner_dropout=True,
        qkv_products=3,
        attention_padding=shape.attention_padding,
        sharing=sharing,
    )
    mean = not shape.patches.class_token
    head = ClassHead(shape.class_count, pooler=False, name="classes", final_norm=True, reads_mean=mean)
    pixels = batch.size * shape.patches.image_size**2
    return Workload(
        name=name,
        **layer_stack(layer, patch_embedding(layer, shape.patches), head_block(layer, head)),
        samples_per_micro_batch=batch.size,
        host_input_bytes=pixels * shape.patches.channel_count * bytes_per_value,
        host_decode_count=batch.size if decoded_by_host else 0,
        host_tensors=HostTensors(
            inputs=1,
            labels=1,
            results=1,
            result_elements=batch.size * (shape.class_count or shape.hidden_size),
        ),
        activation_dtype=batch.dtype,
    )
