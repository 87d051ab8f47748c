"""The conditions of a match as SQL: a second, independent implementation that tests compare with the index."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from django.contrib.postgres.fields import ArrayField
from django.db.models import Exists, OuterRef, Q, TextField, Value

from taskqueues.domain.offer import ResourceOffer
from wms.accounts.models import Membership
from wms.wire.amounts import AMOUNTS

ANYTHING = Q()
#: No queue has this primary key; ``Q(pk__in=[])`` would be lost in ``~Q`` and ``|``.
NOTHING = Q(pk=0)


def _array(values: Iterable[str]) -> Value:
    """Return an array as one parameter; Django would make one parameter of each element."""
    return Value(list(values), output_field=ArrayField(TextField()))


def accepts(column: str, offered: str | None) -> Q:
    """Return the condition that the queue's list is empty or contains the offered value; None is not compared."""
    return ANYTHING if offered is None else Q(**{column: []}) | Q(**{f"{column}__contains": _array([offered])})


def accepts_one_of(column: str, offered: tuple[str, ...] | None) -> Q:
    """Return the condition that the queue's list is empty or contains an offered value; None is not compared."""
    return ANYTHING if offered is None else Q(**{column: []}) | Q(**{f"{column}__overlap": _array(offered)})


def _owner_group(offer: ResourceOffer) -> Q:
    # The jobs of a suspended owner wait, and so do those of an owner who is no longer a member of their group (ADR 39).
    members = Membership.objects.filter(user=OuterRef("owner"), group=OuterRef("group"))
    trusted = Q(Exists(members), owner__is_active=True, vo=offer.vo_id)
    if offer.group_id is None:
        return trusted
    if offer.owner_id is None:
        return trusted & Q(group=offer.group_id)
    return trusted & Q(group=offer.group_id, owner=offer.owner_id)


def _site(offer: ResourceOffer) -> Q:
    return accepts("sites", offer.site) if offer.accepting else NOTHING


def _banned_site(offer: ResourceOffer) -> Q:
    return ANYTHING if offer.site is None else ~Q(banned_sites__contains=_array([offer.site]))


def _job_type(offer: ResourceOffer) -> Q:
    return Q(job_type__in=offer.job_types) if offer.job_types else ANYTHING


def _at_most(column: str, offer: ResourceOffer) -> Q:
    offered = getattr(offer, column)
    return ANYTHING if offered is None else Q(**{f"{column}__lte": offered})


def _downtime(offer: ResourceOffer) -> Q:
    if offer.downtime is None:
        return ANYTHING
    limited = Q(wall_time_s__gt=0, wall_time_s__lte=offer.downtime.wall_time_s)
    return limited | Q(wall_time_s=0, cpu_time_s__lte=offer.downtime.cpu_time_s)


CONDITIONS: Mapping[str, Callable[[ResourceOffer], Q]] = MappingProxyType(
    {
        "owner_group": _owner_group,
        "setup": lambda offer: ANYTHING if offer.setup is None else Q(setup=offer.setup),
        "cpu_time": lambda offer: Q(cpu_time_s__lte=offer.cpu_time_s),
        "pilot_type": lambda offer: accepts("pilot_types", offer.pilot_type),
        "site": _site,
        "banned_site": _banned_site,
        "ce": lambda offer: accepts("grid_ces", offer.ce),
        "platform": lambda offer: accepts_one_of("platforms", offer.platforms),
        "submit_pool": lambda offer: accepts_one_of("submit_pools", offer.submit_pools),
        "software": lambda offer: ~Q(software__overlap=_array(sorted(offer.lacking_software))),
        "tags": lambda offer: Q(tags__contained_by=_array(offer.tags)),
        "required_tags": lambda offer: Q(tags__contains=_array(offer.required_tags)),
        "job_type": _job_type,
        **{amount.condition: partial(_at_most, amount.name) for amount in AMOUNTS},
        "container": lambda offer: ANYTHING if offer.container else Q(container=False),
        "downtime": _downtime,
        # Enforced with the throttles and limits of SAM; until then every queue passes.
        "throttle": lambda _offer: ANYTHING,
        "limit": lambda _offer: ANYTHING,
    }
)


def all_conditions(offer: ResourceOffer) -> Q:
    """Return the condition under which a task queue fits *offer*."""
    fits = Q()
    for condition in CONDITIONS.values():
        fits &= condition(offer)
    return fits
