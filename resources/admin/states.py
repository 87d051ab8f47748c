"""Admin actions that set the state of sites, computing elements and queues, each with a reason."""

from typing import TYPE_CHECKING, TypeVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from resources.services.states import MAX_REASON_LENGTH, StateError, set_state
from wms.accounts.admin.rights import VOLevelAdmin
from wms.accounts.models import User
from wms.kernel.clock import current_time

if TYPE_CHECKING:
    from django.contrib.admin.options import _FieldOpts

LevelT = TypeVar("LevelT", Site, ComputingElement, Queue)
#: Most rows that one page shows and one transaction changes.
AT_ONCE = 500
#: Columns of a level's state; only these actions change them.
STATE_FIELDS = ("state", "state_reason", "state_until", "state_changed_by", "state_changed_at")
#: Actions on the page of each level.
STATE_ACTIONS = ("ban", "drain", "activate")
STATE_FIELDSET: "tuple[str, _FieldOpts]" = (
    "State",
    {"fields": STATE_FIELDS, "description": "Changed by the actions of the list, each with its reason."},
)
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
        if len(levels) != queryset.count():
            sentence = f"Nothing was changed; choose at most {AT_ONCE} rows, all of which you may change."
            self.message_user(request, sentence, messages.ERROR)
            return None
        confirmed = "confirmed" in request.POST
        form = StateForm(request.POST if confirmed else None)
        if confirmed and form.is_valid() and self._is_set(request, levels, state=state, form=form):
            self.message_user(request, f"{len(levels)} now {state}.", messages.SUCCESS)
            return None
        return self._ask(request, levels, state=state, form=form)

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

    def _ask(
        self, request: HttpRequest, levels: list[LevelT], *, state: ResourceState, form: StateForm
    ) -> TemplateResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Set to {state}",
            "opts": self.opts,
            "levels": [str(level) for level in levels],
            "form": form,
            "hidden": [
                ("action", request.POST["action"]),
                ("confirmed", "1"),
                *((ACTION_CHECKBOX_NAME, str(level.pk)) for level in levels),
            ],
        }
        return TemplateResponse(request, "admin/set_state.html", context)
