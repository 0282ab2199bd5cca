"""The version of the SDK: the build reads it here, and so does `robot_sdk.__version__`."""

__version__ = "0.1.0"
