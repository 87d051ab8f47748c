"""The version of the repository: of client, pilot agent and server (``pyproject.toml`` reads it from here)."""

__version__ = "0.1.0"
