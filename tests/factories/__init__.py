"""Factories of rows for tests: plain functions that build only rows which the constraints accept.

Everything has a default; names that must be unique are numbered (``vo1``, ``vo2``, …).
"""

from tests.factories.accounts import make_group, make_token, make_user, make_vo
from tests.factories.jobs import make_bucket, make_job, make_samples, make_submission, redescribe, submit, tell_cause
from tests.factories.names import NOW
from tests.factories.pilots import make_black_hole, make_match, make_pilot, make_pilot_token
from tests.factories.resources import (
    LARGE_SLOT,
    make_ce,
    make_downtime,
    make_platform,
    make_queue,
    make_replica,
    make_requirement_definition,
    make_site,
    make_storage_element,
    make_throttled_site,
)
from tests.factories.taskqueues import make_queued_job, make_task_queue

__all__ = [
    "LARGE_SLOT",
    "NOW",
    "make_black_hole",
    "make_bucket",
    "make_ce",
    "make_downtime",
    "make_group",
    "make_job",
    "make_match",
    "make_pilot",
    "make_pilot_token",
    "make_platform",
    "make_queue",
    "make_queued_job",
    "make_replica",
    "make_requirement_definition",
    "make_samples",
    "make_site",
    "make_storage_element",
    "make_submission",
    "make_task_queue",
    "make_throttled_site",
    "make_token",
    "make_user",
    "make_vo",
    "redescribe",
    "submit",
    "tell_cause",
]
