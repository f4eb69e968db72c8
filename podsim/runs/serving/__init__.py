"""Serving under load: arrival, queueing and batching of requests."""

from podsim.runs.serving.arrivals import Load, Requests, Users, read_arrivals
from podsim.runs.serving.outcome import Percentiles, QueueLength, ServingOutcome, Timeline
from podsim.runs.serving.saturation import LoadPoint, Saturation, load_curve, saturation
from podsim.runs.serving.server import Batching, ContinuousBatching, Service, StaticBatching, StepTimes, serve

__all__ = [
    "Batching",
    "ContinuousBatching",
    "Load",
    "LoadPoint",
    "Percentiles",
    "QueueLength",
    "Requests",
    "Saturation",
    "Service",
    "ServingOutcome",
    "StaticBatching",
    "StepTimes",
    "Timeline",
    "Users",
    "load_curve",
    "read_arrivals",
    "saturation",
    "serve",
]
