"""Commands that explain why jobs wait, and which jobs an offer would get."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ..connection import Record
from ..terminal.console import Note, Part
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from ..wire.amounts import AMOUNTS
from ..wire.protocol import API_V1
from .arguments import whole_number
from .command import Command, CommandOutput, CommandSession, about_job
from .selection import add_selection, selection_in

#: Fields of an offer that are options of ``match-test``.
OFFER_FIELDS = (
    *("vo", "setup", "site", "ce", "queue", "platforms", "cpu_time_s", "tags", "required_tags"),
    *(*(amount.name for amount in AMOUNTS), "container"),
    *("job_types", "submit_pools", "grid_middleware", "owner", "group"),
)
_CONDITIONS = (
    TableColumn("CONDITION", importance=3),
    TableColumn("PASSED", ColumnKind.NUMBER, importance=2),
    TableColumn("FAILED", ColumnKind.NUMBER, importance=2),
    TableColumn("DETAIL"),
)
_QUEUES = (
    TableColumn("QUEUE", importance=2),
    TableColumn("FITS", ColumnKind.STATUS, importance=3),
    TableColumn("WHY NOT"),
)
_SUMMARIES = (
    TableColumn("JOB", ColumnKind.NUMBER, importance=3),
    TableColumn("STATUS", ColumnKind.STATUS, importance=2),
    TableColumn("WHY"),
)
_OF_LIST = (
    TableColumn("JOBS", ColumnKind.NUMBER, importance=4),
    TableColumn("EXAMPLE", ColumnKind.NUMBER, importance=3),
    TableColumn("TASK QUEUE", ColumnKind.NUMBER, importance=2),
    TableColumn("WHY", importance=5),
)
_TASK_QUEUES = (
    TableColumn("TASK QUEUE", ColumnKind.NUMBER, importance=9),
    TableColumn("OWNER", importance=3),
    TableColumn("GROUP", importance=2),
    TableColumn("CPU TIME (S)", ColumnKind.NUMBER, importance=4),
    TableColumn("PRIORITY", ColumnKind.NUMBER, importance=4),
    TableColumn("JOBS", ColumnKind.NUMBER, importance=4),
    TableColumn("CHANCE", ColumnKind.NUMBER, importance=5),
)


def _configure_why(parser: ArgumentParser) -> None:
    add_selection(parser, but_for=("site",))
    parser.add_argument("--site", metavar="S", help="of one job, only the queues of this site")


def _why(options: Namespace, session: CommandSession) -> CommandOutput:
    selection = selection_in(options, session, may_name_none=True)
    if not selection.ids:
        return _of_list(session.server.get(f"{API_V1}jobs/explain/", expects="task_queues", query=selection.filters))
    query = {} if options.site is None else {"site": options.site}
    answers = []
    for job_id in selection.ids:
        with about_job(job_id):
            answers.append(session.server.get(f"{API_V1}jobs/{job_id}/explain/", expects="summary", query=query))
    if len(answers) > 1:
        rows = [[answer["job_id"], answer["status"], answer["summary"]] for answer in answers]
        return CommandOutput(answers, [Table(_SUMMARIES, rows)])
    return CommandOutput(answers[0], _explained(answers[0]))


def _of_list(answer: Record) -> CommandOutput:
    rows = [[each["jobs"], each["example"], each["task_queue"], each["summary"]] for each in answer["task_queues"]]
    notes = []
    if answer["has_more"]:
        notes.append(Note(f"More jobs wait; these are the newest {answer['jobs']}."))
    if answer["further_jobs"]:
        notes.append(Note(f"Further {answer['further_jobs']} jobs are not explained."))
    return CommandOutput(answer, [Table(_OF_LIST, rows, empty="None of these jobs waits."), *notes], rows="task_queues")


def _explained(answer: Record) -> list[Part]:
    parts: list[Part] = [f"Job {answer['job_id']}, {plain(answer['status'])}: {plain(answer['summary'])}"]
    if answer["task_queue"] is not None:
        share = f"{answer['expected_share']:.1%}"
        rank = answer["priority_rank"]
        rank_text = "in no draw" if rank is None else f"rank {rank}"
        parts.append(f"Task queue {answer['task_queue']}, {rank_text}, expected share {share}")
    if answer["conditions"]:
        counts = [(c["name"], c["passed_queues"], c["failed_queues"], c["detail"]) for c in answer["conditions"]]
        parts += ["", Table(_CONDITIONS, counts)]
    if answer["queues"]:
        rows = [
            (f"{q['site']} / {q['ce']} / {q['queue']}", "yes" if q["fits"] else "no", ". ".join(q["reasons"]))
            for q in answer["queues"]
        ]
        parts += ["", Table(_QUEUES, rows)]
    parts += [f"Limit: {plain(limit)}" for limit in answer["limits"]]
    # Servers of earlier versions send neither advice nor warnings; the summary may be one of these.
    parts += [f"Advice: {plain(sentence)}" for sentence in answer.get("advice", [])]
    warnings = [warning for warning in answer.get("warnings", []) if warning != answer["summary"]]
    return [*parts, *(f"Warning: {plain(warning)}" for warning in warnings)]


#: {option of ``match-test``: what it is}.
_NAMES = {
    "vo": "VO of the pilot",
    "setup": "setup of the pilot; left out: that of the queue, CE or VO",
    "site": "site of the pilot; left out: not compared",
    "ce": "computing element; left out: not compared",
    "queue": "batch queue; left out: not compared",
    "grid-middleware": "grid middleware of the computing element; not compared",
}
#: {option of ``match-test`` that may be repeated: what it is}.
_LISTS = {
    "platform": "platform that the slot can run; left out: not compared",
    "tag": "tag that jobs may require",
    "required-tag": "tag that jobs must require",
    "job-type": "type of jobs that it takes; left out: those of the queue, else all",
    "submit-pool": "id of a submit pool; left out: those of the queue",
}


def _configure_match_test(parser: ArgumentParser) -> None:
    """Add the fields of an offer; the server has defaults for those left out (see /api/v1/docs/)."""
    parser.add_argument(
        "--cpu-time-s", type=whole_number, required=True, metavar="S", help="reference-core seconds per core"
    )
    for name, about in _NAMES.items():
        parser.add_argument(f"--{name}", metavar="NAME", help=about)
    for amount in AMOUNTS:
        name, unit = amount.name.replace("_", "-"), amount.unit.upper() or "N"
        parser.add_argument(f"--{name}", type=whole_number, metavar=unit, help=amount.help_of_slot)
    # Left out it is not sent, rather than False.
    parser.add_argument("--container", action="store_const", const=True, help="the slot can run containers")
    for name, about in _LISTS.items():
        several, help_text = f"{name.replace('-', '_')}s", f"{about}; may be repeated"
        parser.add_argument(f"--{name}", action="append", dest=several, metavar="NAME", help=help_text)
    parser.add_argument("--group", metavar="NAME", help="group of a private pilot")
    parser.add_argument("--owner", metavar="NAME", help="owner of a private pilot whose group does not share jobs")


def _match_test(options: Namespace, session: CommandSession) -> CommandOutput:
    values = {field: getattr(options, field) for field in OFFER_FIELDS}
    offer = {field: value for field, value in values.items() if value is not None}
    answer = session.server.post(f"{API_V1}matches/preview/", offer, expects="task_queues", repeatable=True)
    queues = [
        (q["id"], q["owner"], q["group"], q["cpu_time_s"], f"{q['priority']:.6g}", q["jobs"], f"{q['chance']:.1%}")
        for q in answer["task_queues"]
    ]
    first: Part = Table(_TASK_QUEUES, queues) if queues else "This offer would get nothing."
    columns = (TableColumn("CONDITION"), TableColumn("TASK QUEUES LEFT", ColumnKind.NUMBER))
    conditions = Table(columns, [(c["name"], c["left"]) for c in answer["conditions"]])
    return CommandOutput(answer, [first, "", conditions], rows="task_queues")


COMMANDS = {"why": Command(_configure_why, _why), "match-test": Command(_configure_match_test, _match_test)}
