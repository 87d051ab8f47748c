"""Words of the configuration file that no app declares."""

from enum import StrEnum


class DirectorKind(StrEnum):
    """What a director goes through (PIL §2.3)."""

    SITE = "site"
    TASK_QUEUE = "taskqueue"
