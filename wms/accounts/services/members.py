"""Members of groups and the suspension of people, as managers of VOs and operators change them (ADR 48)."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import Group, Invitation, Membership, User
from wms.accounts.queries import is_above, is_only_in, to_add
from wms.accounts.security_log import record
from wms.accounts.services.invitations import invite, require_room, withdraw
from wms.kernel.db import transaction_required
from wms.kernel.errors import ForbiddenError, NotFoundError

#: Characters of the reason of a suspension.
MAX_REASON_LENGTH: Final = 200


@transaction_required
def put_into_group(group: Group, username: str, *, by: User, now: datetime, reason: str = "") -> bool:
    """Make a user a member of *group*, or invite the name; return whether the user is a member now.

    A membership by claim becomes one that lasts. An invitation that is open stays.

    NB: for a manager, no effect may show whether a name exists outside of the VO.

    Args:
        group: of a VO that *by* manages.
        username: exact name.
        by: the acting user.
        now: the time of the change.
        reason: for the history of the group; may be empty. An invitation keeps none.

    Raises:
        TooManyInvitationsError: the group has as many open invitations as it may.
    """
    user = to_add(group, by_operator=by.is_operator).filter(username=username).first()
    if user is None:
        # An expired one would be kept, and could not be accepted.
        Invitation.objects.filter(group=group, username=username, expires_at__lte=now).delete()
        if not Invitation.objects.filter(group=group, username=username).exists():
            require_room(group, now=now)
        invite(group, username, by=by, now=now)
        return False
    membership, is_new = Membership.objects.get_or_create(user=user, group=group)
    if not is_new and membership.confirmed_at is None:
        return True
    Membership.objects.filter(pk=membership.pk).update(by_claim_of=None, confirmed_at=None)
    record_member(group, f"{'+' if is_new else '~'}{user}", by=by, reason=reason)
    return True


@transaction_required
def remove_from_group(group: Group, username: str, *, by: User, now: datetime, reason: str = "") -> None:
    """End the membership of a user in *group*, and withdraw an open invitation of the name.

    Args:
        group: of a VO that *by* manages.
        username: exact name.
        by: the acting user.
        now: the time of the change.
        reason: for the history of the group; may be empty.

    Raises:
        NotFoundError: the name is neither a member's nor invited.
    """
    membership = Membership.objects.select_related("user").filter(group=group, user__username=username).first()
    invitation = Invitation.objects.filter(group=group, username=username, expires_at__gt=now).first()
    if membership is None and invitation is None:
        raise NotFoundError(f"{username} is neither a member of the group {group} nor invited to it.")
    if membership is not None:
        membership.delete()
        record_member(group, f"-{membership.user}", by=by, reason=reason)
    if invitation is not None:
        withdraw(invitation)


def record_member(group: Group, what: str, *, by: User | None = None, reason: str = "") -> None:
    """Write to the history of a group what its page in the administration writes about its table of members.

    Args:
        group: of the membership.
        what: the user name after "+" (is a member now), "~" (stays one) or "-" (is none any more).
        by: the acting user; None: that of the current request or command.
        reason: of the change; may be empty.
    """
    changes = {"memberships": [f"{what} in {group}"], **({"reason": reason} if reason else {})}
    kind = SecurityEventKind.RIGHTS_CHANGED
    record(kind, actor=by, target=f"group {group}", row=group, what="changed", changes=changes)


def require_changeable(person: User, *, by: User, vos: Collection[int] | None) -> None:
    """Return if *by* may suspend and restore *person*.

    Args:
        person: a user whom *by* sees.
        by: the acting user.
        vos: the VOs that *by* manages; None: an operator.

    Raises:
        ForbiddenError: only an operator, or only a superuser, may.
    """
    if is_above(person, by):
        raise ForbiddenError("Only superusers suspend and restore superusers.")
    if vos is not None and not User.objects.filter(is_only_in(vos), pk=person.pk).exists():
        raise ForbiddenError(f"{person} has privileges, or is also in a VO that you do not manage; ask an operator.")


@transaction_required
def set_suspended(person: User, *, suspended: bool, reason: str, by: User) -> None:
    """Suspend *person*, or end the suspension; nothing is changed or recorded if that is so already.

    Triggers end tokens, one-time links and sessions with a suspension; waiting jobs are not matched while it lasts.
    Callers use ``wms.jobs.services.suspensions``, which also kills what pilots hold (ADR 111).

    Args:
        person: the user; updated too.
        suspended: whether the user is suspended from now on.
        reason: for the security log; may be empty.
        by: the acting user.
    """
    person.is_active = not suspended
    if not User.objects.filter(pk=person.pk, is_active=suspended).update(is_active=person.is_active):
        return
    changes = {"is_active": person.is_active, **({"reason": reason} if reason else {})}
    kind = SecurityEventKind.USER_SUSPENDED if suspended else SecurityEventKind.USER_RESTORED
    record(kind, actor=by, target=f"user {person}", row=person, what="changed", changes=changes)
