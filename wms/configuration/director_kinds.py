"""The kinds of directors that a configuration file may name."""

from enum import StrEnum


class DirectorKind(StrEnum):
    """What a director goes through (PIL §2.3)."""

    SITE = "site"
    TASK_QUEUE = "taskqueue"
