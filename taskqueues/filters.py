"""Filters of the lists of task queues and of limits."""

from django_filters import FilterSet

from wms.kernel.filters import NameFilter


class TaskQueueFilterSet(FilterSet):
    """Filters of the list of task queues."""

    vo = NameFilter("vo__name", max_length=64, help_text="Exact name of the VO.")
    group = NameFilter("group__name", max_length=64, help_text="Exact name of the group.")
    owner = NameFilter("owner__username", max_length=150, help_text="Exact user name.")


class LimitFilterSet(FilterSet):
    """Filters of the list of limits, by the names that they name."""

    vo = NameFilter("vo__name", max_length=64, help_text="Exact name of the VO.")
    site = NameFilter("site__name", max_length=128, help_text="Exact name of the site.")
    group = NameFilter("group__name", max_length=64, help_text="Exact name of the group.")
    user = NameFilter("user__username", max_length=150, help_text="Exact user name.")
