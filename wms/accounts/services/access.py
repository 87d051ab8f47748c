"""Access: log-in with its delay after failures, and the group in which a user acts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from django.contrib.auth import authenticate

from wms.accounts import queries, sql
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import Group, User
from wms.accounts.security_log import record
from wms.accounts.services import log_in_delay
from wms.accounts.services.second_factors import has_second_factor
from wms.kernel import rates
from wms.kernel.errors import ForbiddenError, RejectedError, TooManyError, UnauthenticatedError
from wms.kernel.names import did_you_mean

#: Log-ins per process whose password is checked or waits for it; people have three of the default number of threads.
MAX_LOG_INS: Final = 2
_places = threading.BoundedSemaphore(MAX_LOG_INS)
_password_lock = threading.Lock()
#: A further place for names that found none before: who goes on with one name is served before ever new names.
_place_of_refused = threading.BoundedSemaphore(1)
#: Digests of these names, the newest last.
_refused_names: dict[bytes, None] = {}
_MAX_REFUSED_NAMES: Final = 10_000
_refused_names_lock = threading.Lock()


class WrongCredentialsError(UnauthenticatedError):
    """User name and password do not match, or the user is suspended; the answer does not say which."""

    code = "wrong_credentials"


class SuspendedError(ForbiddenError):
    """The user is suspended."""

    code = "suspended"


class TooManyLogInsError(TooManyError):
    """Too many concurrent log-ins; the password was not checked."""

    code = "too_many_log_ins"


class NotAMemberError(RejectedError):
    """The user is not a member of the requested group."""

    code = "not_a_member"


class GroupNeededError(RejectedError):
    """The request names no group, and the user's memberships leave several or none."""

    code = "group_needed"


def log_in(
    *, username: str, password: str, address: str, now: datetime, device: str = "", waited_device: str = ""
) -> User:
    """Return the user with this name and password; the caller checks a second factor.

    An unknown name takes as long as a wrong password.

    Args:
        username: as typed; case-sensitive.
        password: as typed.
        address: of the caller, for the delay.
        now: end of the window of failures.
        device: a browser that this user has logged in with before (``known_device``); empty: none.
        waited_device: a browser that has waited after a delayed log-in (``waited_device``); empty: none.

    Raises:
        WrongCredentialsError: they do not match, or the user is suspended.
        TooManyFailuresError: log-ins are delayed; the password was not checked.
        TooManyLogInsError: too many concurrent log-ins; the password was not checked.
    """
    log_in_delay.remove_old_failures(now=now)
    password_attempt = log_in_delay.attempt_of_password(
        username=username, address=address, device=device, waited_device=waited_device
    )
    attempt = log_in_delay.begin(password_attempt, now=now)
    try:
        with _turn(password_attempt.name_digest):
            user = authenticate(username=username, password=password)
    except TooManyLogInsError:
        log_in_delay.succeeded(attempt)  # the password was not checked
        raise
    if not isinstance(user, User):
        record(SecurityEventKind.LOG_IN_REFUSED, address=address, target=password_attempt.target)
        raise WrongCredentialsError("User name or password is wrong, or the user is suspended.")
    log_in_delay.succeeded(attempt)
    record(SecurityEventKind.LOG_IN_ACCEPTED, actor=user, address=address, needs_code=has_second_factor(user))
    return user


@contextmanager
def _turn(name_digest: bytes) -> Iterator[None]:
    """Check one password at a time in this process, while a few more wait.

    The hash takes 100 MB and all processors for a moment, by design. A flood of log-ins, even with wrong passwords,
    would occupy all threads of the web server, so that no pilot is answered, and exceed the memory of the process.

    Raises:
        TooManyLogInsError: too many wait already.
    """
    place = _place_for(name_digest)
    if place is None:
        sentence = "Too many log-ins are in progress; try again in a second."
        raise TooManyLogInsError(sentence, retry_after_s=1)
    try:
        with _password_lock:
            yield
    finally:
        place.release()


def _place_for(name_digest: bytes) -> threading.BoundedSemaphore | None:
    """Return an acquired place, or None; the name is then preferred at its next attempt."""
    with _refused_names_lock:
        was_refused = name_digest in _refused_names
        for place in (_places, _place_of_refused) if was_refused else (_places,):
            if place.acquire(blocking=False):
                _refused_names.pop(name_digest, None)
                return place
        _refused_names[name_digest] = None
        if len(_refused_names) > _MAX_REFUSED_NAMES:
            del _refused_names[next(iter(_refused_names))]
    return None


def take_changes(rows: int, *, by: User) -> None:
    """Take rows that an action adds out of what *by* may change in this minute; operators are not bounded.

    Raises:
        TooManyChangesError, RateExceededError: as of ``rates.take_changes``; the action must not begin.
    """
    if not by.is_operator:
        rates.take_changes(rows, user_id=by.pk)


def acting_group(user: User, name: str | None) -> Group:
    """Return the group in which *user* acts: the named one, else the default one, else the only one.

    Raises:
        NotAMemberError: there is no such group, or the user is not its member; the sentence does not say which.
        GroupNeededError: none is named, and there is no default.
    """
    groups = sql.groups_of(user.pk)
    names = [group.name for group in groups]
    if not groups:
        raise _on_group(GroupNeededError, "You are in no group; ask a manager of your VO to add you to one.")
    if name is None:
        group = queries.default_group_of(user, groups=groups)
        if group is None:
            sentence = f"Name the group to act in, one of {', '.join(names)}."
            if user.default_group is not None:
                left = f"You are no longer a member of your default group {user.default_group}; "
                sentence = left + sentence[0].lower() + sentence[1:]
            raise _on_group(GroupNeededError, sentence)
        return group
    for group in groups:
        if group.name == name:
            return group
    hint = did_you_mean(name, names) or f" Your groups: {', '.join(names)}."
    raise _on_group(NotAMemberError, f'You are not a member of a group "{name[:100]}".{hint}')


def left_for(group: Group, user: User, *, acted_in: int | None) -> str:
    """Return a warning if *user*, who named no group, acts in *group* only because of having left others; else "".

    Args:
        group: from ``acting_group``.
        user: who acts.
        acted_in: primary key of the group in which the user acted last; None: none.
    """
    before = {pk for pk in (user.default_group_id, acted_in) if pk is not None} - {group.pk}
    left = Group.objects.filter(pk__in=before).exclude(memberships__user=user).order_by("name") if before else ()
    if not left:
        return ""
    return (
        f"You named no group and are no longer a member of {' and '.join(each.name for each in left)}: the jobs act in "
        f"{group}. Name the group, or have your default group changed."
    )


def _on_group(error: type[RejectedError], sentence: str) -> RejectedError:
    return error(sentence, errors={"group": [sentence]})
