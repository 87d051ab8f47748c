"""People for those who manage them: the list, and the page of one with suspension, groups and history."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from wms.accounts.models import Membership, User
from wms.accounts.oidc.configuration import providers
from wms.accounts.queries import groups_managed_by, history_of_person, managed_vos_of, people_seen_by
from wms.accounts.services import people as waiting_people
from wms.accounts.services.members import MAX_REASON_LENGTH, put_into_group, remove_from_group, require_changeable
from wms.jobs.queries.people import PastUsage, past_usage, present_jobs
from wms.jobs.services.suspensions import restore, suspend
from wms.kernel.clock import current_time
from wms.kernel.errors import ForbiddenError, WmsError
from wms.portal.forms.people import PERIODS, MembershipForm, PeopleForm, PersonSuspensionForm
from wms.portal.pages import ROWS_PER_PAGE, filters_in, manager_of, show, signed_in
from wms.portal.presentation.people import hours, person_row
from wms.portal.views.log_in import to_fresh_log_in

_View: TypeAlias = Callable[..., HttpResponseBase]
#: Newest entries of the history on the page of a person.
MOST_CHANGES: Final = 50


def _after_fresh_log_in(view: _View) -> _View:
    """Return *view*, before which a log-in that is not fresh is to be repeated, as over REST (WMS_FRESH_LOG_IN_S)."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        pk = kwargs.get("pk")
        back = reverse("portal:people") if pk is None else reverse("portal:person", args=[pk])
        return to_fresh_log_in(request, back=back) or view(request, *args, **kwargs)

    return guarded


@login_required
@require_safe
def people_list(request: HttpRequest) -> HttpResponse:
    """Show the people whom the reader manages, by user name."""
    user, now, form = manager_of(request), current_time(), PeopleForm(request.GET, user=signed_in(request))
    form.is_valid()
    values, span = form.cleaned_data, form.span(now=now)
    found = people_seen_by(user)
    if name := values.get("name"):
        found = found.filter(
            Q(username__icontains=name)
            | Q(first_name__icontains=name)
            | Q(last_name__icontains=name)
            | Q(email__icontains=name)
        )
    if group := values.get("group"):
        found = found.filter(memberships__group=group)
    if state := values.get("state"):
        found = found.filter(is_active=state == "active")
    after = request.GET.get("after", "")[:150]
    # Uses index: accounts_user_username_key
    people = list(found.filter(username__gt=after).order_by("username")[: ROWS_PER_PAGE + 1])
    shown = people[:ROWS_PER_PAGE]
    memberships = _memberships(shown, user)
    jobs, usage = present_jobs(shown, seen_by=user), past_usage(shown, span, seen_by=user)
    query = filters_in(request.GET)
    context = {
        "form": form,
        "rows": [person_row(each, memberships=memberships[each.pk], jobs=jobs, usage=usage) for each in shown],
        "following": urlencode({**query, "after": shown[-1].username}) if len(people) > len(shown) else "",
        "is_first": not after,
        "query": urlencode(query),
        "period": PERIODS[values.get("used") or "week"][0],
        "who_waits": _who_waits(user),
        "membership": MembershipForm(user=user),
    }
    return show(request, "portal/people.html", context)


@login_required
@require_safe
def person_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one person whom the reader manages; 404 for others."""
    return _shown(request, _person(request, pk))


@login_required
@require_POST
@_after_fresh_log_in
def set_suspension(request: HttpRequest, pk: int) -> HttpResponse:
    """Suspend the person, or end the suspension, and say the numbers of jobs; what is refused is shown again."""
    user, person, form = signed_in(request), _person(request, pk), PersonSuspensionForm(request.POST)
    if not form.is_valid():
        return _shown(request, person, refused=form)
    reason = form.cleaned_data["reason"]
    try:
        require_changeable(person, by=user, vos=managed_vos_of(user))
    except ForbiddenError as error:
        form.add_error(None, error.detail)
        return _shown(request, person, refused=form)
    with transaction.atomic(durable=True):
        if form.cleaned_data["suspended"]:
            result = suspend([person], reason=reason, by=user, now=current_time())
        else:
            result = restore([person], reason=reason, by=user)
    messages.success(request, f"{person}: {result}.")
    return redirect("portal:person", pk=pk)


@login_required
@require_POST
@_after_fresh_log_in
def change_membership(request: HttpRequest) -> HttpResponse:
    """Put a name into a group or invite it, or remove it, and lead to the page that it was asked for on."""
    user, form = manager_of(request), MembershipForm(request.POST, user=signed_in(request))
    if not form.is_valid():
        for errors in form.errors.values():
            messages.error(request, " ".join(map(str, errors)))
    else:
        username, group = form.cleaned_data["username"], form.cleaned_data["group"]
        try:
            with transaction.atomic(durable=True):
                if request.POST.get("action") == "remove":
                    remove_from_group(group, username, by=user, now=current_time())
                    said = f"{username} is no longer a member of {group}, nor invited to it."
                elif put_into_group(group, username, by=user, now=current_time()):
                    said = f"{username} is a member of {group}."
                else:
                    said = f"{username} is invited to {group}, and becomes a member by accepting in the portal."
            messages.success(request, said)
        except WmsError as error:
            messages.error(request, error.detail)
    back = people_seen_by(user).filter(username=request.POST.get("person", "")).first()
    return redirect("portal:people") if back is None else redirect("portal:person", pk=back.pk)


def _person(request: HttpRequest, pk: int) -> User:
    return get_object_or_404(people_seen_by(manager_of(request)), pk=pk)


def _memberships(people: Sequence[User], user: User) -> defaultdict[int, list[Membership]]:
    """Return the memberships of people by primary key, in groups that *user* manages."""
    found: defaultdict[int, list[Membership]] = defaultdict(list)
    rows = Membership.objects.filter(user__in=people, group__in=groups_managed_by(user))
    for membership in rows.select_related("group__vo").order_by("group__name"):
        found[membership.user_id].append(membership)
    return found


def _who_waits(user: User) -> int | None:
    """Return the number of people who wait to be admitted by *user*; None: nobody can wait."""
    return waiting_people.people_who_wait(user, now=current_time()).count() if providers() else None


def _shown(request: HttpRequest, person: User, *, refused: PersonSuspensionForm | None = None) -> HttpResponse:
    user, now = signed_in(request), current_time()
    jobs = present_jobs([person], seen_by=user)
    used: dict[str, PastUsage] = {}
    for name, (label, _, _) in PERIODS.items():
        form = PeopleForm({"used": name}, user=user)
        form.is_valid()
        used[label] = past_usage([person], form.span(now=now), seen_by=user).get(person.pk, PastUsage())
    row = person_row(person, memberships=_memberships([person], user)[person.pk], jobs=jobs, usage={})
    try:
        require_changeable(person, by=user, vos=managed_vos_of(user))
        why_not = ""
    except ForbiddenError as error:
        why_not = error.detail
    context = {
        "person": row,
        "used": [(label, usage, hours(usage)) for label, usage in used.items()],
        "why_not": why_not,
        "refused": refused,
        "most_reason": MAX_REASON_LENGTH,
        "further_groups": groups_managed_by(user).exclude(memberships__user=person),
        "history": history_of_person(person, user=user, most=MOST_CHANGES),
        "of_owner": urlencode({"owner": person.username}),
    }
    status = HTTPStatus.OK if refused is None else HTTPStatus.BAD_REQUEST
    return show(request, "portal/person.html", context, status=status)
