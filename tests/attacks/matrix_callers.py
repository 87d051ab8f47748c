"""The callers of the matrix, and the rows that they request: Alice's job in its pilot, and another VO."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.utils import timezone

from matching.models import PilotEfficiency
from matching.services import throttles
from pilots.models import CEHealth, Director
from resources.domain.enums import RequirementKind
from resources.models import SiteAdministrator, SiteToken
from resources.services.administrators import make_administrator
from taskqueues.models import Limit, SubmitPool, TaskQueue
from tests import factories
from tests.admin.conftest import RowsOfVO, make_rows_of_vo
from tests.api.credentials.sample import CREDENTIALS, IN_TEN_YEARS, PASSWORD, SampleData, make_sample
from tests.attacks.matrix import MACHINES, NOBODY_KNOWN, UNWANTED
from tests.oidc import ID, ScriptedProvider
from wms.accounts import security_log
from wms.accounts.domain import GroupProperty, SecurityEventKind, TokenScope
from wms.accounts.models import VO, ConfigurationChange, Group, Invitation, SecurityEvent, User
from wms.accounts.oidc.configuration import providers
from wms.accounts.services.device_log_ins import begin_device_log_in
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import SavedDescription, SavedSyntax

# ---- the scene -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The rows that all requests of the matrix use."""

    #: Alice's.
    sample: SampleData
    #: In lhcb too; its members share no jobs.
    other_group: Group
    other_vo: RowsOfVO
    #: By model, as addresses of the admin name it: the row that stands in them, which is lhcb's or of no VO.
    rows: Mapping[str, object]
    #: Of a log-in by the device flow that nobody has confirmed.
    handle: str
    #: What else stands in addresses, by name of the address and of the argument.
    arguments: Mapping[str, object]


def make_scene(provider: ScriptedProvider) -> Scene:
    """Create the rows; those of the other VO prove that its callers reach their own, and that nobody else does."""
    sample, other_vo = make_sample(), make_rows_of_vo("atlas")
    Group.objects.filter(pk=sample.group.pk).update(properties=[GroupProperty.JOB_SHARING])
    Group.objects.filter(pk=other_vo.group.pk).update(properties=[GroupProperty.JOB_SHARING])
    other_group = factories.make_group(name="lhcb_guests", vo=sample.vo)
    operator = factories.make_user(username="oscar", operator=True)
    # In statuses in which what is asked of them is possible.
    waiting, held, done = (
        factories.make_job(owner=sample.alice, group=sample.group, status=status)
        for status in (JobStatus.WAITING, JobStatus.HELD, JobStatus.DONE)
    )
    # Else the server counts by itself what its throttle stands at, whenever a match is asked for.
    throttles.count(sample.site.pk)
    invitation = Invitation.objects.create(
        group=other_group,
        username=sample.alice.username,
        invited_by=operator,
        created_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=1),
    )
    saved = SavedDescription.objects.create(
        owner=sample.alice, name="scan", syntax=SavedSyntax.JDL, text="[ ]", saved_at=timezone.now()
    )
    key = Authenticator.objects.create(user=operator, type=Authenticator.Type.WEBAUTHN, data={})
    connected = SocialAccount.objects.create(user=sample.alice, provider=provider.url, uid="alice")
    waiting_person = User.objects.create(username="wanda@cern", waits_since=timezone.now())
    SocialAccount.objects.create(user=waiting_person, provider=provider.url, uid="wanda")
    return Scene(
        sample=sample,
        other_group=other_group,
        other_vo=other_vo,
        rows=_rows(sample),
        handle=begin_device_log_in(providers()[ID], address="", now=timezone.now()).handle,
        arguments={
            **sample.arguments(),
            "job pk": waiting.pk,
            "job-delete pk": done.pk,
            "job-hold pk": waiting.pk,
            "job-release pk": held.pk,
            "portal:pilot pk": sample.pilot.pk,
            "portal:pilot-log pk": sample.pilot.pk,
            "portal:pilot-whole-log pk": sample.pilot.pk,
            "submission pk": waiting.submission_id,
            "portal:submission pk": waiting.submission_id,
            "portal:submission-outputs pk": waiting.submission_id,
            "portal:task-queue pk": TaskQueue.objects.get(vo=sample.vo).pk,
            "portal:next-day pk": sample.group.pk,
            "portal:site name": sample.site.name,
            "portal:site-state name": sample.site.name,
            "portal:site-throttle name": sample.site.name,
            "portal:site-expression name": sample.site.name,
            "portal:site-limits name": sample.site.name,
            "portal:ce name": sample.site.name,
            "portal:ce-queue name": sample.site.name,
            "portal:vo-pause name": sample.vo.name,
            "portal:change-revert pk": sample.change.pk,
            "portal:site-tokens name": sample.site.name,
            "portal:site-token-revoke name": sample.site.name,
            "portal:site-token-revoke pk": sample.site_token_id,
            "portal:site-failures-csv name": sample.site.name,
            "portal:site-downtimes name": sample.site.name,
            "portal:token-revoke pk": sample.alice_token_id,
            "portal:group-leave pk": sample.group.pk,
            "portal:group-default pk": sample.group.pk,
            "portal:invitation-accept pk": invitation.pk,
            "portal:invitation-decline pk": invitation.pk,
            "portal:saved-delete pk": saved.pk,
            "mfa_remove_webauthn pk": key.pk,
            "provider": ID,
            "portal:oidc-disconnect pk": connected.pk,
            "portal:person pk": sample.alice.pk,
            "portal:person-suspension pk": sample.alice.pk,
            "portal:person-admit pk": waiting_person.pk,
            "portal:person-refuse pk": waiting_person.pk,
        },
    )


