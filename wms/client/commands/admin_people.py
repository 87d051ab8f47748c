"""Actions of `wms admin` on people: members of groups, managers of VOs, suspensions, and tokens."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from ..connection import Record
from ..errors import WrongUsageError
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from .admin_changes import AdminAction, add_reason, address_of, delete, reason_in, tried
from .arguments import whole_number
from .command import CommandOutput, CommandSession

_MEMBERS = (
    TableColumn("USER", importance=4),
    TableColumn("STATUS", importance=3),
    TableColumn("GIVEN BY", importance=2),
    TableColumn("CONFIRMED", ColumnKind.MOMENT, importance=1),
    TableColumn("EXPIRES", ColumnKind.MOMENT, importance=1),
)

_MANAGERS = (
    TableColumn("USER", importance=3),
    TableColumn("STATUS", importance=2),
    TableColumn("ADMINISTRATION", importance=1),
)
_USER_TOKENS = (
    TableColumn("ID", ColumnKind.NUMBER, importance=7),
    TableColumn("NAME", importance=6),
    TableColumn("SCOPE", importance=5),
    TableColumn("EXPIRES", ColumnKind.MOMENT, importance=4),
    TableColumn("USED", ColumnKind.MOMENT, importance=3),
    TableColumn("REVOKED", ColumnKind.MOMENT, importance=2),
    TableColumn("CREATED", ColumnKind.MOMENT, importance=1),
)


# ---- Members ---------------------------------------------------------------------------------------------------------


def _configure_member(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="name of the group")
    about = "user to make a member, or to invite; left out: list members and open invitations"
    parser.add_argument("user", nargs="?", metavar="USER", help=about)
    parser.add_argument("--remove", action="store_true", help="end the membership, or withdraw the invitation")
    add_reason(parser, required=False)


def _member(options: Namespace, session: CommandSession) -> CommandOutput:
    if options.user is None:
        if options.remove:
            raise WrongUsageError("Name the user whose membership --remove ends.")
        return _listed(options, session)
    if options.remove:
        return _removed(options, session)
    address = address_of("groups", options.group, "members", options.user)
    answer = session.server.put(address, {"dry_run": options.dry_run, **reason_in(options)}, expects="status")
    user, group = plain(answer["username"]), plain(options.group)
    sentence = f"{user} is a member of {group}."
    if answer["status"] == "invited":
        sentence = f"{user} is invited to {group}, and becomes a member by accepting in the portal."
    return CommandOutput(answer, [tried(options, sentence)])


def _listed(options: Namespace, session: CommandSession) -> CommandOutput:
    listed = _members(options, session)
    rows: list[list[object]] = [
        [
            each["username"],
            "suspended" if each["suspended"] else "member",
            each["given_by"],
            each["confirmed_at"],
            None,
        ]
        for each in listed["members"]
    ]
    rows += [[each["username"], "invited", None, None, each["expires_at"]] for each in listed["invitations"]]
    empty = "The group has no members and no open invitations."
    return CommandOutput(listed, [Table(_MEMBERS, rows, empty=empty)], rows="members")


def _removed(options: Namespace, session: CommandSession) -> CommandOutput:
    user, group = plain(options.user), plain(options.group)
    delete(session, address_of("groups", options.group, "members", options.user), options)
    sentence = f"{user} is no longer a member of {group}, nor invited to it."
    return CommandOutput({"username": options.user, "status": None}, [tried(options, sentence)])


def _members(options: Namespace, session: CommandSession) -> Record:
    pages = [*session.server.pages(address_of("groups", options.group, "members"), query={"page_size": "1000"})]
    members = [each for page in pages for each in page["results"]]
    return {"members": members, "invitations": pages[-1]["invitations"]}


# ---- Managers --------------------------------------------------------------------------------------------------------


def _configure_manager(parser: ArgumentParser) -> None:
    parser.add_argument("vo", metavar="VO", help="name of the VO")
    about = "user to make a manager of the VO; left out: list them"
    parser.add_argument("user", nargs="?", metavar="USER", help=about)
    parser.add_argument("--remove", action="store_true", help="end the role of the user")
    add_reason(parser, required=False)


def _manager(options: Namespace, session: CommandSession) -> CommandOutput:
    if options.user is None:
        if options.remove:
            raise WrongUsageError("Name the user whose role --remove ends.")
        answer = session.server.get(address_of("vos", options.vo, "managers"), expects="managers")
        rows = [
            [each["username"], "suspended" if each["suspended"] else "manager", "yes" if each["staff"] else "no"]
            for each in answer["managers"]
        ]
        return CommandOutput(answer, [Table(_MANAGERS, rows, empty="The VO has no managers.")], rows="managers")
    address = address_of("vos", options.vo, "managers", options.user)
    user, vo = plain(options.user), plain(options.vo)
    if options.remove:
        delete(session, address, options)
        return CommandOutput({"username": options.user}, [tried(options, f"{user} is no manager of {vo} any more.")])
    answer = session.server.put(address, {"dry_run": options.dry_run, **reason_in(options)}, expects="username")
    return CommandOutput(answer, [tried(options, f"{plain(answer['username'])} is a manager of {vo}.")])


# ---- Tokens ----------------------------------------------------------------------------------------------------------


def _configure_token(parser: ArgumentParser) -> None:
    _configure_person(parser)
    what = parser.add_mutually_exclusive_group()
    about = "revoke the token of this id; without this and --revoke-all: list the tokens, never their texts"
    what.add_argument("--revoke", type=whole_number, metavar="ID", help=about)
    what.add_argument("--revoke-all", action="store_true", help="revoke all tokens of the user")


def _token(options: Namespace, session: CommandSession) -> CommandOutput:
    user, tokens = plain(options.user), ("users", options.user, "tokens")
    if options.revoke_all:
        delete(session, address_of(*tokens), options)
        return CommandOutput({"username": options.user}, [tried(options, f"All tokens of {user} are revoked.")])
    if options.revoke is not None:
        delete(session, address_of(*tokens, str(options.revoke)), options)
        sentence = f"Token {options.revoke} of {user} is revoked."
        return CommandOutput({"id": options.revoke}, [tried(options, sentence)])
    found = list(session.server.rows(address_of(*tokens), query={"page_size": "1000"}))
    names = ("id", "name", "scope", "expires_at", "last_used_at", "revoked_at", "created_at")
    rows = [[each[name] for name in names] for each in found]
    return CommandOutput(found, [Table(_USER_TOKENS, rows, empty="The user has no tokens.")])


# ---- Suspensions -----------------------------------------------------------------------------------------------------


def _configure_person(parser: ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="user name")


def _configure_suspend(parser: ArgumentParser) -> None:
    _configure_person(parser)
    add_reason(parser, required=False)


def _suspend(options: Namespace, session: CommandSession) -> CommandOutput:
    body = {"dry_run": options.dry_run, **reason_in(options)}
    answer = session.server.put(_suspension_of(options), body, expects="killed_jobs")
    user, killed, waiting = map(plain, (answer[name] for name in ("username", "killed_jobs", "waiting_jobs")))
    sentence = f"{user} is suspended. Payloads killed: {killed}; jobs that wait, and are not matched: {waiting}."
    return CommandOutput(answer, [tried(options, sentence)])


def _restore(options: Namespace, session: CommandSession) -> CommandOutput:
    address = _suspension_of(options)
    answer = session.server.get(address, expects="suspended")
    delete(session, address, options)
    sentence = (
        f"{plain(answer['username'])} may log in again; "
        f"jobs that can be matched again: {plain(answer['waiting_jobs'])}."
    )
    return CommandOutput({**answer, "suspended": False}, [tried(options, sentence)])


def _suspension_of(options: Namespace) -> str:
    return address_of("users", options.user, "suspension")


ACTIONS: Mapping[str, AdminAction] = {
    "member": AdminAction("list the members of a group; add, invite or remove one", _configure_member, _member),
    "manager": AdminAction("list the managers of a VO; make one, or end the role", _configure_manager, _manager),
    "token": AdminAction("list the tokens of a person, or revoke them", _configure_token, _token),
    "suspend": AdminAction("suspend a person: no log-in, payloads end, no matches", _configure_suspend, _suspend),
    "restore": AdminAction("end the suspension of a person", _configure_person, _restore),
}
