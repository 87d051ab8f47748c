"""Each index of our tables is used by the plan of a query of the program, on tables of realistic shape.

An index costs every write of its table. A new one needs an entry below: the function whose query reads it.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pytest
from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.db import connection

from matching.domain.black_holes import Host
from matching.queries.explain.pilots import pilots_there
from matching.queries.leases import leases_of, leases_seen_by, newest_of
from matching.queries.node_failures import failing_hosts
from matching.queries.restrictions import leased_jobs_at
from matching.services import black_holes, lease_ends, leases
from matching.services.claim import Claimant, claim
from matching.services.draining import tell_drained_pilots
from pilots.filters import PilotFilterSet
from pilots.models import Pilot
from pilots.queries import jobless_pilots, pilot_counts, stall_pauses
from pilots.services import logs, status_agent
from pilots.services.exclusions import refuse_black_hole
from resources.domain.enums import SiteTokenPurpose
from resources.models import ComputingElement, Downtime, Queue, ReplicaChange, Site, StorageElement
from resources.services.site_tokens import set_site_token
from taskqueues.queries import delivered, limits_on_matches, pools_of_queue, with_counts
from taskqueues.services import priorities
from taskqueues.services.index import reading
from tests.architecture.test_constraints import PACKAGES
from tests.database.plans.filling import Filled, fill
from tests.plans import indexes_used
from wms.accounts.models import VO, Group, SecurityEvent, User
from wms.accounts.queries import history_for, history_of, names_in_event, open_invitations, recent_failures
from wms.accounts.services import people
from wms.jobs import queries
from wms.jobs.domain.accounting import Grouping, Span, Width
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job, SubmissionContent
from wms.jobs.queries import accounting, amounts, changes, submissions
from wms.jobs.queries.found_jobs import Extent
from wms.jobs.services import notices, reevaluation, sandboxes, unused_submit_pools
from wms.jobs.services.submission_limits import refuse_too_many_waiting
from wms.jobs.sql.retention import remove_descriptions, remove_jobs
from wms.jobs.sql.sandboxes import bytes_of_uploads, remove_unneeded_sandboxes, sandboxes_to_check
from wms.kernel.db import database_now
from wms.wire.protocol import NO_TAILS, Usage

Query = Callable[[Filled], object]


def page(by: Callable[[Filled], User], **chosen: Callable[[Filled], object]) -> Query:
    """Return a query of the first page of a list of jobs."""

    def read(filled: Filled) -> object:
        filters = JobFilterSet({name: str(value(filled)) for name, value in chosen.items()})
        assert filters.is_valid(), filters.errors
        return queries.listed(filters, Extent(at_most=101), by=by(filled))

    return read


def summary(by: Callable[[Filled], User], **chosen: Callable[[Filled], object]) -> Query:
    """Return a query of numbers of jobs by status."""

    def read(filled: Filled) -> object:
        filters = JobFilterSet({name: str(value(filled)) for name, value in chosen.items()})
        assert filters.is_valid(), filters.errors
        return list(queries.summary(filters, by=by(filled), group_by=("status",)))

    return read


def owner(filled: Filled) -> User:
    return filled.owner


def member(filled: Filled) -> User:
    return filled.archive.actors["a group's"]


def operator(filled: Filled) -> User:
    return filled.operator


def mixed_job(filled: Filled) -> Job:
    """Return a job whose submission has several labels, and names that differ in more than a number."""
    contents = SubmissionContent.objects.filter(labels__isnull=False, name_stems__isnull=False)
    jobs = Job.objects.filter(pk__in=contents.values("last_job_id"), pk__gte=filled.archive.jobs // 2)
    return jobs.order_by("pk")[0]


def placed_with_input_data(filled: Filled) -> object:
    """One of the later pages."""
    jobs = reevaluation._affected([ReplicaChange(vo=None)]).filter(pk__gt=filled.archive.jobs * 9 // 10)
    return list(jobs.with_description().order_by("pk")[: reevaluation.JOBS_AT_ONCE])


def removed_job(filled: Filled) -> object:
    return remove_jobs([filled.job.pk], submission_ids=[filled.job.submission_id], now=database_now())


def plots_of_a_day(by: Callable[[Filled], User]) -> Query:
    def read(filled: Filled) -> object:
        last = Width.HOUR.begin_of(database_now())
        span = Span(width=Width.HOUR, first=last - timedelta(days=1), last=last)
        return accounting.accounted(span, by=by(filled), grouping=Grouping.SITE, group=None, site=None, most=12)

    return read


def pilots_of_host(filled: Filled) -> object:
    filters = PilotFilterSet({"host": filled.pilot.host_name}, queryset=Pilot.objects.order_by("-pk"))
    return list(filters.qs[:101])


def heartbeat(filled: Filled) -> object:
    return leases.heartbeat(filled.match.pk, usage=Usage(), tails=NO_TAILS, acknowledged=[])


def shares_of_changed_groups(filled: Filled) -> object:
    priorities.mark_changed(group_id=filled.group.pk, now=database_now())
    return priorities.recalculate(only_changed=True)


def claimed(filled: Filled) -> object:
    """Claim a job of an empty level: first it is asked whether the configuration has changed."""
    living = Pilot.objects.filter(ended_at=None, revoked_at=None, drained_at=None, black_hole=None, vo=filled.vo)
    place = Claimant(pilot_id=living[:1].get().pk, request_id=uuid4(), site_id=None, ce_id=None, queue_id=None)
    return claim(
        place,
        ordinal=0,
        task_queue_id=0,
        user_priority=0,
        cpu_segment_s=0,
        searched=reading.read_all().view.seen,
        chance=0.0,
        may_wait=False,
    )


def held_back_jobs(filled: Filled) -> object:
    """A step of the claim."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT wms_held_back_jobs(%s, 1::smallint, %s, 'node', wms_now())", [filled.task_queue.pk, filled.queue.pk]
        )
        return cursor.fetchall()


