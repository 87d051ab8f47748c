"""A system in use, and every kind of credential that could be stolen from it."""

import gzip
import io
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import jwt
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.utils import timezone

from matching.models import Match
from matching.services import job_tokens
from pilots.domain.pilot import PilotStatus
from pilots.models import BlackHole, Pilot, PilotSecret
from pilots.services.secrets import issue_secrets, secret_of
from resources.domain.enums import SiteTokenPurpose, ThrottlePolicy
from resources.models import Downtime, Queue, Site, SiteToken, StorageElement
from resources.services.site_tokens import issue_site_token
from taskqueues.models import Limit
from tests import factories
from wms.accounts.domain import SecurityEventKind, TokenScope
from wms.accounts.models import VO, ConfigurationChange, Group, User
from wms.accounts.security_log import record
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import sandboxes
from wms.kernel.names import change_in_words
from wms.kernel.tokens import PREFIXES, TokenKind

#: In what only Alice, and her pilot, may read.
HERS: Final = "for-the-eyes-of-alice"
PASSWORD: Final = "correct horse"
STORAGE_CREDENTIAL: Final = "hush-hush"
IN_TEN_YEARS: Final = datetime(2035, 12, 31, 8, tzinfo=UTC)
GOCDB: Final = (
    '<results><DOWNTIME PRIMARY_KEY="1"><HOSTED_BY>{site}</HOSTED_BY><HOSTNAME>{host}</HOSTNAME>'
    "<SEVERITY>OUTAGE</SEVERITY><START_DATE>2082700800</START_DATE><END_DATE>2082708000</END_DATE>"
    "</DOWNTIME></results>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """Alice's job in a pilot at a site; and users, groups and tokens without rights on them."""

    vo: VO
    group: Group
    alice: User
    site: Site
    queue: Queue
    storage_element: StorageElement
    pilot: Pilot
    job: Job
    #: Another one of Alice's.
    failed: Job
    match: Match
    sandbox: str
    #: Of a token that no test comes with.
    alice_token_id: int
    limit: Limit
    downtime: Downtime
    black_hole: BlackHole
    site_token_id: int
    #: Of the share of her group.
    change: ConfigurationChange

    def arguments(self) -> Mapping[str, object]:
        """Return the arguments of addresses; all of them are Alice's."""
        return {
            "match_id": self.match.pk,
            "match-sandbox digest": self.sandbox,
            "portal:job-file name": "a",
            "portal:job-input digest": self.sandbox,
            "portal:job-input-file digest": self.sandbox,
            "portal:job-input-file name": "a",
            "pk": self.job.pk,
            "provider": "cern",
            "auth-token-revoke pk": self.alice_token_id,
            "submission pk": self.job.submission_id,
            "pilot-log-read pk": self.pilot.pk,
            "site-advertisements name": self.site.name,
            "group-shares name": self.group.name,
            "group-priority name": self.group.name,
            "group-members name": self.group.name,
            "group-member name": self.group.name,
            "username": self.alice.username,
            "vo-pause name": self.vo.name,
            "vo-managers name": self.vo.name,
            "vo-manager name": self.vo.name,
            "user-token pk": self.alice_token_id,
            "limit pk": self.limit.pk,
            "history-revert pk": self.change.pk,
            "downtime pk": self.downtime.pk,
            "black-hole-lift pk": self.black_hole.pk,
            "site": self.site.name,
            "site-token pk": self.site_token_id,
            "ce": self.queue.ce.name,
            "queue": self.queue.name,
            "id": self.alice.pk,
            "object_id": self.job.pk,
            "content_type_id": 1,
            "app_label": "jobs",
            "url": "nowhere",
            "secret": "no-secret",
            "code": "not_found",
        }

    def body(self, name: str) -> Mapping[str, Any]:
        """Return a valid body for an address as far as possible; an empty one where none is expected."""
        replica = {
            "lfn": f"/{self.vo.name}/user/a/alice/{self.job.pk}/out",
            "storage_element": self.storage_element.name,
        }
        parameters = {"parameters": {"os": "el9"}, "vo_parameters": {self.vo.name: {"memory": 4000}}}
        bodies: Mapping[str, Mapping[str, Any]] = {
            "matches": {"cpu_time_s": 300_000, "memory_mb": 4000, "request_id": str(uuid4())},
            "match-preview": {"vo": self.vo.name, "cpu_time_s": 300_000},
            "match-status": {"status": "Running"},
            "match-heartbeat": {"cpu_s": 1.0},
            "match-finish": {"exit_code": 0, "usage": {}},
            "match-outputs": {
                "storage_element": replica["storage_element"],
                "files": [{"lfn": replica["lfn"], "size_bytes": 1, "checksum": "adler32:00000001"}],
            },
            "match-replicas": replica,
            "match-sandboxes": {"file": SimpleUploadedFile("out.tar.gz", archive(b"out"))},
            "sandboxes": {"file": SimpleUploadedFile("in.tar.gz", archive(b"in"))},
            "site-advertisements": {
                "current_submitting_jobs": 0, "current_gathering_output_jobs": 0, "current_jobs": 0,
            },
            "pilot-register": place_of(self.pilot),
            "pilot-log": {"offset": 0, "text": "2026-06-01T12:00:00Z pilot.started\n"},
            "pilot-report": {"host_name": "wn1", "ok": True, "checks": [], "node": {}},
            "jobs": {"executable": "run.sh"},
            "jobs-rehearsal": {"executable": "run.sh"},
            "jobs-yaml": {"yaml": "executable: run.sh"},
            "jobs-bulk": {"action": "kill", "ids": [self.job.pk]},
            "jobs-retry": {"ids": [self.failed.pk], "changes": {"memory_mb": 4000}},
            "job": {"priority": 5},
            "job-hold": {"reason": "why not"},
            "replicas": {"vo": self.vo.name, "replicas": [replica]},
            "replicas-remove": {"vo": self.vo.name, "replicas": [replica]},
            "site-state": {"state": "draining", "reason": "kernel update"},
            "ce-state": {"state": "draining", "reason": "kernel update"},
            "queue-state": {"state": "draining", "reason": "kernel update"},
            "site-throttle": {"policy": "level0", "max_submitting_jobs": 50},
            "group-priority": {"priority": 6000, "reason": "more simulation"},
            "site-parameters": parameters,
            "ce-parameters": parameters,
            "queue-parameters": parameters,
            "vo-pause": {"for_s": 3600, "reason": "storage is moved"},
            "pause": {"for_s": 3600, "reason": "network is moved"},
            "configuration-preview": {"file": "groups: []"},
            "configuration-apply": {"file": "groups: []", "version": "0" * 64},
            "limits": {"vo": self.vo.name, "job_type": "User", "running": 5},
            "limit": {"cpu_s_per_day": 10**9 + 1},
            "history-revert": {"reason": "by mistake"},
            "site-tokens": {"purpose": "register"},
            "downtimes": {
                "site": self.site.name, "begins_at": "2036-01-02T08:00:00Z", "ends_at": "2036-01-02T12:00:00Z",
                "reason": "new disks",
            },
            "downtime": {
                "begins_at": "2036-01-02T08:00:00Z", "ends_at": "2036-01-02T12:00:00Z", "reason": "new disks",
            },
            "downtimes-import": {"xml": GOCDB.format(site=self.site.name, host=self.queue.ce.name)},
            "pilots-bulk": {"action": "drain", "ids": [self.pilot.pk], "reason": "kernel update"},
            "auth-token": {"username": "alice", "password": PASSWORD},
        }  # fmt: skip
        return bodies.get(name, {})


def archive(content: bytes) -> bytes:
    """Return a .tar.gz of one file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("a")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def place_of(pilot: Pilot) -> dict[str, str]:
    assert pilot.queue is not None
    place = pilot.queue
    return {"vo": pilot.vo.name, "site": place.ce.site.name, "ce": place.ce.name, "queue": place.name}


def make_sample() -> SampleData:
    now = timezone.now()
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(name="lhcb_user", vo=vo)
    alice = factories.make_user(username="alice", groups=[group], password=PASSWORD)
    factories.make_token(alice)
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    site.throttle_policy, site.max_submitting_jobs = ThrottlePolicy.LEVEL0, 100
    site.save()
    element = factories.make_storage_element(name="CERN-DST", credential=STORAGE_CREDENTIAL, sites=[site])
    queue = factories.make_queue(name="grid", ce=factories.make_ce(name="ce01.cern.ch", site=site))
    given = sandboxes.upload(io.BytesIO(archive(HERS.encode())), file_name="in.tar.gz", owner=alice, now=now)
    reference = sandboxes.reference_of(given.sandbox)
    pilot = factories.make_pilot(vo=vo, queue=queue)
    job = factories.make_job(
        owner=alice, group=group, status=JobStatus.RUNNING, site=site, queue=queue, pilot_id=pilot.pk,
        job_name=HERS, std_output_tail=HERS, output_data=["out"], input_sandbox=[reference],
    )  # fmt: skip
    failed = factories.make_job(owner=alice, group=group, status=JobStatus.FAILED, site=site)
    Job.objects.filter(pk=job.pk).update(output_sandbox=given.sandbox)
    job.input_sandboxes.create(sandbox=given.sandbox, file_name="in.tar.gz")
    match = factories.make_match(job=job, pilot=pilot, leased_at=now)
    Match.objects.filter(pk=match.pk).update(queue=queue, expires_at=now + timedelta(hours=1))
    limit = Limit.objects.create(vo=vo, cpu_s_per_day=10**9)
    downtime = factories.make_downtime(site, begins_at=IN_TEN_YEARS)
    return SampleData(
        vo=vo, group=group, alice=alice, site=site, queue=queue, storage_element=element, pilot=pilot, job=job,
        failed=failed, match=match, sandbox=reference, alice_token_id=alice.api_tokens.get().pk, limit=limit,
        downtime=downtime, black_hole=factories.make_black_hole(site=site), site_token_id=_site_token_of(site).pk,
        change=_change_of_share(group),
    )  # fmt: skip


def _change_of_share(group: Group) -> ConfigurationChange:
    changes = {"priority": change_in_words(group.priority + 1, group.priority)}
    record(SecurityEventKind.CONFIGURATION_CHANGED, target=f"group {group}", row=group, what="changed", changes=changes)
    return ConfigurationChange.objects.get(row_type="accounts.group")


def _site_token_of(site: Site) -> SiteToken:
    issue_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, now=timezone.now())
    return SiteToken.objects.get(site=site)


# ---- credentials, by what they are -----------------------------------------------------------------------------------

_HOUR: Final = timedelta(hours=1)
Maker = Callable[[SampleData], str]


def _user(*, vo: bool = False, **what: Any) -> Maker:
    def make(sample: SampleData) -> str:
        groups = [sample.group] if vo else [factories.make_group()]
        return factories.make_token(factories.make_user(groups=groups, **what))

    return make


def _of_alice(**columns: Any) -> Maker:
    return lambda sample: factories.make_token(sample.alice, **columns)


def _pilot_of(sample: SampleData, status: PilotStatus = PilotStatus.RUNNING, **columns: Any) -> Pilot:
    pilot = factories.make_pilot(vo=sample.vo, queue=sample.queue, status=status)
    Pilot.objects.filter(pk=pilot.pk).update(**columns)
    return pilot


def _job_token(match: Match, *, now: datetime | None = None) -> str:
    return job_tokens.issue(match.pk, job_id=match.job_id, now=now or timezone.now())


def _with_lease(sample: SampleData, **columns: Any) -> str:
    """Return the token of Alice's job; *columns* are values of its lease."""
    Match.objects.filter(pk=sample.match.pk).update(**columns)
    return _job_token(sample.match)


def _with_pilot(sample: SampleData, **columns: Any) -> str:
    """Return the token of Alice's job; *columns* are values of its pilot."""
    Pilot.objects.filter(pk=sample.pilot.pk).update(**columns)
    return _job_token(sample.match)


def _lease_of(sample: SampleData, **columns: Any) -> Match:
    """Return a lease of another pilot on another job of Alice."""
    job = factories.make_job(owner=sample.alice, group=sample.group, status=JobStatus.RUNNING)
    return factories.make_match(job=job, pilot=_pilot_of(sample), leased_at=timezone.now(), **columns)


def _forged(kind: TokenKind, *, algorithm: str = "HS256") -> Maker:
    def make(sample: SampleData) -> str:
        said: dict[str, object] = {"pilot": sample.pilot.pk, "match": str(sample.match.pk), "job": sample.job.pk}
        claims = {**said, "kind": str(kind), "exp": int((timezone.now() + _HOUR).timestamp())}
        key = "" if algorithm == "none" else "k" * 48
        return PREFIXES[kind] + jwt.encode(claims, key, algorithm=algorithm)

    return make


def _disguised(token: str, kind: TokenKind) -> str:
    return PREFIXES[kind] + token.partition("_")[2]


def _sent(sample: SampleData, *, queue: Queue | None = None, **columns: Any) -> str:
    """Return the secret of a pilot that a director has sent; *columns* are values of the secret."""
    now = timezone.now()
    pilot = Pilot.objects.create(
        vo=sample.vo, queue=queue or sample.queue, stamp=uuid4().hex, status=PilotStatus.WAITING, submitted_at=now
    )
    with transaction.atomic():
        issue_secrets([pilot], now=now)
    PilotSecret.objects.filter(pilot=pilot).update(**columns)
    return secret_of(pilot)


def _site_token(purpose: SiteTokenPurpose, *, own: bool = True, revoked: bool = False) -> Maker:
    def make(sample: SampleData) -> str:
        site = sample.site if own else factories.make_site()
        token = issue_site_token(site, purpose=purpose, now=timezone.now())
        if revoked:
            newest = SiteToken.objects.order_by("-pk").values_list("pk", flat=True)[0]
            SiteToken.objects.filter(pk=newest).update(revoked_at=timezone.now())
        return token

    return make


_PAST: Final = timezone.now() - _HOUR
#: Whatever somebody may come with.
CREDENTIALS: Final[Mapping[str, Maker]] = {
    "owner": _of_alice(),
    "manager": lambda sample: factories.make_token(factories.make_user(manages=[sample.vo])),
    "stranger": _user(),
    "member who shares nothing": _user(vo=True),
    "owner who may read": _of_alice(scope=TokenScope.READ),
    "owner who may submit": _of_alice(scope=TokenScope.SUBMIT),
    "suspended user": _user(vo=True, suspended=True),
    "expired user": _of_alice(expires_at=_PAST),
    "revoked user": _of_alice(revoked_at=_PAST),
    "unknown user": lambda _: "wmsu_" + "x" * 43,
    "pilot": lambda sample: factories.make_pilot_token(sample.pilot),
    "other pilot": lambda sample: factories.make_pilot_token(_pilot_of(sample)),
    "ended pilot": lambda sample: factories.make_pilot_token(_pilot_of(sample, status=PilotStatus.DONE)),
    "revoked pilot": lambda sample: factories.make_pilot_token(_pilot_of(sample, revoked_at=_PAST)),
    "expired pilot": lambda sample: factories.make_pilot_token(sample.pilot, lifetime=-_HOUR),
    "forged pilot": _forged(TokenKind.PILOT),
    "pilot without signature": _forged(TokenKind.PILOT, algorithm="none"),
    "job": lambda sample: _job_token(sample.match),
    "job of another lease": lambda sample: _job_token(_lease_of(sample)),
    "job of an ended lease": lambda sample: _job_token(_lease_of(sample, ended_at=timezone.now())),
    "job of a lease that is over": lambda sample: _with_lease(sample, ended_at=timezone.now(), end_reason="expired"),
    "job of a revoked pilot": lambda sample: _with_pilot(sample, revoked_at=timezone.now()),
    "job of an ended pilot": lambda sample: _with_pilot(sample, status=PilotStatus.LOST, ended_at=timezone.now()),
    "expired job": lambda sample: _job_token(sample.match, now=timezone.now() - timedelta(days=30)),
    "forged job": _forged(TokenKind.JOB),
    "job without signature": _forged(TokenKind.JOB, algorithm="none"),
    "job disguised as pilot": lambda sample: _disguised(_job_token(sample.match), TokenKind.PILOT),
    "pilot disguised as job": lambda sample: _disguised(factories.make_pilot_token(sample.pilot), TokenKind.JOB),
    "secret": _sent,
    "used secret": lambda sample: _sent(sample, used_at=_PAST),
    "expired secret": lambda sample: _sent(sample, expires_at=_PAST),
    "secret for another place": lambda sample: _sent(sample, queue=factories.make_queue()),
    "registering site": _site_token(SiteTokenPurpose.REGISTER),
    "other registering site": _site_token(SiteTokenPurpose.REGISTER, own=False),
    "revoked registering site": _site_token(SiteTokenPurpose.REGISTER, revoked=True),
    "advertising site": _site_token(SiteTokenPurpose.ADVERTISE),
    "other advertising site": _site_token(SiteTokenPurpose.ADVERTISE, own=False),
    "revoked advertising site": _site_token(SiteTokenPurpose.ADVERTISE, revoked=True),
    "nothing known": lambda _: "open-sesame",
}
