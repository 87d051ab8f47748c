"""The sample VO: its file, and who can log in."""

from dataclasses import dataclass
from pathlib import Path

import yaml

FILE = Path(__file__).parent / "sample.yaml"
#: Of the users, the one who may see and kill everybody's jobs.
OPERATOR = "olga"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    """One user of the sample.

    Args:
        may: what this user is, in words.
        administers: whether the administration is open to this user.
    """

    username: str
    password: str
    may: str
    administers: bool


def configuration(*, machine: str) -> str:
    """Return the configuration of the sample, in which nodes of this machine's platform run the jobs of all others.

    Args:
        machine: the platform of this machine, as its pilots detect it.
    """
    sample = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    platforms = sample["platforms"]
    platforms[machine] = sorted({machine, *platforms})
    return yaml.safe_dump(sample, sort_keys=False)


def log_ins() -> list[LogIn]:
    """Return the users of the sample, as its file says."""
    sample = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    managed = {manager: vo["name"] for vo in sample["vos"] for manager in vo["managers"]}
    found = []
    for user in sample["users"]:
        roles = ["operator"] if user.get("operator") else []
        roles += [f"manager of {managed[user['username']]}"] if user["username"] in managed else []
        roles += [", ".join(user["groups"])] if user.get("groups") else []
        found.append(
            LogIn(
                username=user["username"],
                password=user["password"],
                may="; ".join(roles),
                administers=bool(user.get("staff")),
            )
        )
    return found