def _rows(sample: SampleData) -> Mapping[str, object]:
    vo, site, ce, now = sample.vo, sample.site, sample.queue.ce, timezone.now()
    security_log.record(SecurityEventKind.LOG_IN_ACCEPTED, actor=sample.alice, target="something")
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    security_log.record(kind, target=f"group {sample.group}", row=sample.group, what="changed")
    rows = {
        "accounts_configurationchange": ConfigurationChange.objects.latest("pk"),
        "accounts_user": sample.alice,
        "accounts_apitoken": sample.alice.api_tokens.get(),
        "accounts_securityevent": SecurityEvent.objects.filter(kind=SecurityEventKind.LOG_IN_ACCEPTED).latest("pk"),
        "accounts_group": sample.group,
        "accounts_vo": vo,
        "resources_platform": factories.make_platform(name="x86_64-el9"),
        "resources_storageelement": sample.storage_element,
        "resources_replica": factories.make_replica("/lhcb/a", vo=vo, storage_element=sample.storage_element),
        "resources_sitetoken": SiteToken.objects.get(pk=sample.site_token_id),
        "resources_siteadministrator": SiteAdministrator.objects.create(site=site, user=factories.make_user()),
        "resources_downtime": sample.downtime,
        "resources_sitethrottle": site,
        "resources_site": site,
        "resources_computingelement": ce,
        "resources_queue": sample.queue,
        "resources_requirementdefinition": factories.make_requirement_definition(
            name="Memory", kind=RequirementKind.CAPACITY, vos=[vo]
        ),
        "taskqueues_limit": Limit.objects.create(vo=vo, running=5),
        "taskqueues_taskqueue": TaskQueue.objects.get(vo=vo),
        "taskqueues_submitpool": SubmitPool.objects.create(
            id=f"{vo.pk:064d}", vo=vo, requirements={"memory": 4000}, refreshed_at=now, last_used_at=now
        ),
        "jobs_job": sample.job,
        "pilots_pilot": sample.pilot,
        "pilots_cehealth": CEHealth.objects.create(ce=ce, trouble="It does not answer", failures=3),
        "pilots_blackhole": sample.black_hole,
        "pilots_director": Director.objects.create(name="everywhere"),
        "matching_match": sample.match,
        "matching_pilotefficiency": PilotEfficiency.objects.get(pk=sample.pilot.pk),
    }
    keys: dict[str, object] = {model: row.pk for model, row in rows.items()}
    return keys | {"auth_user": sample.alice.pk}


