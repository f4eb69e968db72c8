"""Transformers from one builder: encoders, decoders, both together, and vision; in training and in generation.

A model is an embedding, layers of an attention and a feed-forward block each, and a head.
"""
