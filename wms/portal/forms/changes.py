"""The forms of changes: above their list, and of the revert of one."""

from wms.accounts.filters import HistoryFilterSet
from wms.accounts.models import ConfigurationChange
from wms.kernel.filters import NameFilter
from wms.portal.forms.confirmed import FormToConfirm
from wms.portal.forms.fields import ReasonField
from wms.portal.forms.leases import SearchTimeFilter


class RevertForm(FormToConfirm):
    """The reason of a revert."""

    reason = ReasonField(max_length=200, label="Reason", help_text="Why; the history keeps it.")


class ChangesFilterSet(HistoryFilterSet):
    """Filters of the page of changes; an invalid one counts as not given, and the page says what is wrong."""

    target = NameFilter(lookup_expr="icontains", max_length=250, label="What", help_text="Part of its name.")
    who = NameFilter("actor_name", max_length=150, label="Who", help_text="Exact user name.")
    since = SearchTimeFilter(
        "at", lookup_expr="gte", label="From (UTC)", help_text="2d, 2026-06-01 or 2026-06-01 12:00; empty: ever since."
    )
    before = SearchTimeFilter("at", lookup_expr="lt", label="To (UTC)", help_text="Likewise; empty: now.")
    vo = None  # type: ignore[assignment]
    kind = None

    class Meta:
        model = ConfigurationChange
        fields: tuple[str, ...] = ()