# ---- who comes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A client with its credential and role."""

    #: As the table names them.
    role: str
    #: With the session of a log-in, or anonymous.
    client: Client
    #: Sent with every request; without it they come by session, whose rights are those of the widest scope.
    token: str = ""
    scope: TokenScope = TokenScope.ADMINISTER

    @property
    def is_cross_site(self) -> bool:
        """Return whether requests come from a page of another site: with the session, without the form's token."""
        return bool(self.client.handler.enforce_csrf_checks)

    def role_at(self, *, is_api: bool, is_reading: bool) -> str:
        """Return the role that the credential gives at an address."""
        if self.is_cross_site and not is_reading:
            return NOBODY_KNOWN if is_api else UNWANTED
        return self.role if is_api or not self.token else NOBODY_KNOWN


def _member(scene: Scene, **what: Any) -> User:
    return factories.make_user(username="carol", groups=[scene.other_group], password=PASSWORD, **what)


def _mate(scene: Scene) -> User:
    return factories.make_user(username="mallory", groups=[scene.sample.group], password=PASSWORD)


def _manager(vo: VO) -> User:
    return factories.make_user(username="mona", staff=True, manages=[vo], password=PASSWORD)


def _site_administrator(scene: Scene) -> User:
    user = factories.make_user(username="sandra", password=PASSWORD)
    make_administrator(scene.sample.site, user, by=None, now=timezone.now())
    return user


def _outsider(scene: Scene) -> User:
    user = scene.other_vo.member
    user.set_password(PASSWORD)
    user.save()
    return user


#: By role: who logs in, or has a token.
PEOPLE: Final[Mapping[str, Callable[[Scene], User]]] = MappingProxyType(
    {
        "owner": lambda scene: scene.sample.alice,
        "group mate": _mate,
        "colleague": _member,
        "staff": partial(_member, staff=True),
        "manager": lambda scene: _manager(scene.sample.vo),
        "operator": partial(_member, staff=True, operator=True),
        "superuser": partial(_member, staff=True, superuser=True),
        "user of another VO": _outsider,
        "manager of another VO": lambda scene: _manager(scene.other_vo.vo),
        "site administrator": _site_administrator,
    }
)
#: Credentials of who is no person, or no longer; those of people are made here.
MACHINE_CREDENTIALS: Final = tuple(
    kind
    for kind in CREDENTIALS
    if kind
    not in {
        "owner", "owner who may read", "owner who may submit", "manager", "stranger", "member who shares nothing"
    }
)  # fmt: skip

#: Callers whose rights differ: each requests every address. On pages a token opens nothing, not even the superuser's.
WHOLE: Final = (
    "anonymous",
    "owner by session from another site",
    *(f"{role} by session" for role in PEOPLE if role != "operator"),
    "owner by token",
    "superuser by token",
    # The superuser, in whose way nothing else stands, and whose jobs it is about.
    *(
        f"{role} by token to {scope}"
        for role in ("owner", "superuser")
        for scope in (TokenScope.READ, TokenScope.SUBMIT)
    ),
    *(kind for kind in MACHINE_CREDENTIALS if kind in MACHINES),
    "pilot of another VO",
)
#: Every other caller, and the one whose rights it has, or would have if its credential were valid. It requests one
#: address for each rule, as authentication and permissions are the same code for all of them; and those that open to
#: the machine that it is like, since there the row of the pilot, lease or secret may still refuse it.
LIKE: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Both have their rights by `User.is_operator`.
        "operator by session": "superuser by session",
        # A valid token: the same user as by session.
        **{f"{role} by token": f"{role} by session" for role in PEOPLE if role not in {"owner", "superuser"}},
        "operator by token": "superuser by session",
        "superuser by token to administer": "superuser by session",
        "manager by token to administer": "manager by session",
        "manager by token to read": "superuser by token to read",
        "manager by token to submit": "superuser by token to submit",
        # Refused where the user is looked up.
        "suspended user by session": "colleague by session",
        "suspended user": "owner by token",
        "expired user": "owner by token",
        "revoked user": "owner by token",
        "unknown user": "owner by token",
        # Refused where the token is read, or where the row of the pilot is.
        "expired pilot": "pilot",
        "forged pilot": "pilot",
        "pilot without signature": "pilot",
        "job disguised as pilot": "pilot",
        "revoked pilot": "pilot",
        # Refused where the token is read, or the lease compared, or its row and that of its pilot read.
        "expired job": "job",
        "forged job": "job",
        "job without signature": "job",
        "pilot disguised as job": "job",
        "job of another lease": "job",
        "job of another VO": "job",
        "job of an ended lease": "job",
        "job of a lease that is over": "job",
        "job of a revoked pilot": "job",
        # Refused where the secret or token is looked up, or where the site is compared.
        "used secret": "secret",
        "expired secret": "secret",
        "secret for another place": "secret",
        "other registering site": "registering site",
        "revoked registering site": "registering site",
        "other advertising site": "advertising site",
        "revoked advertising site": "advertising site",
        # Any text may be a site's token.
        "nothing known": "advertising site",
    }
)
NAMES: Final = (*WHOLE, *LIKE)

