"""Membership by consent: a manager invites a user name; its user accepts or declines, and may leave later."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from wms.accounts.domain import MAX_OPEN_INVITATIONS, SecurityEventKind
from wms.accounts.models import Group, Invitation, Membership, User
from wms.accounts.security_log import record
from wms.kernel.errors import ConflictError, NotFoundError


class NoInvitationError(NotFoundError):
    """There is no such invitation, or not for this user, or it is no longer open."""

    code = "no_invitation"


class TooManyInvitationsError(ConflictError):
    """The group has as many open invitations as it may."""

    code = "too_many_invitations"


def require_room(group: Group, *, now: datetime) -> None:
    """Return if *group* may have a further open invitation.

    Raises:
        TooManyInvitationsError: it has MAX_OPEN_INVITATIONS.
    """
    if Invitation.objects.filter(group=group, expires_at__gt=now).count() >= MAX_OPEN_INVITATIONS:
        sentence = f"The group has {MAX_OPEN_INVITATIONS} open invitations; withdraw some first."
        raise TooManyInvitationsError(sentence)


@transaction.atomic
def invite(group: Group, username: str, *, by: User, now: datetime) -> None:
    """Invite the user name into *group*, for WMS_INVITATION_S; an existing invitation is kept.

    NB: users are not looked up: no effect of an invitation may show whether the name exists.
    """
    values = {"invited_by": by, "created_at": now, "expires_at": now + timedelta(seconds=settings.WMS_INVITATION_S)}
    _, is_new = Invitation.objects.get_or_create(group=group, username=username, defaults=values)
    if is_new:
        record(SecurityEventKind.INVITATION_SENT, target=f"user {username}", row=group, group=group.name)


@transaction.atomic
def withdraw(invitation: Invitation) -> None:
    """Withdraw an invitation."""
    Invitation.objects.filter(pk=invitation.pk).delete()
    kind, group = SecurityEventKind.INVITATION_WITHDRAWN, invitation.group
    record(kind, target=f"user {invitation.username}", row=group, group=group.name)


@transaction.atomic
def accept(invitation_id: int, *, by: User, now: datetime) -> Group:
    """Make *by* a member of the group of the invitation, and return the group.

    Raises:
        NoInvitationError: there is none, or it was withdrawn, declined or has expired, or its sender may no longer
            invite.
    """
    invitation = _locked(invitation_id, by=by, now=now)
    # One by claim does not lapse from now on.
    given = {"by_claim_of": None, "confirmed_at": None}
    Membership.objects.update_or_create(user=by, group=invitation.group, defaults=given)
    invitation.delete()
    record(
        SecurityEventKind.INVITATION_ACCEPTED,
        actor=by,
        target=f"user {by.username}",
        row=invitation.group,
        group=invitation.group.name,
        invited_by=str(invitation.invited_by),
    )
    return invitation.group


@transaction.atomic
def decline(invitation_id: int, *, by: User, now: datetime) -> None:
    """Decline an invitation; its sender does not see that.

    Raises:
        NoInvitationError: as for ``accept``.
    """
    invitation = _locked(invitation_id, by=by, now=now)
    Invitation.objects.filter(pk=invitation.pk).update(declined_at=now)
    record(SecurityEventKind.INVITATION_DECLINED, actor=by, target=f"user {by.username}", group=invitation.group.name)


@transaction.atomic
def leave(group_id: int, *, by: User) -> Group:
    """End the membership of *by* in a group, and return the group.

    Raises:
        NotFoundError: *by* is not its member.
    """
    membership = Membership.objects.select_related("group").filter(user=by, group=group_id).first()
    if membership is None:
        raise NotFoundError("You are not a member of this group.")
    membership.delete()
    if by.default_group_id == group_id:
        User.objects.filter(pk=by.pk).update(default_group=None)
    kind, group = SecurityEventKind.RIGHTS_CHANGED, membership.group
    record(kind, actor=by, target=f"user {by.username}", row=group, left=group.name)
    return membership.group


def remove_expired_invitations(*, now: datetime) -> int:
    """Remove the expired invitations, and return their number."""
    removed, _ = Invitation.objects.filter(expires_at__lte=now).delete()
    return removed


def _locked(invitation_id: int, *, by: User, now: datetime) -> Invitation:
    open_invitations = Invitation.objects.open_to(by, now=now).select_related("group__vo", "invited_by")
    invitation = open_invitations.select_for_update(of=("self",)).filter(pk=invitation_id).first()
    if invitation is None:
        raise NoInvitationError("This invitation is no longer open: it was withdrawn or answered, or has expired.")
    return invitation
