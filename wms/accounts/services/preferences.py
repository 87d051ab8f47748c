"""Choices of a user about the own account: the default group, and mail about submissions."""

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from wms.accounts.domain import MailWhen
from wms.accounts.models import Group, Membership, User
from wms.kernel.errors import NotFoundError, RejectedError


class NoMailAddressError(RejectedError):
    """The account has no valid e-mail address."""

    code = "no_mail_address"


@transaction.atomic
def choose_default_group(group_id: int, *, by: User) -> Group:
    """Make a group the one in which *by* acts if a request names none, and return it.

    Raises:
        NotFoundError: *by* is not its member.
    """
    # Locked: a membership that ends at the same time ends before or after this, never in between.
    memberships = Membership.objects.select_for_update(of=("self",)).select_related("group")
    membership = memberships.filter(user=by, group=group_id).first()
    if membership is None:
        raise NotFoundError("You are not a member of this group.")
    User.objects.filter(pk=by.pk).update(default_group=membership.group)
    return membership.group


def choose_mail(when: MailWhen, *, by: User) -> None:
    """Store when *by* gets mail about submissions; it holds for submissions from now on.

    Raises:
        NoMailAddressError: the account of *by* has no valid address, and mail is wanted.
    """
    if when is not MailWhen.NEVER and not mail_address(by):
        raise NoMailAddressError("Your account has no valid e-mail address; ask an operator to add it.")
    User.objects.filter(pk=by.pk).update(mail_when=when)


def mail_address(user: User) -> str:
    """Return the address to which mail for *user* is sent; empty: the account has none that is valid."""
    try:
        validate_email(user.email)
    except ValidationError:
        return ""
    return user.email
