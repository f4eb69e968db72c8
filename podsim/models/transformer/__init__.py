"""Transformers from one builder: an embedding, layers of attention and feed-forward blocks, and a head."""
