"""Filters of the lists of groups and of changes of the configuration."""

from django.db.models import QuerySet
from django_filters import ChoiceFilter, FilterSet

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, ConfigurationChange, User
from wms.kernel.filters import NameFilter, ZonedTimeFilter


class GroupFilterSet(FilterSet):
    """Filters of groups."""

    vo = NameFilter("vo__name", max_length=64, help_text="Exact name of the VO.")


class HistoryFilterSet(FilterSet):
    """Filters of the history."""

    vo = NameFilter(method="of_vo", max_length=64, label="VO", help_text="Exact name of the VO.")
    kind = ChoiceFilter(choices=[(kind.value, kind.value) for kind in SecurityEventKind], help_text="One kind.")
    who = NameFilter("actor_name", max_length=150, help_text="Exact user name.")
    target = NameFilter(max_length=250, help_text="Exactly what was changed.")
    since = ZonedTimeFilter("at", lookup_expr="gte", help_text="Changes at this time or later.")
    before = ZonedTimeFilter("at", lookup_expr="lt", help_text="Changes before this time.")

    def of_vo(self, events: QuerySet[ConfigurationChange], _: str, name: str) -> QuerySet[ConfigurationChange]:
        """Return the events that concern the VO; none of a VO that the caller does not manage."""
        user = self.request.user if self.request is not None else None
        vos = VO.objects.managed_by(user).filter(name=name) if isinstance(user, User) else VO.objects.none()
        return events.filter(vo_ids__isnull=False, vo_ids__overlap=list(vos.values_list("pk", flat=True)))
