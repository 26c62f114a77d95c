"""The one place that holds the version: `setup.py` and the package both read it from here."""

__version__ = "0.1.0"
