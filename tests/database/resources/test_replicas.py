"""Constraints of the table of replicas, and the query plans that read it and the jobs that wait for files."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet

from resources.models import OutputName, Replica, ReplicaChange
from tests import factories
from tests.factories import submit
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, SiteLayout
from wms.jobs.services import reevaluation

pytestmark = pytest.mark.django_db


def test_a_storage_element_holds_a_file_of_a_vo_once() -> None:
    vo, element = factories.make_vo(), factories.make_storage_element()
    factories.make_replica("/lhcb/a", vo=vo, storage_element=element)
    factories.make_replica("/lhcb/a", vo=factories.make_vo(), storage_element=element)
    with transaction.atomic(), pytest.raises(IntegrityError, match="a_storage_element_holds_a_file_of_a_vo_once"):
        factories.make_replica("/lhcb/a", vo=vo, storage_element=element)
    with transaction.atomic(), pytest.raises(IntegrityError, match="replica_lfn_is_an_absolute_path"):
        factories.make_replica("lhcb/a", vo=vo, storage_element=element)
    with transaction.atomic(), pytest.raises(IntegrityError, match="site_layout_has_one_row"):
        SiteLayout.objects.create(pk=2, digest=b"")


def test_a_logical_name_of_output_has_one_row_in_a_vo() -> None:
    vo = factories.make_vo()
    OutputName.objects.create(vo=vo, lfn="/lhcb/a")
    OutputName.objects.create(vo=factories.make_vo(), lfn="/lhcb/a")
    with transaction.atomic(), pytest.raises(IntegrityError, match="a_name_is_written_by_one_job_at_a_time"):
        OutputName.objects.create(vo=vo, lfn="/lhcb/a")
    with transaction.atomic(), pytest.raises(IntegrityError, match="output_lfn_is_an_absolute_path"):
        OutputName.objects.create(vo=vo, lfn="lhcb/a")


def plan(rows: QuerySet[Job] | QuerySet[Replica]) -> str:
    """Return the query plan, with sequential scans disabled."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    return rows.explain()


def test_jobs_that_wait_for_a_file_are_found_by_the_index_on_their_files() -> None:
    vo = factories.make_vo(name="lhcb")
    alice = factories.make_user(groups=[factories.make_group(vo=vo)])
    element = factories.make_storage_element(sites=[factories.make_site()])
    Replica.objects.bulk_create(
        Replica(vo=vo, lfn=f"/lhcb/{number}", storage_element=element) for number in range(3000)
    )
    body = {"executable": "x", "input_data": ["/lhcb/%s"], "parameters": {"count": 3000}}
    submit(parse_submission(body), owner=alice, now=factories.NOW)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job, jobs_storeddescription")

    of_file = reevaluation._affected([ReplicaChange(vo=vo, lfn="/lhcb/7")])
    of_file_plan = plan(of_file.filter(pk__gt=0).order_by("pk")[:1000])
    assert "description_of_input_file" in of_file_plan
    assert "job_of_stored_description" in of_file_plan
    of_all = reevaluation._affected([ReplicaChange(vo=vo, lfn="")])
    assert "job_with_input_data" in plan(of_all.filter(pk__gt=0).order_by("pk")[:1000])


def test_files_are_found_by_the_one_index_on_replicas() -> None:
    told = plan(Replica.objects.filter(vo=factories.make_vo(), lfn__startswith="/lhcb/run1/"))
    assert "a_storage_element_holds_a_file_of_a_vo_once" in told
    assert "< '/lhcb/run10'" in told
