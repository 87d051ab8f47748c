"""The last lines of outputs are stored compressed."""

import pytest
from django.db import connection

from tests.factories import make_job
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


@pytest.mark.django_db
@pytest.mark.parametrize("text", TEXTS)
def test_outputs_are_read_as_they_were_written(text: str) -> None:
    job = make_job()
    OutputTail.objects.create(job=job, attempt=0, std_output=text)
    assert Job.objects.get(pk=job.pk).std_output_tail == text
