"""Serving a scenario: requests as it describes them, taken by copies of the model that it plans."""

from podsim.service.run import serve

__all__ = ["serve"]
