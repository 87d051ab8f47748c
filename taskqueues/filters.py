"""Filters of the list of task queues."""

from django_filters import FilterSet

from wms.kernel.filters import NameFilter


class TaskQueueFilterSet(FilterSet):
    """Filters of the list of task queues."""

    vo = NameFilter("vo__name", max_length=64, help_text="Exact name of the VO.")
    group = NameFilter("group__name", max_length=64, help_text="Exact name of the group.")
    owner = NameFilter("owner__username", max_length=150, help_text="Exact user name.")
