"""Admin pages of jobs, read-only (actions on jobs are in the portal and the REST interface), and of their owners."""

import json
from collections.abc import Sequence
from types import MappingProxyType

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse

from wms.accounts.admin.people import UserAdmin
from wms.accounts.admin.rights import VOLevelInline, VOLevelLedger
from wms.accounts.models import User
from wms.accounts.services.members import MAX_REASON_LENGTH
from wms.jobs.models import Job, JobHistory
from wms.jobs.queries.amounts import leased_and_waiting
from wms.jobs.services import suspensions
from wms.kernel.admin.actions import CONFIRMED, ask
from wms.kernel.admin.rights import SeenRelatedFilter
from wms.kernel.clock import current_time
from wms.kernel.names import counted


class HistoryInline(VOLevelInline[JobHistory]):
    """Every change of the job's status, oldest first."""

    model = JobHistory
    operators_may = frozenset({"view"})
    managers_may = frozenset({"view"})
    ordering = ("pk",)
    fields = ("changed_at", "status", "minor_status", "application_status", "source")

    def managed(self, vos: frozenset[int]) -> Q:
        """Return those of the VOs' jobs."""
        return Q(job__vo__in=vos)


@admin.register(Job)
class JobAdmin(VOLevelLedger[Job]):
    """Jobs of the VO, whoever owns them; for operators and managers."""

    list_display = ("id", "status", "minor_status", "owner", "group", "site", "job_name", "submitted_at")
    list_select_related = ("owner", "group", "site")
    list_filter = ("status", ("vo", SeenRelatedFilter), ("group", SeenRelatedFilter), ("site", SeenRelatedFilter))
    searched_exactly = ("id", "owner__username")
    search_help_text = "Id of the job, or user name of its owner. The portal finds jobs by name."
    ordering = ("-id",)
    # By all other columns a million rows would be sorted for each page.
    sortable_by = ("id",)
    inlines = (HistoryInline,)
    # Stored in other tables; lists do not load them.
    readonly_fields = ("complete_description", "std_output_tail", "std_error_tail")
    exclude = ("stored_description",)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the jobs of the VOs."""
        return Q(vo__in=vos)

    @admin.display(description="description")
    def complete_description(self, job: Job) -> str:
        """Return the description as JSON text."""
        return json.dumps(job.description, ensure_ascii=False)


class SuspensionForm(forms.Form):
    """Form of the reason of a suspension, or of its end."""

    reason = forms.CharField(
        max_length=MAX_REASON_LENGTH,
        required=False,
        widget=AdminTextInputWidget,
        help_text="Reason, which the history keeps.",
    )


@admin.register(User)
class OwnerAdmin(UserAdmin):
    """Users, whose payloads end with a suspension."""

    #: Most people of one page and one transaction.
    at_once = 100
    actions = ("suspend", "restore", *UserAdmin.actions)
    row_actions = MappingProxyType({"suspend": "Suspend …", "restore": "End the suspension …", **UserAdmin.row_actions})

    def offers(self, action: str, row: User) -> bool:
        """Return whether the action could change the user."""
        return {"suspend": row.is_active, "restore": not row.is_active}.get(action, super().offers(action, row))

    @admin.action(description="Suspend selected users …", permissions=["change"])
    def suspend(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        """End log-ins, tokens and payloads, and match no waiting job."""
        return self._put(request, queryset, suspended=True)

    @admin.action(description="End the suspension of selected users …", permissions=["change"])
    def restore(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        """Let the users log in again, and their waiting jobs be matched."""
        return self._put(request, queryset, suspended=False)

    def _put(self, request: HttpRequest, queryset: QuerySet[User], *, suspended: bool) -> HttpResponse | None:
        people = list(self.changeable(request, queryset).order_by("pk")[: self.at_once])
        if len(people) != queryset.count():
            sentence = f"Nothing was changed; choose at most {self.at_once} users, all of whom you may change."
            self.message_user(request, sentence, messages.ERROR)
            return None
        form = SuspensionForm(request.POST if CONFIRMED in request.POST else None)
        if form.is_valid() and isinstance(request.user, User):
            by, reason = request.user, form.cleaned_data["reason"]
            with transaction.atomic(durable=True):
                result = (
                    suspensions.suspend(people, reason=reason, by=by, now=current_time())
                    if suspended
                    else suspensions.restore(people, reason=reason, by=by)
                )
            self.message_user(request, f"{counted(len(people), 'user')}: {result}.", messages.SUCCESS)
            return None
        facts = [_at_stake(people, seen_by=request.user)] if suspended and isinstance(request.user, User) else []
        return ask(
            self, request, people, form=form, title="Suspend" if suspended else "End the suspension", facts=facts
        )


def _at_stake(people: Sequence[User], *, seen_by: User) -> str:
    leased, waiting = leased_and_waiting(people, seen_by=seen_by)
    return f"Payloads that are killed at once: {leased}; jobs that wait, and are not matched: {waiting}."
