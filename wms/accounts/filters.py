"""Filters of the lists of groups."""

from django_filters import FilterSet

from wms.kernel.filters import NameFilter


class GroupFilterSet(FilterSet):
    """Filters of groups."""

    vo = NameFilter("vo__name", max_length=64, help_text="Exact name of the VO.")
