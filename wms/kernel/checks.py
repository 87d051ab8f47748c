"""System checks: they refuse a production start with development defaults, and settings out of range.

`manage.py` runs them before nearly every command. The web server and the Celery processes do not start through
manage.py; they call refuse_unsafe_start.
"""

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import connection
from django.db.utils import Error as DatabaseError

from wms.kernel.addresses import not_networks
from wms.kernel.callers import current_command
from wms.kernel.clock import current_time, start_clock
from wms.kernel.database_version import refusal_of_database, start_watch

#: Django's own limits for a secret key that cannot be guessed.
MIN_SECRET_KEY_LENGTH = 50
MIN_SECRET_KEY_UNIQUE_CHARACTERS = 5
#: Of 62 characters: 119 bits.
MIN_METRICS_TOKEN_LENGTH = 20

#: Values of WMS_REQUIRE_SECOND_FACTOR (wms.accounts.services.second_factors).
WHO_NEEDS_SECOND_FACTOR = ("none", "operators", "staff")

#: Prefix of the directories that wms.stack makes for sockets outside the data directory.
TEMPORARY_SOCKETS = "/tmp/wms-"  # noqa: S108 - only compared

#: Numbers that may be 0: a site may want no rescheduling at all, or no limit.
MAY_BE_ZERO = frozenset(
    {
        "WMS_BLACK_HOLE_FAILURES",
        "WMS_HSTS_S",
        "WMS_KEEP_ADMIN_LOG_DAYS",
        "WMS_KEEP_DELETED_JOBS_DAYS",
        "WMS_KEEP_JOBS_DAYS",
        "WMS_KEEP_PILOTS_DAYS",
        "WMS_MAX_CHANGES_PER_LEASE",
        "WMS_MAX_CHANGES_PER_MINUTE",
        "WMS_MAX_DESCRIPTION_BYTES_PER_DAY",
        "WMS_MAX_JOBS_PER_DAY",
        "WMS_MAX_MACHINE_REQUESTS_PER_MINUTE",
        "WMS_MAX_REQUESTS_PER_MINUTE",
        "WMS_MAX_SANDBOXES_PER_MINUTE",
        "WMS_MAX_SESSIONS_PER_USER",
        "WMS_MAX_SUBMISSIONS_IN_FLIGHT",
        "WMS_MAX_SUBMISSIONS_PER_MINUTE",
        "WMS_MAX_TOKENS_PER_USER",
        "WMS_MAX_WAITING_JOBS_PER_USER",
        "WMS_MAX_RESCHEDULES",
        "WMS_OUTPUT_QUOTA_BYTES",
        "WMS_RESCHEDULE_DELAY_S",
        "WMS_RESCHEDULE_ELSEWHERE_S",
        "WMS_TASK_QUEUE_INDEX_MAX_AGE_S",
        "WMS_VO_QUOTA_BYTES",
    }
)


#: Commands that read and write the database, except ``migrate``, which looks by itself.
OF_DATABASE: Final = frozenset(
    {
        *("configure", "export_configuration", "load_replicas", "pilot_token", "recount_jobs", "reset_second_factor"),
        *("rotate_key", "security_log", "site_token", "token", "verify"),
        # Of Django:
        *("changepassword", "clearsessions", "createsuperuser", "dumpdata", "flush", "loaddata", "shell"),
    }
)

#: Checks of apps that refuse a start, too.
_CHECKS_OF_APPS: Final[list[Callable[[], list[CheckMessage]]]] = []


def register_start_check(check: Callable[[], list[CheckMessage]]) -> None:
    """Register a check of an app, whose errors refuse a start of the web server and of the Celery processes."""
    _CHECKS_OF_APPS.append(check)


class UnsafeStartError(SystemExit):
    """The process must not start; the text gives every reason. It ends the process with status 1.

    NB: a SystemExit, because Celery only logs exceptions of signal receivers below BaseException.
    """


def refuse_unsafe_start() -> None:
    """Return if this process may serve.

    Raises:
        UnsafeStartError: a check below found an error.
    """
    errors = [
        *check_production(),
        *check_numbers(),
        *check_cpu_segments(),
        *check_leases(),
        *check_addresses(),
        *check_metrics_token(),
        *check_second_factors(),
        *check_mail(),
        *(message for check in _CHECKS_OF_APPS for message in check()),
    ]
    if errors:
        reasons = "\n".join(f"  {error.msg} {error.hint or ''}".rstrip() for error in errors)
        raise UnsafeStartError(f"The server does not start:\n{reasons}")


def refuse_other_database() -> None:
    """Return if this process may use the database, whose version and clock it then follows; also if it is away.

    Raises:
        UnsafeStartError: a newer program has migrated it.
    """
    start_clock()
    current_time()
    refusal = start_watch()
    connection.close()  # of the thread that starts the process, and needs it no longer
    if refusal:
        raise UnsafeStartError(f"The server does not start:\n  {refusal}")


