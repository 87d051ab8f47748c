"""Limits over REST: list, add, change and delete."""

from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from resources.models import ComputingElement, Site
from taskqueues.domain.limits import BOUNDS, LARGEST_BURST, LONGEST_DELAY_S
from taskqueues.filters import LimitFilterSet
from taskqueues.models import Limit
from taskqueues.queries import limit_in_words, room_in_words, with_counts
from taskqueues.services.limits import (
    delete_limit,
    lock_limits,
    managed_by,
    mistakes_in,
    nameable,
    of_same_scope,
    save_limit,
)
from wms.accounts.api.permissions import IsManager, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import User
from wms.accounts.queries import managed_vos_of
from wms.kernel.db import database_now
from wms.kernel.errors import RejectedError
from wms.kernel.rest import ConfirmedIn, CursorPages, DeletionIn, Name, Number, WholeNumber, error_responses
from wms.kernel.rest.audience import Audience

_MOST_JOBS = 2**31 - 1


class LimitError(RejectedError):
    """The limit contradicts itself, doubles another one, or is not for the caller to set."""

    code = "bad_limit"


class BoundsIn(ConfirmedIn):
    """All bounds of a limit; those that are left out, or null, do not apply."""

    running = WholeNumber(
        min_value=0, max_value=_MOST_JOBS, allow_null=True, default=None, help_text="Jobs held by pilots at a time."
    )
    waiting = WholeNumber(
        min_value=0, max_value=_MOST_JOBS, allow_null=True, default=None, help_text="Jobs in queues at a time."
    )
    cpu_s_per_day = WholeNumber(
        min_value=0,
        allow_null=True,
        default=None,
        help_text="CPU time, in seconds, that jobs have reported in the last 24 hours.",
    )
    delay_s = Number(
        min_value=0,
        max_value=LONGEST_DELAY_S,
        allow_null=True,
        default=None,
        help_text="Mean seconds between two matches.",
    )
    burst = WholeNumber(
        min_value=1,
        max_value=LARGEST_BURST,
        allow_null=True,
        default=None,
        help_text="Matches at once after a pause; requires `delay_s`.",
    )


class LimitIn(BoundsIn):
    """A new limit: the jobs that it counts, by all names that are given, and its bounds."""

    vo = Name(max_length=64, required=False, help_text="Jobs of this VO.")
    site = Name(max_length=128, required=False, help_text="Jobs at this site.")
    ce = Name(max_length=128, required=False, help_text="Jobs at this computing element of the site.")
    group = Name(max_length=64, required=False, help_text="Jobs of this group.")
    user = Name(max_length=150, required=False, help_text="Jobs of this user.")
    job_type = Name(max_length=255, required=False, help_text="Jobs of this type.")


class LimitOut(serializers.Serializer[Any]):
    """One limit, with its room."""

    id = serializers.IntegerField(
        allow_null=True, help_text="Id of the limit; null: it was to be added in a dry run, and there is none."
    )
    scope = serializers.SerializerMethodField(help_text='Jobs that it counts: "the user alice at the site X".')
    vo = serializers.CharField(source="vo.name", default=None, allow_null=True, help_text="VO; null: any.")
    site = serializers.CharField(source="site.name", default=None, allow_null=True, help_text="Site; null: any.")
    ce = serializers.CharField(source="ce.name", default=None, allow_null=True, help_text="CE; null: any.")
    group = serializers.CharField(source="group.name", default=None, allow_null=True, help_text="Group; null: any.")
    user = serializers.CharField(source="user.username", default=None, allow_null=True, help_text="User; null: any.")
    job_type = serializers.CharField(help_text="Job type; empty: any.")
    running = serializers.IntegerField(allow_null=True, help_text="Jobs held by pilots at a time.")
    waiting = serializers.IntegerField(allow_null=True, help_text="Jobs in queues at a time.")
    cpu_s_per_day = serializers.IntegerField(allow_null=True, help_text="CPU time in 24 hours, in seconds.")
    delay_s = serializers.FloatField(allow_null=True, help_text="Mean seconds between two matches.")
    burst = serializers.IntegerField(allow_null=True, help_text="Matches at once after a pause.")
    room = serializers.SerializerMethodField(help_text="Its room now, in words, or why there is none.")

    def get_scope(self, limit: Limit) -> str:
        """Return the scope in words."""
        return limit_in_words(limit)

    def get_room(self, limit: Limit) -> str:
        """Return the room."""
        now: datetime = self.context["now"]
        return room_in_words(limit, now=now)


class LimitPages(CursorPages):
    """Limits by id."""

    orderings = ("id", "-id")


def _limits(user: User) -> QuerySet[Limit]:
    """Return the limits that *user* may change, with their counters."""
    vos = managed_vos_of(user)
    limits = Limit.objects.all() if vos is None else Limit.objects.filter(managed_by(vos))
    return with_counts(limits).select_related("vo", "site", "ce__site", "group", "user")


def _answer(pk: int) -> dict[str, object]:
    limit = with_counts(Limit.objects.filter(pk=pk)).select_related("vo", "site", "ce__site", "group", "user").get()
    return dict(LimitOut(limit, context={"now": database_now()}).data)