#: By class that finds out who calls: a caller that it knows.
KNOWN_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "UserTokenAuthentication": "owner by token",
        "PilotTokenAuthentication": "pilot",
        "PilotSecretAuthentication": "secret",
        "JobTokenAuthentication": "job",
        "SiteTokenAuthentication": "advertising site",
        "PortalSessionAuthentication": "owner by session",
    }
)


def make_caller(name: str, scene: Scene) -> Caller:
    """Return the caller of this name."""
    role, _, way = name.partition(" by ")
    if name in MACHINE_CREDENTIALS:
        token = CREDENTIALS[name](scene.sample)
        return Caller(role=name if name in MACHINES else NOBODY_KNOWN, client=_client(), token=token)
    if name.endswith(" of another VO"):
        token = CREDENTIALS[name.partition(" ")[0]](_objects_of(scene.other_vo))
        return Caller(role=name if name in MACHINES else NOBODY_KNOWN, client=_client(), token=token)
    if role == "suspended user":
        client = _logged_in(user := _member(scene))
        User.objects.filter(pk=user.pk).update(is_active=False)
        return Caller(role=NOBODY_KNOWN, client=client)
    if role == "anonymous":
        return Caller(role=NOBODY_KNOWN, client=_client())
    user = PEOPLE[role](scene)
    if way.startswith("session"):
        client = _logged_in(user)
        client.handler.enforce_csrf_checks = "another site" in way
        return Caller(role=role, client=client)
    scope = TokenScope(way.rpartition(" ")[2]) if way != "token" else TokenScope.MANAGE
    return Caller(role=role, client=_client(), token=factories.make_token(user, scope=scope), scope=scope)


def _client() -> Client:
    return Client(raise_request_exception=False)  # an error is answered by 500, as a server does


def _logged_in(user: User) -> Client:
    client = _client()
    answer = client.post("/accounts/login/", {"username": user.username, "password": PASSWORD})
    assert answer.status_code == 302, "the log-in failed"
    # Pages of second factors ask for the password once more.
    answer = client.post("/accounts/again/", {"password": PASSWORD})
    assert answer.status_code == 302, "the second log-in failed"
    return client


def _objects_of(rows: RowsOfVO) -> SampleData:
    """Return the rows of the other VO in the form that credentials are made from."""
    return SampleData(
        vo=rows.vo,
        group=rows.group,
        alice=rows.member,
        site=rows.site,
        queue=rows.queue,
        storage_element=rows.replica.storage_element,
        pilot=rows.pilot,
        job=rows.job,
        failed=rows.job,
        match=rows.match,
        sandbox="",
        alice_token_id=rows.api_token.pk,
        limit=rows.limit,
        downtime=factories.make_downtime(rows.site, begins_at=IN_TEN_YEARS),
        black_hole=rows.black_hole,
        site_token_id=rows.site_token.pk,
        change=rows.change,
    )
