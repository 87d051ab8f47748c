"""Models of the demand: jobs with their history, submissions, and sandboxes."""

from wms.jobs.models.accounting import Accounting, JobBucket, JobBucketPeriod, JobBucketSum
from wms.jobs.models.attempts import OutputTail, UsageSamples
from wms.jobs.models.counts import (
    CountOfJobs,
    CurrentContentJobCount,
    CurrentJobCount,
    CurrentSiteJobCount,
    CurrentSubmissionJobCount,
    JobCount,
    JobCountChange,
    MadeToday,
    SiteJobCount,
    SubmissionJobCount,
)
from wms.jobs.models.descriptions import SavedDescription, SavedSyntax, StoredDescription
from wms.jobs.models.history import JobCommand, JobHistory
from wms.jobs.models.jobs import Job, JobOnHost, JobQuerySet, SiteLayout
from wms.jobs.models.retention import ArchiveFile, ArchiveState, RemovalPermit, RemovalSweep
from wms.jobs.models.retries import JobRetry
from wms.jobs.models.sandboxes import InputSandbox, Sandbox, SandboxUpload, StoredBytes
from wms.jobs.models.submissions import (
    NameRest,
    Submission,
    SubmissionCanary,
    SubmissionContent,
    SubmissionNotice,
)
from wms.jobs.models.visibility import OwnedQuerySet

__all__ = [
    "Accounting",
    "ArchiveFile",
    "ArchiveState",
    "CountOfJobs",
    "CurrentContentJobCount",
    "CurrentJobCount",
    "CurrentSiteJobCount",
    "CurrentSubmissionJobCount",
    "InputSandbox",
    "Job",
    "JobBucket",
    "JobBucketPeriod",
    "JobBucketSum",
    "JobCommand",
    "JobCount",
    "JobCountChange",
    "JobHistory",
    "JobOnHost",
    "JobQuerySet",
    "JobRetry",
    "MadeToday",
    "NameRest",
    "OutputTail",
    "OwnedQuerySet",
    "RemovalPermit",
    "RemovalSweep",
    "Sandbox",
    "SandboxUpload",
    "SavedDescription",
    "SavedSyntax",
    "SiteJobCount",
    "SiteLayout",
    "StoredBytes",
    "StoredDescription",
    "Submission",
    "SubmissionCanary",
    "SubmissionContent",
    "SubmissionJobCount",
    "SubmissionNotice",
    "UsageSamples",
]
