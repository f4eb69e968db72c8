"""Results of runs: exact breakdowns, prediction intervals, reports and exports.

No module here computes durations or the order of events.
"""