def deleted(model: type[Any]) -> Query:
    """Return the deletion of a row by an operator, before which the database looks for rows that refer to it."""

    def delete(filled: Filled) -> object:
        return model.objects.filter(pk=_row_to_delete(model, filled).pk).first().delete()

    return delete


def _row_to_delete(model: type[Any], filled: Filled) -> Any:
    name = f"new-{uuid4().hex[:8]}"
    if model is User:
        return User.objects.create(username=name)
    if model is SocialAccount:
        return SocialAccount.objects.create(user=filled.owner, provider="cern", uid=name)
    if model is VO:
        return VO.objects.create(name=name, setup="s", setups=["s"])
    if model is Group:
        return Group.objects.create(name=name, vo=filled.vo)
    if model in {Site, StorageElement}:
        return model.objects.create(name=name)
    ce = ComputingElement.objects.create(name=name, site=filled.site)
    return ce if model is ComputingElement else Queue.objects.create(name=name, ce=ce, cpu_time_s=1)


#: {index of a table that grows with use: the query that reads it}.
OF_GROWING_TABLES: Final[Mapping[str, Query]] = {
    # ---- Jobs
    "job_history_in_order": lambda filled: changes.touched(changes.now(), changes.now()),
    "job_of_its_kind": page(owner),
    "job_of_its_kind_at_site": page(operator, site=lambda filled: filled.job.site),
    "job_of_submission": page(owner, job_group_id=lambda filled: filled.job.submission_id),
    "job_that_names_pools": lambda _: unused_submit_pools._referred_to({"pool1"}),
    "job_of_stored_description": lambda _: queries.are_awaited(["/vo0/file7"]),
    "description_of_input_file": lambda _: queries.are_awaited(["/vo0/file7"]),
    "job_of_its_description": removed_job,
    "jobs_jobcommand_job_id_2ecf9e84": removed_job,
    "description_retired": lambda _: remove_descriptions(retired_before=database_now(), at_most=10),
    "job_with_input_data": placed_with_input_data,
    "job_of_output_sandbox": lambda filled: remove_unneeded_sandboxes([filled.job.output_sandbox_id or 0]),
    "jobs_inputsandbox_sandbox_id_65ed5e02": (
        lambda filled: remove_unneeded_sandboxes([filled.job.output_sandbox_id or 0])
    ),
    "output_tail_by_cause": page(owner, cause=lambda _: "lost"),
    "job_that_waits_for_room": lambda _: reevaluation._let_page_in(now=database_now()),
    "command_to_be_obeyed": heartbeat,
    "jobs_sandbox_check_use_at_a4484ae1": lambda _: sandboxes_to_check(database_now(), at_most=50),
    "output_of_job": lambda filled: sandboxes._refuse_further_output(filled.job, digest="", now=database_now()),
    "jobs_sandboxupload_owner_id_5874eef3": lambda filled: bytes_of_uploads(filled.owner.pk, without=""),
    "job_count_of_site": lambda filled: leased_jobs_at([filled.site.pk]),
    "job_count_is_one_row": lambda filled: refuse_too_many_waiting(filled.owner, filled.group, coming=1),
    "submission_job_count_is_one_row": summary(owner, job_group_id=lambda filled: filled.job.submission_id),
    "job_bucket_is_one_row": plots_of_a_day(owner),
    "job_bucket_sum_is_one_row": plots_of_a_day(operator),
    "content_of_owner": lambda filled: submissions.of_owner(filled.owner, at_most=10),
    "content_of_group": summary(member, job_name=lambda _: "MC2026_*"),
    "content_with_label": page(operator, job_group=lambda filled: filled.job.job_group),
    "content_with_name": page(operator, job_name=lambda filled: filled.job.job_name),
    "content_with_labels": page(operator, job_group=lambda filled: mixed_job(filled).job_group),
    "content_with_name_stems": page(operator, job_name=lambda filled: mixed_job(filled).job_name),
    "content_since": page(operator, submitted_after=lambda _: (database_now() - timedelta(days=1)).isoformat()),
    # ---- Leases
    "match_open": lambda _: tell_drained_pilots(now=database_now()),
    "match_leased": lambda filled: list(newest_of(leases_seen_by(filled.operator, since=None), since=None, most=201)),
    "match_ended": lambda _: failing_hosts(fast=timedelta(minutes=1), failures=10, now=database_now()),
    "matching_match_job_id_aeda778d": lambda filled: lease_ends._deaths_during([filled.job.pk]),
    "a_request_of_a_pilot_gets_its_leases_once": (
        lambda filled: leases_of(filled.pilot, actor=filled.operator, most=100)
    ),
    # ---- Pilots
    "pilot_alive_at_queue": lambda filled: pilot_counts([filled.queue]),
    "pilot_latest_at_queue": lambda filled: pilots_there(
        filled.task_queue, [filled.idle_queue], living={}, now=database_now()
    ),
    "pilot_latest_on_host": pilots_of_host,
    "pilot_not_cleaned_at_queue": lambda filled: status_agent._clean(filled.ce, _NO_BACKEND, now=database_now()),
    "pilot_stalled_at": lambda _: stall_pauses(now=database_now()),
    "pilot_submitted_at": lambda _: jobless_pilots(now=database_now()),
    "pilot_log_by_age": lambda _: logs._remove_some(before=database_now() - timedelta(days=300)),
    "pilot_made_for_site": deleted(Site),
    "pilot_made_for_ce": deleted(ComputingElement),
    "pilots_pilot_vo_id_4b309731": deleted(VO),
    "pilots_pilot_group_id_3957227e": deleted(Group),
    "pilots_pilot_owner_id_8c955f7b": deleted(User),
    "black_hole_of_host": lambda filled: black_holes._earlier(Host(filled.site.pk, filled.pilot.host_name)),
    "a_host_is_one_black_hole_at_a_time": (
        lambda filled: refuse_black_hole(site_id=filled.site.pk, host_name="node", now=database_now())
    ),
    # ---- Task queues
    "queued_job_oldest_of_its_kind": shares_of_changed_groups,
    "queued_job_by_avoided_place": held_back_jobs,
    "queued_job_open_to_all": held_back_jobs,
    "configuration_change_xid": claimed,
    "task_queue_change_xid": lambda _: reading.read_changes(reading.read_all()),
    "pools_of_queue": lambda filled: pools_of_queue(filled.queue, filled.vo),
    "event_of_limit": lambda _: list(with_counts(limits_on_matches())[:20]),
    "a_group_has_one_delivery_of_a_segment_in_an_interval": (
        lambda filled: delivered(vo_id=filled.vo.pk, since=database_now() - timedelta(hours=1))
    ),
    # ---- Accounts
    "failed_log_in_recent": lambda _: recent_failures(name_digest=b"", address="", now=database_now()),
    "security_event_by_time": lambda _: list(SecurityEvent.objects.order_by("-at", "-id")[:100]),
    "security_event_by_kind": lambda _: list(
        SecurityEvent.objects.filter(kind="token_issued", at__gt=database_now() - timedelta(days=30)).order_by(
            "-at", "-id"
        )[:100]
    ),
    "security_event_by_row": lambda filled: history_of(filled.vo, user=User(operator=True)),
    # Of a VO that few events concern.
    "security_event_by_vo": lambda _: list(
        SecurityEvent.objects.filter(vo_ids__isnull=False, vo_ids__overlap=[0]).order_by("-id")[:100]
    ),
    "security_event_of_vos": lambda filled: list(history_for(filled.manager).order_by("-id")[:100]),
    **dict.fromkeys(
        ("security_event_by_actor", "security_event_by_address", "security_event_by_target"),
        lambda _: list(SecurityEvent.objects.filter(names_in_event("bob", kinds=["user"]))),
    ),
    "accounts_securityevent_actor_id_ff334cfc": deleted(User),
}
#: The same of tables that are configured, which have few rows: as if they had many.
OF_SMALL_TABLES: Final[Mapping[str, Query]] = {
    "site_token_of_site": lambda filled: set_site_token(
        filled.site, purpose=SiteTokenPurpose.REGISTER, plain="x", now=database_now()
    ),
    "downtime_of_site": lambda filled: list(
        Downtime.objects.filter(site=filled.site, ends_at__gt=database_now()).order_by("begins_at")
    ),
    "stored_bytes_of_vo": lambda filled: amounts.stored_in(vo=filled.vo.pk),
    "notice_of_owner": lambda filled: notices.open_notices(filled.owner),
    "invitation_by_name": lambda filled: list(open_invitations(filled.owner, now=database_now())),
    "accounts_apitoken_user_id_bbee13e0": deleted(User),
    "accounts_group_vo_id_133a22b4": deleted(VO),
    "accounts_invitation_invited_by_id_94a21efc": deleted(User),
    "accounts_membership_by_claim_of_id_629cc8f2": deleted(SocialAccount),
    "accounts_membership_group_id_ae835a10": deleted(Group),
    "membership_by_claim": lambda _: people.remove_lapsed_memberships(now=database_now()),
    "accounts_user_default_group_id_2de9cbb3": deleted(Group),
    "accounts_userdn_user_id_6a09fb70": deleted(User),
    "accounts_usersession_user_id_567c9519": deleted(User),
    "accounts_vo_managers_user_id_9eac60ab": deleted(User),
    "pilots_director_sites_site_id_384c3bec": deleted(Site),
    "resources_computingelement_state_changed_by_id_5b331f06": deleted(User),
    "resources_queue_state_changed_by_id_a2725d1c": deleted(User),
    "resources_site_state_changed_by_id_1090fcf8": deleted(User),
    "resources_siteadministrator_made_by_id_088e482e": deleted(User),
    "resources_siteadministrator_user_id_968038f6": lambda filled: list(Site.objects.administered_by(filled.owner)),
    "resources_requirementdefinition_vos_vo_id_4faf07d9": deleted(VO),
    "resources_site_storage_elements_storageelement_id_ff01b85e": deleted(StorageElement),
    "resources_site_vos_vo_id_28e8b12e": deleted(VO),
    "resources_storageelement_vos_vo_id_01d84d45": deleted(VO),
    "taskqueues_limit_ce_id_5d2d6544": deleted(ComputingElement),
    "taskqueues_limit_group_id_a166b20e": deleted(Group),
    "taskqueues_limit_site_id_120e9f18": deleted(Site),
    "taskqueues_limit_user_id_965cedbd": deleted(User),
    "taskqueues_limit_vo_id_684d55d0": deleted(VO),
    "taskqueues_submitpool_vo_id_150f1113": lambda filled: pools_of_queue(filled.queue, filled.vo),
    "taskqueues_taskqueue_group_id_13e7cb7e": shares_of_changed_groups,
    "taskqueues_taskqueue_owner_id_7eb21029": deleted(User),
    "taskqueues_taskqueue_vo_id_7a1e35d7": deleted(VO),
}


