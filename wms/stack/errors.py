"""The base error of this package."""


class StackError(Exception):
    """The system cannot run on this machine as configured; the text is one sentence for the operator."""
