"""Kinds of directors in a configuration file."""

from enum import StrEnum


class DirectorKind(StrEnum):
    """The objects over which a director iterates (PIL §2.3)."""

    SITE = "site"
    TASK_QUEUE = "taskqueue"