class _NoBackend:
    """A computing element at which nothing happens."""

    def kill(self, handles: object) -> None:
        pass

    def clean(self, handles: object) -> None:
        pass


_NO_BACKEND: Any = _NoBackend()


@pytest.mark.slow
@pytest.mark.nightly  # fills all tables
@pytest.mark.django_db(transaction=True)  # so that the tables can be vacuumed, as they always are
def test_each_index_is_in_the_plan_of_a_query(subtests: pytest.Subtests) -> None:
    filled = fill()
    for index, query in OF_GROWING_TABLES.items():
        with subtests.test(index):
            used = indexes_used(partial(query, filled))
            assert index in used, " ".join(sorted(used))
    for index, query in OF_SMALL_TABLES.items():
        with subtests.test(index):
            used = indexes_used(partial(query, filled), no_table_is_small=True)
            assert index in used, " ".join(sorted(used))


@pytest.mark.django_db
def test_each_index_has_a_query() -> None:
    entries = OF_GROWING_TABLES.keys() | OF_SMALL_TABLES.keys()
    assert not OF_GROWING_TABLES.keys() & OF_SMALL_TABLES.keys()
    assert (indexes_without_constraint() - entries, entries - all_indexes()) == (set(), set())


@pytest.mark.django_db
def test_no_index_begins_as_another_one() -> None:
    """Such an index finds nothing that the longer one does not find."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT shorter.indexrelid::regclass::text, longer.indexrelid::regclass::text
              FROM pg_index AS shorter JOIN pg_index AS longer USING (indrelid)
             WHERE indrelid = ANY(%s::regclass[]) AND shorter.indexrelid <> longer.indexrelid
               AND NOT shorter.indisunique AND shorter.indpred IS NULL AND longer.indpred IS NULL
               AND shorter.indexprs IS NULL AND longer.indexprs IS NULL
               AND starts_with(longer.indkey::text || ' ', shorter.indkey::text || ' ')
               AND starts_with(longer.indclass::text || ' ', shorter.indclass::text || ' ')
            """,
            [sorted(our_tables())],
        )
        assert cursor.fetchall() == []


