"""The version of the package."""

__version__ = "0.14.0"
