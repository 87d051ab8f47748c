"""Groups of the operations in the OpenAPI document, by who uses them; wms.settings describes each."""

from enum import StrEnum


class Audience(StrEnum):
    """The users of an operation."""

    USERS = "Users"
    MANAGERS = "Managers"
    PILOTS = "Pilots"
    SITES = "Sites"
