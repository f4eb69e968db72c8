"""Uncertain inputs of memory: what is known to have run fits wherever in their ranges they lie."""

from __future__ import annotations