@pytest.mark.django_db
def test_a_query_without_an_index_uses_none() -> None:
    assert indexes_used(lambda: list(Site.objects.order_by("throttle_policy"))) == frozenset()


def indexes_without_constraint() -> set[str]:
    """Return the indexes of our tables that serve only to find rows: all but those that keep rows unique."""
    return {name for name, is_unique in _indexes() if not is_unique}


def all_indexes() -> set[str]:
    return {name for name, _ in _indexes()}


def _indexes() -> list[tuple[str, bool]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT class.relname, indisunique FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid"
            " WHERE indrelid = ANY(%s::regclass[]) AND NOT indisprimary",
            [sorted(our_tables())],
        )
        return list(cursor.fetchall())


def our_tables() -> set[str]:
    """Return the tables of the project's own models; the groups and permissions of Django's accounts are not ours."""
    models = [model for model in apps.get_models(include_auto_created=True) if _is_ours(model)]
    return {model._meta.db_table for model in models if model._meta.managed}


def _is_ours(model: type[Any]) -> bool:
    created_by = model._meta.auto_created
    if not created_by:
        return model.__module__.split(".")[0] in PACKAGES
    of_django = {"groups", "user_permissions"}
    return created_by.__module__.split(".")[0] in PACKAGES and not any(
        field.remote_field.through is model and field.name in of_django for field in created_by._meta.many_to_many
    )
