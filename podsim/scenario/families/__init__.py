"""Families of models: a module for each, with its keys, its checks and its builder."""