@register()
def check_database_version(**_of_django: object) -> list[CheckMessage]:
    """Return an error if this command would work with a database that a newer program has migrated."""
    if current_command.get() not in OF_DATABASE:
        return []
    try:
        refusal = refusal_of_database()
    except DatabaseError:
        return []  # the command says so
    return [Error(refusal, id="wms.E016")] if refusal else []


@register()
def check_production(**_of_django: object) -> list[CheckMessage]:
    """Return the settings that a production start refuses; with WMS_EMBEDDED all are allowed."""
    return [] if settings.WMS_EMBEDDED else [*_unsafe(), *_exposed()]


@register()
def check_second_factors(**_of_django: object) -> list[CheckMessage]:
    """Return an error if WMS_REQUIRE_SECOND_FACTOR is not one of its values."""
    required_of = settings.WMS_REQUIRE_SECOND_FACTOR
    if required_of in WHO_NEEDS_SECOND_FACTOR:
        return []
    sentence = f"Give one of {', '.join(WHO_NEEDS_SECOND_FACTOR)}."
    return [Error(f"WMS_REQUIRE_SECOND_FACTOR is {required_of}.", hint=sentence, id="wms.E013")]


@register()
def check_mail(**_of_django: object) -> list[CheckMessage]:
    """Return an error if mail would be sent without a valid sender."""
    if not settings.WMS_EMAIL_URL:
        if not settings.WMS_ALARM_EMAIL:
            return []
        sentence = "Name the mail server in WMS_EMAIL_URL."
        return [Error("WMS_ALARM_EMAIL is set, and no mail server.", hint=sentence, id="wms.E014")]
    try:
        validate_email(settings.WMS_EMAIL_FROM)
    except ValidationError:
        sentence = "Give the address from which mail is sent, such as wms@example.org."
        return [
            Error(f'WMS_EMAIL_FROM is "{settings.WMS_EMAIL_FROM}", no address.', hint=sentence, id="wms.E014"),
        ]
    return []


@register(Tags.security, deploy=True)
def check_proxies(**_of_django: object) -> list[CheckMessage]:
    """Return a warning if HTTPS is required but no proxy is trusted to report it."""
    if not settings.WMS_HTTPS or settings.WMS_TRUSTED_PROXIES:
        return []
    return [
        checks.Warning(
            "WMS_HTTPS is on and WMS_TRUSTED_PROXIES is empty: a page behind a proxy is redirected to itself for ever.",
            hint="Name the address from which the proxy connects, such as 127.0.0.1.",
            id="wms.W001",
        )
    ]


def check_current_key() -> list[CheckMessage]:
    """Return the errors of WMS_SECRET_KEY itself; with WMS_EMBEDDED every key is allowed."""
    return [] if settings.WMS_EMBEDDED else list(_weak_key("WMS_SECRET_KEY", settings.SECRET_KEY))


@register()
def check_numbers(**_of_django: object) -> list[CheckMessage]:
    """Return an error for each numeric setting out of range."""
    return list(_out_of_range())


@register()
def check_cpu_segments(**_of_django: object) -> list[CheckMessage]:
    """Return an error if the CPU segments are not positive and ascending."""
    segments = settings.WMS_CPU_SEGMENTS_S
    if segments and segments[0] > 0 and all(low < high for low, high in pairwise(segments)):
        return []
    return [
        Error(
            f"WMS_CPU_SEGMENTS_S is {','.join(map(str, segments)) or 'empty'}.",
            hint="Give positive seconds, each larger than the one before, such as 500,5000,50000,300000.",
            id="wms.E005",
        )
    ]


@register()
def check_leases(**_of_django: object) -> list[CheckMessage]:
    """Return an error if leases end before a pilot can have renewed them (docs/architecture.md, Leases)."""
    shortest = settings.WMS_LEASE_GRACE_S + settings.WMS_HEARTBEAT_S
    return [
        Error(
            f"{name} is {getattr(settings, name)}, so that every pilot stops its job before its first report.",
            hint=f"Give more than WMS_LEASE_GRACE_S + WMS_HEARTBEAT_S, which is {shortest}.",
            id="wms.E006",
        )
        for name in ("WMS_LEASE_FIRST_S", "WMS_LEASE_S")
        if getattr(settings, name) <= shortest
    ]


@register()
def check_addresses(**_of_django: object) -> list[CheckMessage]:
    """Return an error for each setting of addresses with one that is not an address, a network or "unix"."""
    return [
        Error(
            f"{name} has values that are not addresses: {', '.join(wrong)}.",
            hint="Give IP addresses or networks, such as 10.0.0.5 or 10.0.0.0/24, or unix, separated by commas.",
            id="wms.E010",
        )
        for name in ("WMS_TRUSTED_PROXIES", "WMS_METRICS_FROM")
        if (wrong := not_networks(getattr(settings, name)))
    ]


