"""The error codes of the REST interface: what each means, and what a client does about it.

docs/errors.md has them as a table, which ``python -m docs.generators`` writes, and ``{API_V1}errors/`` as pages, to
which the ``type`` of each error leads (RFC 9457). A test compares them with the codes that the program can answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from wms.wire.protocol import API_V1


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """One code."""

    code: str
    status: HTTPStatus
    #: What it means, and what to do: each a sentence without capital and full stop.
    meaning: str
    remedy: str

    @property
    def title(self) -> str:
        """Its meaning as a sentence, without the note in parentheses."""
        return as_sentence(self.meaning.partition(" (")[0])

    @property
    def path(self) -> str:
        """The path of its page."""
        return f"{PAGES}{self.code}/"


#: Prefix of the pages of the codes.
PAGES: Final = f"{API_V1}errors/"

#: {status: {code: (meaning, what to do)}}.
_WORDS: Final[Mapping[HTTPStatus, Mapping[str, tuple[str, str]]]] = {
    HTTPStatus.BAD_REQUEST: {
        "advertisement_expired": (
            "the measurement is older than an advertisement holds",
            "measure again; check the clock",
        ),
        "bad_downtime": (
            "times or reason of the downtime are not possible, or it is announced elsewhere",
            "correct the fields in `errors`, or change it where it is announced",
        ),
        "bad_file_name": ("a sandbox has a file name that cannot be used on a node", "rename the file"),
        "bad_gocdb_document": (
            "the document is not an answer of GOCDB's method get_downtime, or too large",
            "send its answer as it is",
        ),
        "bad_limit": (
            "the limit contradicts itself, doubles another one, or is not for the caller to set",
            "correct the fields in `errors`",
        ),
        "bad_offer": ("the offer contradicts itself or names what does not exist", "correct the offer"),
        "bad_request": ("the request cannot be read, or its body broke off", "send it as documented"),
        "bad_parameters": (
            "a parameter is not comparable with requirements, or of a VO that the site does not serve",
            "correct the fields in `errors`",
        ),
        "bad_pause": ("the pause has no reason, or its end is past", "give a reason and a future end"),
        "bad_requirements": (
            "the requirements section cannot be understood, or nothing can meet it",
            "correct it; `detail` names the nearest parameter",
        ),
        "bad_state": (
            "a state of a site, computing element or queue is not possible (admin, configuration file)",
            "correct state, reason or end",
        ),
        "bad_throttle": (
            "the policy of the throttle requires a setting that is missing, or its expression is not valid",
            "correct the fields in `errors`",
        ),
        "bad_token_end": (
            "the end of a new token of a site is past, or later than such tokens are valid",
            "give a future end that is earlier, or none",
        ),
        "configuration": ("the configuration file is wrong", "correct the named lines"),
        "damaged_archive": ("the archive cannot be read to its end", "pack it again"),
        "empty_filter": ("a bulk action without any criterion", "name at least one criterion"),
        "group_needed": ("the group to act in does not follow from the memberships", "name `group`"),
        "impossible_pilot": (
            "no pilot can be made with these arguments (command `pilot_token`)",
            "correct the arguments",
        ),
        "invalid_cfg": ("the CFG text cannot be read", "correct it at the given line and column"),
        "invalid_classad": ("the ClassAd cannot be read", "correct it at the given line and column"),
        "invalid_cursor": ("the position in the stream of changes is not of this server", "begin without a cursor"),
        "invalid_description": ("a job description is wrong", "correct the fields in `errors`"),
        "invalid_input": ("fields or query parameters are wrong", "correct the fields in `errors`"),
        "invalid_jdl": ("the JDL cannot be read", "correct it at the given line and column"),
        "invalid_json": ("the body is not JSON that can be stored", "correct the body"),
        "invalid_replica_file": (
            "the file of replicas is wrong (command `load_replicas`)",
            "correct the lines in `errors`",
        ),
        "invalid_replicas": ("replicas cannot be registered or removed as given", "correct the entries in `errors`"),
        "invalid_submission": (
            "the request around the descriptions is wrong, or too large",
            "correct it, or send several requests",
        ),
        "length_required": ("the body came without its length", "send `Content-Length`"),
        "lifetime_too_long": ("the token would be valid for too long", "request fewer `days`"),
        "malformed_request": ("the body is not what its content type says", "correct the body"),
        "no_archive": ("an output sandbox is not a `.tar.gz`", "pack it so"),
        "no_mail_address": ("mail was chosen, but the account has no address (portal)", "ask an operator to add one"),
        "no_object": ("the body is not a JSON object", "send an object"),
        "no_site_left": ("the job bans every site that it names", "correct `sites` or `banned_sites`"),
        "no_such_queue": (
            "the names match no queue, more than one, or no VO of the caller",
            "name site, computing element, queue and VO",
        ),
        "no_token": ("there is no token to revoke: the caller uses a session", "log out in the portal"),
        "not_a_member": ("the user is not a member of the group", "name another group"),
        "not_output_of_job": (
            "the file is not output that the job was to store there",
            "register only what the lease names",
        ),
        "rejected": ("wrong input (category; used where no narrower code exists)", "see `detail`"),
        "scenario": ("a file of a simulation is wrong (command `simulate`)", "correct it"),
        "surely_fails": (
            "the request is strict, and jobs would fail when they start",
            "correct what `errors` says, or submit without `strict`",
        ),
        "too_many_changes": ("the request would make more changes than a minute allows", "name fewer jobs at a time"),
        "too_many_jobs": ("the filter of a bulk action finds too many jobs", "narrow it"),
        "unclear_vo": ("the VO is not named, or is none of the caller's", "name `vo`"),
        "unknown_place": ("no site, computing element or queue of this name serves the VO", "correct the name"),
        "unknown_setup": ("the VO has no such setup", "name one of its setups, or none"),
        "unknown_vo": ("there is no such VO", "correct the name"),
        "unsafe_archive": (
            "a member of the archive leads outside it or is not an ordinary file",
            "pack it without that member",
        ),
        "unusable_sandbox": (
            "the job names a sandbox that its owner may not use, or two that overwrite each other",
            "upload it, or name another",
        ),
    },
    HTTPStatus.UNAUTHORIZED: {
        "authentication_failed": ("the credential is not accepted", "log in again"),
        "code_needed": ("the password is right; the account has a second factor", "repeat with `code`"),
        "device_log_in_over": (
            "the log-in by device flow was refused, used already, or has expired",
            "log in again",
        ),
        "invalid_token": (
            "the token is unknown, expired or revoked",
            "user: log in again; pilot: register again; job: stop the payload",
        ),
        "not_authenticated": ("there is no credential", "send a token"),
        "provider_token_refused": (
            "the provider's ID token is not valid for this log-in",
            "log in again; tell the operator if it happens again",
        ),
        "wrong_code": ("the code is wrong or was used before", "send the next code"),
        "wrong_credentials": ("the name or the password is wrong, or the user is suspended", "correct them"),
    },
    HTTPStatus.FORBIDDEN: {
        "black_hole": ("jobs fail fast on this host; it gets none for a while", "the pilot ends"),
        "csrf_failed": ("the CSRF token of the session is missing or wrong", "reload the page, or use a bearer token"),
        "forbidden": ("the caller is known and may not do this", "use the right account or token"),
        "fresh_log_in_needed": (
            "the change needs a log-in of the last minutes, and that of the token or session is older",
            "log in again, and repeat it",
        ),
        "https_required": ("this server accepts only https", "use https, and a new token: this one was sent in clear"),
        "insufficient_scope": (
            "the scope of the token does not include this",
            "use a token with the scope in `detail`",
        ),
        "not_your_files": ("only managers of the VO and operators register files", "ask a manager"),
        "not_your_place": ("the secret was made for another VO or queue", "register as sent"),
        "not_your_queue": ("the pilot offers another place than its own", "offer its own"),
        "not_your_site": ("the site's token registers pilots of that site only", "use the token of the site"),
        "others_job": (
            "only the owner of a job retries it with changes",
            "reschedule it as it is, or submit a copy as yourself",
        ),
        "pilot_drained": ("the pilot gets no further job", "finish what it has, then end"),
        "pilot_ended": ("the server has recorded the end of this pilot", "the pilot ends"),
        "pilot_not_welcome": ("the pilot has ended or was revoked; it gets no job", "the pilot ends"),
        "pilot_revoked": ("the pilot's credentials were revoked", "stop the payload; the pilot ends"),
        "pilot_type_refused": ("the computing element does not accept this type of pilot", "offer another place"),
        "second_factor_required": ("the account must have a second factor and has none", "set one up in the portal"),
        "suspended": ("the user is suspended", "ask a manager of the VO, or an operator"),
        "waiting": ("the user came by OpenID Connect and is not admitted yet", "ask a manager of the VO"),
    },
    HTTPStatus.NOT_FOUND: {
        "link_over": ("the one-time link is used, expired or unknown (portal)", "ask for a new one"),
        "no_invitation": ("there is no such invitation for this user (portal)", "ask for a new one"),
        "no_output": ("the job has no output sandbox, or none yet", "try again when it is Done or Failed"),
        "no_person_waits": ("the person does not wait, or not for this manager (portal)", "reload the list"),
        "no_provider": (
            "no provider of OpenID Connect is configured, or none of this id",
            "log in by password, or name another",
        ),
        "no_sandbox": ("the job was not given this sandbox", "use the digests of the lease"),
        "not_found": ("there is no such object or path, or the caller may not see it", "correct the path"),
    },
    HTTPStatus.METHOD_NOT_ALLOWED: {
        "method_not_allowed": ("the path does not answer this method", "use one of those in the header `Allow`"),
    },
    HTTPStatus.NOT_ACCEPTABLE: {
        "not_acceptable": ("the client accepts no JSON", "accept `application/json`"),
    },
    HTTPStatus.REQUEST_TIMEOUT: {
        "request_timeout": ("the body did not arrive in time", "send it again"),
    },
    HTTPStatus.CONFLICT: {
        "cannot_revert": (
            "the change is of a kind without a revert, its row is gone, or the value has changed since",
            "change the value back by the call that sets it",
        ),
        "confirmation_needed": (
            "the change would stop jobs, and nothing was changed",
            "send the sentences of `errors.confirmed` that are meant as `confirmed`",
        ),
        "configuration_changed": (
            "the configuration, or the file, is not the one that was compared",
            "compare them again",
        ),
        "conflict": ("not possible in this state (category; used where no narrower code exists)", "see `detail`"),
        "deletions_not_confirmed": (
            "the file deletes, and nothing was changed",
            "send `delete` if all of `errors.delete` is meant",
        ),
        "already_retried": ("the job was retried with changes before", "retry the job that retries it"),
        "nothing_to_retry": ("none of the jobs can be retried with changes", "see `detail`"),
        "illegal_transition": ("the job's status does not allow this", "look at its status"),
        "name_taken": (
            "another file has this logical name, or another job is storing one under it",
            "reserve a name for the file, and move it there",
        ),
        "job_is_over": ("the job was killed or rescheduled meanwhile", "drop its output"),
        "no_device_flow": ("the provider offers no device flow", "make a token in the portal"),
        "lease_ended": ("the lease has ended", "stop the payload; request another job"),
        "not_editable": ("only a job that is Waiting or Held can be changed", "hold it, or leave it"),
        "queue_full": ("the queue has as many pilots as it may", "try again when one has ended"),
        "quota_exceeded": ("more jobs would wait than a limit allows", "wait until some have run"),
        "request_id_conflict": ("the `request_id` was used with another body", "use a new one"),
        "reschedule_limit": ("the job was rescheduled as often as is allowed", "submit it anew"),
        "sandbox_quota_exceeded": (
            "sandboxes of the user or of the VO would exceed the quota",
            "delete jobs that name old ones",
        ),
        "secret_used": ("the secret has registered a pilot already", "the pilot ends"),
        "site_banned": ("site, computing element or queue is banned", "try again when the ban is over"),
        "token_taken": ("the token is that of something else (configuration file)", "choose another"),
        "too_many_changes_of_lease": (
            "the lease has changed the words of its job as often as it may",
            "report its status only",
        ),
        "too_many_gateways": ("the site has as many gateways as it may", "use the names of existing gateways"),
        "too_many_invitations": ("the group has as many open invitations as it may", "withdraw some"),
        "too_many_outputs": ("too many different outputs were stored for the job", "store each once"),
        "too_many_tokens": ("the user has as many tokens as allowed", "revoke some in the portal"),
    },
    HTTPStatus.GONE: {
        "cursor_expired": (
            "the position in the stream of changes is too old",
            "read the list again, and begin without a cursor",
        ),
        "gone": ("no longer kept (category; used where no narrower code exists)", "see `detail`"),
    },
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: {
        "sandbox_too_large": ("the sandbox is too large, packed or unpacked", "use a storage element"),
        "too_large": ("the body is larger than this path accepts", "send several requests"),
    },
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: {
        "unsupported_media_type": ("the content type or encoding is not accepted", "send what `detail` names"),
    },
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: {
        "range_not_satisfiable": ("the file has none of the bytes that `Range` names", "ask without `Range`"),
    },
    HTTPStatus.UPGRADE_REQUIRED: {
        "client_too_old": ("this server no longer serves this version of wms-client", "install a newer one"),
    },
    HTTPStatus.TOO_MANY_REQUESTS: {
        "day_exceeded": (
            "the user would submit more in this day than is allowed",
            "submit fewer, or go on tomorrow: `Retry-After`",
        ),
        "rate_exceeded": (
            "more requests or changes in this minute than the user may make",
            "wait `Retry-After`",
        ),
        "submissions_in_flight": ("too many submissions of the user are being processed", "wait `Retry-After`"),
        "too_many": (
            "too many long requests, or downloads that are made while they are sent, of the caller are under way",
            "wait `Retry-After`",
        ),
        "too_many_failures": ("too many failed log-ins", "wait `Retry-After`"),
        "too_many_log_ins": ("too many log-ins at this moment; the password was not checked", "wait `Retry-After`"),
    },
    HTTPStatus.INTERNAL_SERVER_ERROR: {
        "internal_error": (
            "the server failed; its log has the cause",
            "check whether anything was changed, then tell the operator",
        ),
    },
    HTTPStatus.SERVICE_UNAVAILABLE: {
        "no_room": ("the disk of the server is nearly full", "tell the operator; wait `Retry-After`"),
        "provider_failed": (
            "the provider of OpenID Connect does not answer, or not as it should",
            "wait `Retry-After`",
        ),
        "throttle_busy": (
            "whether the site accepts a job could not be decided in time",
            "repeat the same request after `Retry-After`",
        ),
        "unavailable": ("the server cannot answer at this moment", "repeat after `Retry-After`"),
    },
}


def as_sentence(words: str) -> str:
    """Return words with a capital, and a full stop unless they end as a sentence does."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '?')) else '.'}"


def _all() -> Iterator[ErrorCode]:
    for status, codes in _WORDS.items():
        for code, (meaning, remedy) in codes.items():
            yield ErrorCode(code=code, status=status, meaning=meaning, remedy=remedy)


#: {code: its description}, by status and code.
ERROR_CODES: Final[Mapping[str, ErrorCode]] = MappingProxyType({each.code: each for each in _all()})
