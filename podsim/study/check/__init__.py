"""Regression checks: compare the metrics of scenarios with agreed ones, and explain changes."""