@register()
def check_metrics_token(**_of_django: object) -> list[CheckMessage]:
    """Return an error if the token of /metrics can be guessed."""
    if not settings.WMS_METRICS_TOKEN or len(settings.WMS_METRICS_TOKEN) >= MIN_METRICS_TOKEN_LENGTH:
        return []
    sentence = f"Give at least {MIN_METRICS_TOKEN_LENGTH} random characters, or none."
    return [Error("WMS_METRICS_TOKEN is too short.", hint=sentence, id="wms.E017")]


def _unsafe() -> Iterator[Error]:
    if settings.DEBUG:
        yield Error(
            "WMS_DEBUG is on: error pages would show settings and code to everybody.",
            hint="Unset WMS_DEBUG.",
            id="wms.E001",
        )
    yield from _weak_key("WMS_SECRET_KEY", settings.SECRET_KEY)
    for number, key in enumerate(settings.SECRET_KEY_FALLBACKS, start=1):
        # By its number: the key itself must not be logged.
        yield from _weak_key(f"Key {number} of WMS_SECRET_KEY_FALLBACKS", key, is_previous=True)
    database = settings.DATABASES["default"]
    host = str(database.get("HOST") or database.get("OPTIONS", {}).get("host", ""))
    if is_embedded(host=host, data_dir=settings.WMS_DATA_DIR):
        yield Error(
            "WMS_DATABASE_URL names an embedded database, which is made for trying out: it has no password.",
            hint="Name a PostgreSQL server of your own, or start the system with `wms-server up`.",
            id="wms.E004",
        )


def _weak_key(name: str, key: str, *, is_previous: bool = False) -> Iterator[Error]:
    """Yield the error of a key that is public or easy to guess; previous keys too, as their signatures are accepted."""
    if key == settings.INSECURE_SECRET_KEY:
        flaw, error_id = "is the default, which is public: anybody could make tokens and sessions.", "wms.E002"
    elif len(key) < MIN_SECRET_KEY_LENGTH or len(set(key)) < MIN_SECRET_KEY_UNIQUE_CHARACTERS:
        flaw = f"is too easy to guess: {len(key)} characters, {len(set(key))} different ones."
        error_id = "wms.E003"
    else:
        return
    if is_previous:
        hint = "Remove it from there; run `wms-server rotate_key` first, if stored secrets were encrypted under it."
    elif key == settings.INSECURE_SECRET_KEY:
        hint = (
            f"Set WMS_SECRET_KEY to at least {MIN_SECRET_KEY_LENGTH} random characters; or, for the system that "
            "`up` or `demo` runs here, set WMS_DATA_DIR to what its --data-dir names."
        )
    else:
        hint = f"Set it to at least {MIN_SECRET_KEY_LENGTH} random characters."
    yield Error(f"{name} {flaw}", hint=hint, id=error_id)


def _exposed() -> Iterator[Error]:
    if "*" in settings.ALLOWED_HOSTS:
        yield Error(
            "WMS_ALLOWED_HOSTS is *: any host name in a request would be written into links.",
            hint="Name the hosts under which the server is reached.",
            id="wms.E012",
        )
    url = urlsplit(settings.WMS_SERVER_URL)
    if url.scheme == "https" or (not settings.WMS_HTTPS and is_loopback(url.hostname or "")):
        return
    yield Error(
        f"WMS_SERVER_URL is {settings.WMS_SERVER_URL}: passwords and tokens would be sent in clear.",
        hint="Name the https:// address of the proxy that speaks TLS before this server; or, where all of it is on "
        "this machine, set WMS_HTTPS=false.",
        id="wms.E011",
    )


def is_loopback(host: str) -> bool:
    """Return whether *host* is reachable from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_embedded(*, host: str, data_dir: Path) -> bool:
    """Return whether *host* is the socket directory of the embedded servers of `manage.py up`.

    That is a directory inside the data directory, or, where that path is too long for a socket, ``/tmp/wms-…``.
    """
    if not host.startswith("/"):
        return False
    directory = Path(host).resolve()
    return directory.is_relative_to(data_dir.resolve()) or str(directory).startswith(TEMPORARY_SOCKETS)


def _out_of_range() -> Iterator[Error]:
    for name in sorted({name for name in dir(settings) if name.startswith("WMS_")}):
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value > 0 or (value == 0 and name in MAY_BE_ZERO):
            continue
        least = "0 or more" if name in MAY_BE_ZERO else "a number above 0"
        yield Error(f"{name} is {value}.", hint=f"Give {least}.", id="wms.E007")
