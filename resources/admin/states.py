"""Admin actions that set the state of sites, computing elements and queues, each with a reason."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from resources.services.states import MAX_REASON_LENGTH, StateError, set_state
from wms.accounts.admin.rights import VOLevelAdmin
from wms.accounts.models import User
from wms.kernel.admin.actions import AT_ONCE, CONFIRMED, ask
from wms.kernel.clock import current_time
from wms.kernel.time_texts import to_the_second

if TYPE_CHECKING:
    from django.contrib.admin.options import _FieldOpts

LevelT = TypeVar("LevelT", Site, ComputingElement, Queue)
#: Columns of a level's state; only these actions change them.
STATE_FIELDS = ("state", "state_reason", "state_until", "state_changed_by", "state_changed_at")
#: Actions on the page of each level.
STATE_ACTIONS = ("ban", "drain", "activate")
STATE_FIELDSET: "tuple[str, _FieldOpts]" = ("State", {"fields": STATE_FIELDS})
PARAMETER_FIELDSET: "tuple[str, _FieldOpts]" = (
    "Parameters",
    {
        "fields": ("parameters", "vo_parameters"),
        "description": "What jobs may require: {name: value or list of values}; by VO: {VO: {name: …}}. "
        "Those of a queue come before those of its CE, and those before the site's.",
    },
)


class StateForm(forms.Form):
    """Form of a reason and an end."""

    reason = forms.CharField(
        max_length=MAX_REASON_LENGTH,
        required=False,
        widget=AdminTextInputWidget,
        help_text="Reason, shown to users; required unless the state is active.",
    )
    until = forms.DateTimeField(
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text="Time (UTC) at which it is active again; empty: no end is set.",
    )


class StatesAdmin(VOLevelAdmin[LevelT]):
    """Base of the admin pages of the three levels: ban, drain and activate, after a page for the reason."""

    row_actions = MappingProxyType({"ban": "Ban …", "drain": "Drain …", "activate": "Activate …"})

    def jobs_at(self, level: LevelT) -> str:  # noqa: ARG002 - for subclasses
        """Return in a sentence how many jobs run there, and wait for it alone; empty: that is not known."""
        return ""

    def offers(self, action: str, row: LevelT) -> bool:
        """Return whether the action could change the row: a ban or drain may get another reason or end."""
        return action != "activate" or row.state != ResourceState.ACTIVE

    @admin.action(description="Ban selected rows …", permissions=["change"])
    def ban(self, request: HttpRequest, queryset: QuerySet[LevelT]) -> HttpResponse | None:
        """Take no jobs, and let no pilot register."""
        return self._put(request, queryset, ResourceState.BANNED)

    @admin.action(description="Drain selected rows …", permissions=["change"])
    def drain(self, request: HttpRequest, queryset: QuerySet[LevelT]) -> HttpResponse | None:
        """Take no new job and no new pilot."""
        return self._put(request, queryset, ResourceState.DRAINING)

    @admin.action(description="Activate selected rows …", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[LevelT]) -> HttpResponse | None:
        """Take jobs and pilots again."""
        return self._put(request, queryset, ResourceState.ACTIVE)

    def _put(self, request: HttpRequest, queryset: QuerySet[LevelT], state: ResourceState) -> HttpResponse | None:
        allowed = self.changeable(request, queryset)
        levels = list(allowed.order_by("pk")[:AT_ONCE])
        if not levels or len(levels) != queryset.count():
            sentence = f"Nothing was changed; choose at most {AT_ONCE} rows, all of which you may change."
            self.message_user(request, sentence, messages.ERROR)
            return None
        form = StateForm(request.POST if CONFIRMED in request.POST else None)
        # Of several places jobs may wait for any one.
        facts = [sentence] if len(levels) == 1 and (sentence := self.jobs_at(levels[0])) else []
        if form.is_valid() and self._is_set(request, levels, state=state, form=form):
            self._report(request, levels, facts=facts)
            return None
        return ask(self, request, levels, form=form, title=f"Set to {state}", facts=facts)

    def _report(self, request: HttpRequest, levels: Sequence[LevelT], *, facts: Sequence[str]) -> None:
        first, until = levels[0], to_the_second(levels[0].state_until)
        what = str(first) if len(levels) == 1 else f"{len(levels):,} {self.opts.verbose_name_plural}"
        sentence = f"Now {first.state}{f' until {until}' if until else ''}: {what}."
        self.message_user(request, " ".join((sentence, *facts)), messages.SUCCESS)

    def _is_set(self, request: HttpRequest, levels: list[LevelT], *, state: ResourceState, form: StateForm) -> bool:
        reason, until = form.cleaned_data["reason"], form.cleaned_data["until"]
        by = request.user if isinstance(request.user, User) else None
        try:
            with transaction.atomic(durable=True):
                for level in levels:
                    set_state(level, state=state, reason=reason, until=until, by=by, now=current_time())
                    self.log_change(request, level, f"State {state}. {reason}")
        except StateError as error:
            for field, sentences in error.errors.items():
                form.add_error(field, sentences)
            return False
        return True
