"""Who gets in: log-in with its brake, and the group that one acts in."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from django.contrib.auth import authenticate

from wms.accounts import queries
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import Group, User
from wms.accounts.security_log import record
from wms.accounts.services import brake
from wms.accounts.services.second_factors import has_second_factor
from wms.kernel.errors import RejectedError, TooManyError, UnauthenticatedError
from wms.kernel.names import did_you_mean

#: Log-ins whose password a process looks at, or that wait for it: half of the threads that it answers with by default.
MAX_LOG_INS: Final = 4
_places = threading.BoundedSemaphore(MAX_LOG_INS)
_password_lock = threading.Lock()


class WrongCredentialsError(UnauthenticatedError):
    """User name and password do not belong together, or the user is suspended; which of them is not told."""

    code = "wrong_credentials"


class TooManyLogInsError(TooManyError):
    """So many others log in at this moment that the password is not looked at."""

    code = "too_many_log_ins"


class NotAMemberError(RejectedError):
    """The user is not a member of the group it wants to act in."""

    code = "not_a_member"


class GroupNeededError(RejectedError):
    """Which group the user acts in does not follow from its memberships."""

    code = "group_needed"


def log_in(*, username: str, password: str, address: str, now: datetime, device: str = "") -> User:
    """Return the user whose name and password these are; a second factor is asked for by who calls this.

    Takes as long for a name that does not exist as for a wrong password.

    Args:
        username: as typed; names differ by letter case.
        password: as typed.
        address: of the caller, for the brake.
        now: from which the window of the brake reaches back.
        device: a browser that this user has logged in with before (``known_device``); empty: none.

    Raises:
        WrongCredentialsError: they do not belong together, or the user is suspended.
        TooManyFailuresError: the brake is on; the password was not looked at.
        TooManyLogInsError: so many others log in at this moment that it was not looked at either.
    """
    brake.remove_old_failures(now=now)
    wanted = brake.attempt_of_password(username=username, address=address, device=device)
    attempt = brake.begin(wanted, now=now)
    try:
        with _turn():
            user = authenticate(username=username, password=password)
    except TooManyLogInsError:
        brake.succeeded(attempt)  # the password was not looked at
        raise
    if not isinstance(user, User):
        record(SecurityEventKind.LOG_IN_REFUSED, address=address, target=wanted.target)
        raise WrongCredentialsError("User name or password is wrong, or the user is suspended.")
    brake.succeeded(attempt)
    record(SecurityEventKind.LOG_IN_ACCEPTED, actor=user, address=address, needs_code=has_second_factor(user))
    return user


@contextmanager
def _turn() -> Iterator[None]:
    """Let one password after another be looked at in this process, while a few more wait.

    That takes 100 MB and all processors for a while, by design. A flood of log-ins, which needs no password, would take
    all threads of the web server, so that no pilot is answered, and more memory than a process may have.

    Raises:
        TooManyLogInsError: enough of them wait already.
    """
    if not _places.acquire(blocking=False):
        sentence = "Many others log in at this moment; try again in a second."
        raise TooManyLogInsError(sentence, retry_after_s=1)
    try:
        with _password_lock:
            yield
    finally:
        _places.release()


def acting_group(user: User, name: str | None) -> Group:
    """Return the group that *user* acts in: the one named, else the default one, else the only one.

    Raises:
        NotAMemberError: there is no such group, or the user is not its member; which of them is not told.
        GroupNeededError: none is named and none follows.
    """
    groups = queries.groups_of(user)
    names = [group.name for group in groups]
    if not groups:
        raise _on_group(GroupNeededError, "You are in no group; ask a manager of your VO to put you into one.")
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
    """Return that *user*, who named no group, acts in *group* only for having left others; empty: as expected.

    Args:
        group: as of ``acting_group``.
        user: who acts.
        acted_in: primary key of the group in which the user acted last; None: in none.
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
