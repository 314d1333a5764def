"""The checker: judges the logs of training runs, and scores them. It imports neither torch nor reference."""

__version__ = "0.1"
