"""Offers that VO managers and operators imagine, for previews of matches."""

from dataclasses import replace
from datetime import datetime

from matching.services.offers import BadOfferError, OfferRequest, name_in, offer_at
from resources.queries.places import ResourcePlace, resolve_place
from taskqueues.domain.offer import ResourceOffer
from wms.accounts.models import VO, Group, User
from wms.kernel.memo import UNCACHED
from wms.kernel.names import did_you_mean


def of_preview(
    request: OfferRequest, *, owner: str | None, group: str | None, actor: User, now: datetime
) -> tuple[ResourceOffer, ResourcePlace]:
    """Return an imagined offer of a VO manager or operator, and its place.

    Args:
        owner, group: of an imagined private pilot; None, None: a generic pilot.

    Raises:
        BadOfferError, UnknownPlaceError: it names something that does not exist (for the actor), or contradicts itself.
    """
    vo = _managed_vo(actor, request.vo)
    place = resolve_place(vo, site=name_in(request.site), ce=name_in(request.ce), queue=name_in(request.queue))
    offer = offer_at(request, platforms=request.platforms, vo=vo, place=place, now=now, lookups=UNCACHED)
    if group is None:
        if owner is not None:
            raise BadOfferError.of_field("owner", "A private pilot of an owner requires a group; name the group too.")
        return offer, place
    row = Group.objects.filter(vo=vo, name=group).first()
    if row is None:
        groups = Group.objects.filter(vo=vo).values_list("name", flat=True)
        raise BadOfferError.of_field("group", f'{vo} has no group "{group}".{did_you_mean(group, groups)}')
    owner_id = _owner_id(row, owner)
    return replace(offer, group_id=row.pk, owner_id=None if row.shares_jobs else owner_id), place


def _managed_vo(actor: User, name: str | None) -> VO:
    managed = VO.objects.managed_by(actor).order_by("name")
    if name is None:
        choices = list(managed[:2])
        if len(choices) == 1:
            return choices[0]
        raise BadOfferError.of_field("vo", "You manage several VOs; name the VO of the offer.")
    vo = managed.filter(name=name).first()
    if vo is None:
        hint = did_you_mean(name, managed.values_list("name", flat=True))
        raise BadOfferError.of_field("vo", f'You manage no VO "{name}".{hint}')
    return vo


def _owner_id(group: Group, owner: str | None) -> int | None:
    if owner is None:
        if group.shares_jobs:
            return None
        raise BadOfferError.of_field("owner", f"{group} does not share jobs; name the owner of the private pilot.")
    members = User.objects.filter(memberships__group=group)
    user = members.filter(username=owner).first()
    if user is None:
        hint = did_you_mean(owner, members.values_list("username", flat=True))
        raise BadOfferError.of_field("owner", f'{group} has no member "{owner}".{hint}')
    return user.pk
