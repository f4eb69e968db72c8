"""Families of models: one module for each, with its keys, its checks and its builder."""
