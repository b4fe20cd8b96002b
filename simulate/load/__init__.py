"""Load: the requests that a simulated server receives."""

from simulate.load.requests import Requests

__all__ = ["Requests"]