class LimitListView(GenericAPIView[Limit]):
    """The limits that a manager may change."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER
    serializer_class = LimitOut
    pagination_class = LimitPages
    filterset_class = LimitFilterSet

    def get_queryset(self) -> QuerySet[Limit]:
        """Return the limits."""
        return _limits(user_of(self.request))

    @extend_schema(
        operation_id="limits_list",
        summary="List limits with their room: on VOs, groups and sites of the caller; operators: all",
        tags=[Audience.MANAGERS],
        responses={200: LimitOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:  # noqa: ARG002 - the framework keeps it on the view
        """Return one page of limits."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        return self.get_paginated_response(LimitOut(page, many=True, context={"now": database_now()}).data)

    @extend_schema(
        operation_id="limits_add",
        summary="Add a limit; one that is there already is answered as it is",
        tags=[Audience.MANAGERS],
        request=LimitIn,
        responses={200: LimitOut, 201: LimitOut, **error_responses(400, 401, 403, 409, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Add a limit; one that stops jobs at once is refused until that is confirmed.

        A dry run answers 200, with null for the id.
        """
        values, user = LimitIn.checked(request.data), user_of(request)
        limit = Limit(**_scope(values, user), **{name: values[name] for name in BOUNDS})
        with transaction.atomic(durable=True):
            lock_limits()
            same = of_same_scope(limit).filter(**{name: values[name] for name in BOUNDS}).first()
            _require_right(limit, user, but=same)
            if same is not None:
                return Response(_answer(same.pk))
            save_limit(limit, confirmed=values["confirmed"], by=user, reason=values["reason"])
            answer = _answer(limit.pk)
            transaction.set_rollback(values["dry_run"])
        if values["dry_run"]:
            return Response({**answer, "id": None})
        return Response(answer, status=HTTPStatus.CREATED)


class LimitView(APIView):
    """One limit."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="limits_get",
        summary="Show a limit with its room",
        tags=[Audience.MANAGERS],
        responses={200: LimitOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return the limit."""
        return Response(_answer(get_object_or_404(_limits(user_of(request)), pk=pk).pk))

    @extend_schema(
        operation_id="limits_set",
        summary="Change the bounds of a limit; its jobs stay the same",
        tags=[Audience.MANAGERS],
        request=BoundsIn,
        responses={200: LimitOut, **error_responses(400, 401, 403, 404, 409, 415, 429)},
    )
    def put(self, request: Request, pk: int) -> Response:
        """Set all bounds; one that stops jobs at once is refused until that is confirmed."""
        values, user = BoundsIn.checked(request.data), user_of(request)
        with transaction.atomic(durable=True):
            lock_limits()
            limit = get_object_or_404(_limits(user), pk=pk)
            for name in BOUNDS:
                setattr(limit, name, values[name])
            _require_right(limit, user)
            save_limit(limit, confirmed=values["confirmed"], by=user, reason=values["reason"])
            answer = _answer(limit.pk)
            transaction.set_rollback(values["dry_run"])
        return Response(answer)

    @extend_schema(
        operation_id="limits_delete",
        summary="Delete a limit",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, pk: int) -> Response:
        """Delete the limit; what it held back may start at once."""
        values, user = DeletionIn.checked(request.query_params), user_of(request)
        limit = get_object_or_404(_limits(user), pk=pk)
        with transaction.atomic(durable=True):
            delete_limit(limit, by=user)
            transaction.set_rollback(values["dry_run"])
        return Response(status=HTTPStatus.NO_CONTENT)


def _require_right(limit: Limit, user: User, *, but: Limit | None = None) -> None:
    """Raise LimitError with what is wrong with the limit; *but* is one that it repeats."""
    errors: dict[str, list[str]] = {}
    for field, sentence in mistakes_in(limit, managed_vos=managed_vos_of(user), but=but):
        errors.setdefault(field or "body", []).append(sentence)
    if errors:
        raise LimitError(" ".join(sentence for each in errors.values() for sentence in each), errors=errors)


def _scope(values: dict[str, Any], user: User) -> dict[str, Any]:
    """Return the columns of the scope; a name that is not for the caller is as one that there is not."""
    candidates: dict[str, QuerySet[Any]] = {**nameable(user), "site": Site.objects.visible_to(user)}
    found: dict[str, Any] = {}
    unknown: dict[str, list[str]] = {}
    for field, rows in candidates.items():
        if field in values:
            row = rows.filter(**{"username" if field == "user" else "name": values[field]}).first()
            if row is None:
                unknown[field] = [f'You have no {field} "{values[field]}".']
            else:
                found[field] = row
    if "ce" in values and "site" not in values:
        unknown["ce"] = ["Name the site of the computing element, too."]
    elif "ce" in values and "site" in found:
        ce = ComputingElement.objects.filter(site=found["site"], name=values["ce"]).select_related("site").first()
        if ce is None:
            unknown["ce"] = [f'The site {values["site"]} has no computing element "{values["ce"]}".']
        else:
            found["ce"] = ce
    if unknown:
        raise serializers.ValidationError(unknown)
    return {**found, "job_type": values.get("job_type", "")}
