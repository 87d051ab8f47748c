"""The last lines of outputs are stored compressed, also those of a database made by an earlier version."""

import importlib

import pytest
from django.db import connection

from tests.factories import make_job
from tests.migrations import before_compressed_outputs
from wms.jobs.models import Job, OutputTail

TEXTS = ("", "x", "è sempre così\n日本\t\\x41\n", "event 1\nevent 2\n" * 1000)


def stored(expression: str) -> list[object]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {expression} FROM jobs_outputtail ORDER BY job_id")
        return [value for (value,) in cursor.fetchall()]


@pytest.mark.django_db
def test_repeating_lines_take_a_small_part_of_their_bytes() -> None:
    make_job(std_output_tail=TEXTS[-1])
    assert OutputTail.objects.get().std_output == TEXTS[-1]
    assert stored("octet_length(std_output) < 200") == [True]


@pytest.mark.django_db(transaction=True)
def test_outputs_from_before_the_upgrade_are_read_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    migration = importlib.import_module("wms.jobs.migrations.0025_compressed_outputs")
    monkeypatch.setattr(migration, "_AT_ONCE", 2)
    jobs = [make_job() for _ in TEXTS]
    for job, text in zip(jobs, TEXTS, strict=True):
        OutputTail.objects.create(job=job, attempt=0, std_output=text)
    with before_compressed_outputs():
        assert stored("text") == list(TEXTS)
    assert [Job.objects.get(pk=job.pk).std_output_tail for job in jobs] == list(TEXTS)
