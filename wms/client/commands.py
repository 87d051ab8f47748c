"""The commands: each sends requests and returns the answer, and lines for people."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from getpass import getpass

from . import credentials
from .amounts import OFFERED_AMOUNTS
from .connection import API, Connection, Record, checked_url
from .devices import devices, keep_devices
from .errors import ServerRefusedError, WrongUsageError
from .printing import moment, plain, table


@dataclass(frozen=True)
class CommandOutput:
    """The output of a command."""

    #: With ``--json``.
    answer: Record
    #: Without.
    lines: Sequence[str]


#: Fields of an offer that are options of ``match-test``.
OFFER_FIELDS = (
    *("vo", "setup", "site", "ce", "queue", "platforms", "cpu_time_s", "tags", "required_tags"),
    *(*(amount.name for amount in OFFERED_AMOUNTS), "container"),
    *("job_types", "submit_pools", "grid_middleware", "owner", "group"),
)


def login(options: Namespace, environment: Mapping[str, str]) -> CommandOutput:
    """Prompt for missing values, log in, and store the token."""
    default = credentials.known_url(environment)
    url = checked_url(options.server or _prompt(f"Server [{default}]: ") or default)
    username = options.user or _prompt("User: ")
    password = getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not username or not password:
        raise WrongUsageError("A log-in needs a user name and a password.")
    body = {"username": username, "password": password}
    server = Connection(url, cookies=(cookies := devices(environment)))
    try:
        answer = server.post(f"{API}auth/token/", body, expects="token")
    except ServerRefusedError as error:
        if error.code != "code_needed":
            raise
        body["code"] = _prompt("Code of your second factor: ")
        answer = server.post(f"{API}auth/token/", body, expects="token")
    keep_devices(cookies)
    path = credentials.store(Connection(url, token=answer["token"]), environment=environment)
    result = {"server": url, "username": username, "expires_at": answer["expires_at"], "stored_in": str(path)}
    line = f"Logged in at {url} as {username} until {moment(answer['expires_at'])}."
    return CommandOutput(answer=result, lines=[line])


def explain(options: Namespace, environment: Mapping[str, str]) -> CommandOutput:
    """Show why a job waits."""
    query = {} if options.site is None else {"site": options.site}
    answer = credentials.logged_in(environment).get(f"{API}jobs/{options.job}/explain/", expects="summary", query=query)
    lines = [f"Job {answer['job_id']}, {plain(answer['status'])}: {plain(answer['summary'])}"]
    if answer["task_queue"] is not None:
        share = f"{answer['expected_share']:.1%}"
        rank = answer["priority_rank"]
        rank_text = "in no draw" if rank is None else f"rank {rank}"
        lines.append(f"Task queue {answer['task_queue']}, {rank_text}, expected share {share}")
    if answer["conditions"]:
        counts = [(c["name"], c["passed_queues"], c["failed_queues"], c["detail"]) for c in answer["conditions"]]
        lines += ["", *table(("CONDITION", "PASSED", "FAILED", "DETAIL"), counts)]
    if answer["queues"]:
        places = [(f"{q['site']} / {q['ce']} / {q['queue']}", q) for q in answer["queues"]]
        rows = [(place, "yes" if q["fits"] else "no", ". ".join(q["reasons"])) for place, q in places]
        lines += ["", *table(("QUEUE", "FITS", "WHY NOT"), rows)]
    lines += [f"Limit: {plain(limit)}" for limit in answer["limits"]]
    # Servers of earlier versions send no advice.
    lines += [f"Advice: {plain(sentence)}" for sentence in answer.get("advice", [])]
    # Servers of earlier versions send no warnings; the summary may be one of them.
    warnings = [warning for warning in answer.get("warnings", []) if warning != answer["summary"]]
    return CommandOutput(answer=answer, lines=[*lines, *(f"Warning: {plain(warning)}" for warning in warnings)])


def match_test(options: Namespace, environment: Mapping[str, str]) -> CommandOutput:
    """Show the task queues that an offer matches, and how many are left after each condition."""
    values = {field: getattr(options, field) for field in OFFER_FIELDS}
    offer = {field: value for field, value in values.items() if value is not None}
    answer = credentials.logged_in(environment).post(f"{API}matches/preview/", offer, expects="task_queues")
    queues = [
        (q["id"], q["owner"], q["group"], q["cpu_time_s"], f"{q['priority']:.6g}", q["jobs"], f"{q['chance']:.1%}")
        for q in answer["task_queues"]
    ]
    head = ("TASK QUEUE", "OWNER", "GROUP", "CPU TIME (S)", "PRIORITY", "JOBS", "CHANCE")
    lines = table(head, queues) if queues else ["This offer would get nothing."]
    left = table(("CONDITION", "TASK QUEUES LEFT"), [(c["name"], c["left"]) for c in answer["conditions"]])
    return CommandOutput(answer=answer, lines=[*lines, "", *left])


def _prompt(question: str) -> str:
    """Return the typed line; the question goes to standard error, as standard output is for the answer."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
