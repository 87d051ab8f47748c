"""Commands that change jobs: kill, hold, release, reschedule, delete, retry, edit."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

from ..connection import Record
from ..errors import Exit, WrongUsageError
from ..terminal.console import Part
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from ..wire.protocol import API_V1
from .arguments import FILTERS, job_id, whole_number
from .command import Command, CommandOutput, CommandSession, about_job
from .description_options import add_description, described
from .selection import JobSelection, add_selection, confirm, count_of, named_job, selection_in

#: {action: what was done to jobs}.
PAST = {
    "kill": "killed",
    "hold": "held",
    "release": "released",
    "reschedule": "rescheduled",
    "delete": "deleted",
}
#: {code of a refusal: what is wrong}.
REASONS = {
    "not_found": "there is no such job, or you may not see it",
    "illegal_transition": "its status does not allow this",
    "others_job": "it is not yours; reschedule it as it is, or submit a copy",
    "already_retried": "it was retried with changes already",
    "reschedule_limit": "it was rescheduled as often as is allowed; submit it anew",
}
#: Refused jobs that are listed at a terminal.
_MOST_REFUSED = 20


def _configure_action(parser: ArgumentParser, *, action: str) -> None:
    add_selection(parser)
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask before more than one job")
    if action == "hold":
        parser.add_argument("--because", metavar="TEXT", help="reason, shown as that of the status")


def _act(options: Namespace, session: CommandSession, *, action: str) -> CommandOutput:
    return act_on(selection_in(options, session), options, session, action=action)


def act_on(selection: JobSelection, options: Namespace, session: CommandSession, *, action: str) -> CommandOutput:
    """Perform an action on jobs, and say what was done; ``--because`` of the options is the reason."""
    body: dict[str, object] = {"reason": options.because} if getattr(options, "because", None) else {}
    if len(selection.ids) == 1:
        # Its refusal is a sentence about this job.
        with about_job(selection.ids[0]):
            session.server.post(f"{API_V1}jobs/{selection.ids[0]}/{action}/", body)
        return CommandOutput({"done": 1, "refused": []}, [f"Job {selection.ids[0]} is {PAST[action]}."])
    number = count_of(selection, session)
    if number == 0:
        return CommandOutput({"done": 0, "refused": []}, ["No job matches."])
    confirm(f"{action.capitalize()} {number} {_jobs(number)}?", options=options)
    named = {"ids": list(selection.ids)} if selection.ids else {"filter": dict(selection.filters)}
    answer = session.server.post(f"{API_V1}jobs/bulk/", {"action": action, **named, **body}, expects="done")
    refused = answer["refused"]
    parts = [
        f"{answer['done']} {_jobs(answer['done'])} {PAST[action]}, {len(refused)} refused.",
        *_refusals(refused, session),
    ]
    return CommandOutput(answer, parts, exit_code=Exit.REFUSED if refused else Exit.DONE)


def _refusals(refused: Sequence[Record], session: CommandSession) -> list[Part]:
    """Return a table of the jobs that were refused, and why; at a terminal of the first ones."""
    if not refused:
        return []
    shown = refused[:_MOST_REFUSED] if session.console.is_terminal else refused
    rows = [[each["id"], REASONS.get(each["code"], each["code"])] for each in shown]
    columns = [TableColumn("JOB", ColumnKind.NUMBER, importance=2), TableColumn("REFUSED BECAUSE")]
    more = [f"… and {len(refused) - len(shown)} more."] if len(shown) < len(refused) else []
    return [Table(columns, rows), *more]


def _configure_retry(parser: ArgumentParser) -> None:
    about = "ids of jobs, ranges such as 69-75, or filters such as label:reco; of filters, the failed ones"
    parser.add_argument("jobs", type=named_job, nargs="*", metavar="JOB", help=about)
    for name in ("cause", "submission"):
        each = FILTERS[name]
        parser.add_argument(f"--{name}", metavar=each.metavar, dest=f"filter_{each.parameter}", help=each.about)
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask before more than one job")
    add_description(parser, title="changes", several=False)


def _retry(options: Namespace, session: CommandSession) -> CommandOutput:
    selection = selection_in(options, session)
    if not selection.ids:
        selection = JobSelection((), {"status": "Failed", **selection.filters})
    changes = described(options)
    # The input sandbox of each job has other files beside these.
    named_files: Sequence[str] = changes.pop("input_sandbox", ())
    paths = [Path(name) for name in named_files]
    if not changes and not paths:
        return act_on(selection, options, session, action="reschedule")
    number = count_of(selection, session)
    if number > 1:
        confirm(f"Retry {number} jobs with changes?", options=options)
    files = {
        path.name: session.server.upload(f"{API_V1}sandboxes/", path, expects="sandbox")["sandbox"] for path in paths
    }
    named = {"ids": list(selection.ids)} if selection.ids else {"filter": dict(selection.filters)}
    body = {**named, "changes": changes, "files": files, "request_id": str(uuid4())}
    answer = session.server.post(f"{API_V1}jobs/retry/", body, expects="job_group_id", repeatable=True)
    for warning in answer["warnings"]:
        sys.stderr.write(f"Warning: {plain(warning)}\n")
    new, refused = len(answer["jobs"]), answer["refused"]
    done = f"{new} {_jobs(new)} submitted in their place, {len(refused)} refused; submission {answer['job_group_id']}."
    return CommandOutput(answer, [done, *_refusals(refused, session)], exit_code=Exit.REFUSED if refused else Exit.DONE)


def _jobs(number: int) -> str:
    return "job" if number == 1 else "jobs"


def _configure_edit(parser: ArgumentParser) -> None:
    parser.add_argument("job", type=job_id, metavar="JOB", help="id of a job that is Waiting or Held")
    parser.add_argument("--priority", type=whole_number, metavar="N", help="user priority, 0 to 10")
    parser.add_argument("--site", action="append", dest="sites", metavar="SITE", help="may run there; may be repeated")
    parser.add_argument("--any-site", action="store_true", help="may run at any site")
    parser.add_argument(
        "--banned-site",
        action="append",
        dest="banned_sites",
        metavar="SITE",
        help="must not run there; may be repeated",
    )
    parser.add_argument("--no-banned-site", action="store_true", help="no site is banned")
    parser.add_argument("--name", dest="job_name", metavar="NAME", help="name of the job")


def _edit(options: Namespace, session: CommandSession) -> CommandOutput:
    names = ("priority", "sites", "banned_sites", "job_name")
    changes = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for name, is_none in (("sites", options.any_site), ("banned_sites", options.no_banned_site)):
        if is_none and name in changes:
            raise WrongUsageError("Name sites, or say that none is named; not both.")
        if is_none:
            changes[name] = []
    if not changes:
        raise WrongUsageError("Say what to change: --priority, --site, --any-site, --banned-site, or --name.")
    with about_job(options.job):
        job = session.server.patch(f"{API_V1}jobs/{options.job}/", changes, expects="status")
    return CommandOutput(job, [f"Job {job['id']} is changed; it is {job['status']}."])


COMMANDS = {
    **{action: Command(partial(_configure_action, action=action), partial(_act, action=action)) for action in PAST},
    "retry": Command(_configure_retry, _retry),
    "edit": Command(_configure_edit, _edit),
}
