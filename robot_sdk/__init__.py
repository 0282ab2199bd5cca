"""The robot-side runtime SDK."""

from robot_sdk.version import __version__

__all__ = ["__version__"]
