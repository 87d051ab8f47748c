"""The one error of this package."""


class StackError(Exception):
    """The system cannot run on this machine as asked; the text is one sentence for whoever started it."""
