"""The sample VO: its configuration file and its users."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

FILE = Path(__file__).parent / "sample.yaml"
#: The user who may see and kill all jobs.
OPERATOR = "olga"
_PASSWORD_BYTES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    """One user of the sample.

    Args:
        may: the user's roles, in words.
        administers: whether the user has access to the administration.
    """

    username: str
    may: str
    administers: bool


def configuration(*, machine: str) -> str:
    """Return the configuration of the sample, in which nodes of this machine's platform run jobs of all platforms.

    Args:
        machine: the platform of this machine, as its pilots detect it.
    """
    sample = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    platforms = sample["platforms"]
    platforms[machine] = sorted({machine, *platforms})
    return yaml.safe_dump(sample, sort_keys=False)


def new_passwords() -> Mapping[str, str]:
    """Return a random password for each user."""
    return {user.username: secrets.token_urlsafe(_PASSWORD_BYTES) for user in log_ins()}


def variables(passwords: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables by which the sample file names the passwords."""
    return {f"WMS_DEMO_PASSWORD_{username.upper()}": password for username, password in passwords.items()}


def log_ins() -> list[LogIn]:
    """Return the users of the sample file."""
    sample = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    managed = {manager: vo["name"] for vo in sample["vos"] for manager in vo["managers"]}
    users = []
    for user in sample["users"]:
        roles = ["operator"] if user.get("operator") else []
        roles += [f"manager of {managed[user['username']]}"] if user["username"] in managed else []
        roles += [", ".join(user["groups"])] if user.get("groups") else []
        users.append(
            LogIn(
                username=user["username"],
                may="; ".join(roles),
                administers=bool(user.get("staff")),
            )
        )
    return users
