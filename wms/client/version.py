"""The version of the repository: of the client, and of the server (``pyproject.toml`` reads it from here)."""

__version__ = "0.1.0"
