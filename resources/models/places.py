"""Models of sites, computing elements and queues: offers, states, credentials, platforms and definitions (RFC7)."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import MD5, Cast, Concat
from django.utils import timezone

from resources.domain.enums import (
    PayloadIdentity,
    PilotType,
    RequirementKind,
    ResourceState,
    SiteTokenPurpose,
    ThrottlePolicy,
    WhenExpired,
)
from resources.models.storage import StorageElement
from resources.validators import valid_parameters, valid_vo_parameters
from wms.accounts import stall_rule
from wms.accounts.models import VO, User
from wms.kernel.fields import valid_name

#: For the help texts of computing elements and queues.
_SETUP_OF_PILOTS = "Setup of the pilots here, for VOs that have it;"


def name_list(help_text: str) -> "ArrayField[list[str], list[str]]":
    """Return a column with a sorted list of names; an empty list sets no condition."""
    return ArrayField(models.CharField(max_length=255), default=list, blank=True, help_text=help_text)


class ResourceLevel(models.Model):
    """The common part of site, computing element and queue: a state and free parameters (RFC7, RFC 5).

    Parameters are {name: scalar or list of scalars}; those of VOs are {VO: {name: …}}. resources.domain.parameters
    combines the levels.
    """

    state = models.CharField(max_length=16, choices=[(s, s) for s in ResourceState], default=ResourceState.ACTIVE)
    state_reason = models.CharField(max_length=255, blank=True)
    state_until = models.DateTimeField(null=True, blank=True, help_text="End of the state; then it is active again.")
    state_changed_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True, related_name="+")
    state_changed_at = models.DateTimeField(default=timezone.now)
    parameters = models.JSONField(default=dict, blank=True, validators=[valid_parameters])
    vo_parameters = models.JSONField("parameters by VO", default=dict, blank=True, validators=[valid_vo_parameters])

    class Meta:
        abstract = True

    def state_at(self, now: datetime) -> ResourceState:
        """Return the state in force: a ban or a drain ends at ``state_until``."""
        if self.state_until is not None and self.state_until <= now:
            return ResourceState.ACTIVE
        return ResourceState(self.state)


def level_constraints(name: str) -> list[models.BaseConstraint]:
    """Return the constraints of a level's table."""
    return [
        models.CheckConstraint(name=f"{name}_state_is_known", condition=Q(state__in=list(ResourceState))),
    ]


class SiteQuerySet(models.QuerySet["Site"]):
    """Querysets of sites by VO and actor."""

    def serving(self, vo: VO) -> Self:
        """Keep the sites that serve *vo*: those that name it, and those that name no VO."""
        # With EXISTS: a join to the many-to-many table would repeat the sites.
        served = Site.vos.through.objects.filter(site_id=models.OuterRef("pk"))
        return self.filter(models.Exists(served.filter(vo=vo)) | ~models.Exists(served))

    def visible_to(self, actor: User) -> Self:
        """Keep the sites that serve a VO of the actor, and those that the actor administers."""
        if actor.is_operator:
            return self
        served = Site.vos.through.objects.filter(site_id=models.OuterRef("pk"))
        visible = VO.objects.visible_to(actor)
        for_all = ~models.Exists(served) & models.Exists(visible)
        own = models.Q(pk__in=SiteAdministrator.objects.filter(user=actor).values("site"))
        return self.filter(models.Exists(served.filter(vo__in=visible)) | for_all | own)

    def administered_by(self, actor: User) -> Self:
        """Keep the sites of which the actor is an administrator."""
        return self.filter(pk__in=SiteAdministrator.objects.filter(user=actor).values("site"))


class Site(ResourceLevel):
    """One row is one site: the resources of a laboratory under one name and one policy."""

    name = models.CharField(max_length=128, unique=True, validators=[valid_name])
    vos = models.ManyToManyField(
        VO,
        related_name="sites",
        blank=True,
        verbose_name="VOs",
        help_text="VOs that the site serves; none chosen: all.",
    )
    administrators: "models.ManyToManyField[User, models.Model]" = models.ManyToManyField(
        User,
        through="SiteAdministrator",
        through_fields=("site", "user"),
        related_name="administered_sites",
        help_text="Users who run the site here (ADR 109).",
    )
    storage_elements: "models.ManyToManyField[StorageElement, models.Model]" = models.ManyToManyField(
        "StorageElement", related_name="sites", blank=True
    )
    containers_provide_platforms = models.BooleanField(
        default=False,
        help_text="Jobs get the platforms of their queue from containers: where nodes can run containers, the queue's "
        "platforms hold whatever the node itself is.",
    )
    throttle_policy = models.CharField(
        max_length=16, choices=[(p, p or "none") for p in ThrottlePolicy], default=ThrottlePolicy.NONE, blank=True
    )
    throttle_advertisement_s = models.PositiveIntegerField(default=300, validators=[MinValueValidator(1)])
    throttle_when_expired = models.CharField(
        max_length=16, choices=[(w, w) for w in WhenExpired], default=WhenExpired.COUNT
    )
    throttle_requirements = models.TextField(blank=True, help_text="ClassAd expression of the policy custom.")
    max_matches = models.PositiveIntegerField(null=True, blank=True)
    max_submitting_jobs = models.PositiveIntegerField(null=True, blank=True)
    max_submitting_and_output_gathering_jobs = models.PositiveIntegerField(null=True, blank=True)
    max_jobs = models.PositiveIntegerField(null=True, blank=True)

    objects = SiteQuerySet.as_manager()

    class Meta:
        constraints = level_constraints("site")

    def __str__(self) -> str:
        return self.name

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the VOs that it serves."""
        return [vo.pk for vo in self.vos.all()] or VO.objects.values_list("pk", flat=True)


class SiteAdministrator(models.Model):
    """One row is one user who administers one site: its states, throttle, tokens and pilots (ADR 109)."""

    site = models.ForeignKey(Site, models.CASCADE, related_name="administrations", db_index=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    made_by = models.ForeignKey(
        User,
        models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
        help_text="Who gave the role; empty: a configuration file.",
    )
    made_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name = "site administrator"
        constraints = [
            models.UniqueConstraint(name="user_administers_a_site_once", fields=["site", "user"]),
        ]

    def __str__(self) -> str:
        return f"{self.user} at {self.site}"


class SiteThrottle(Site):
    """A site, for the admin page of throttles."""

    class Meta:
        proxy = True
        verbose_name = "throttle"


class ThrottleState(models.Model):
    """One row is the load of a throttled site, advertised or counted by the server, and the matches since.

    The claim reads it and counts its matches; it is created by the first match or advertisement.
    """

    site = models.OneToOneField(Site, models.CASCADE, primary_key=True, related_name="throttle_state")
    version = models.BigIntegerField(default=1, help_text="Higher with each advertisement, count or change of policy.")
    advertised = models.JSONField(
        default=dict,
        help_text="Numbers, by the names under which SAM advertises them; of several gateways, their sums.",
    )
    classad = models.TextField(
        blank=True, help_text="The advertisement, when it came in ClassAd form and from one gateway."
    )
    gateways = models.JSONField(
        default=list, help_text="Last advertisement of each gateway; empty: the server counted itself."
    )
    advertised_at = models.DateTimeField(null=True, help_text="None: the server counted itself.")
    measured_at = models.DateTimeField(help_text="CurMatches counts the matches after it.")
    expires_at = models.DateTimeField()
    room = models.PositiveIntegerField(
        null=True, help_text="Matches from the measurement until it closes; none: an expression decides."
    )
    matched = models.PositiveIntegerField(default=0, help_text="Matches since the measurement.")

    def __str__(self) -> str:
        return f"throttle of site {self.site_id}"


def chosen_setup(help_text: str) -> "models.CharField[str, str]":
    """Return a column with the setup that is chosen for pilots there; empty: none (ADR 83)."""
    return models.CharField(max_length=64, blank=True, default="", db_default="", help_text=help_text)


def ce_types() -> list[tuple[str, str]]:
    """Return the types of CEs: those with a backend."""
    return [(name, name) for name in settings.WMS_BACKENDS]


class ComputingElement(ResourceLevel):
    """One row is one computing element: the entry to one batch system of a site."""

    site = models.ForeignKey(Site, models.CASCADE, related_name="ces", db_index=False)
    name = models.CharField(max_length=128, validators=[valid_name])
    type = models.CharField(max_length=16, choices=ce_types)
    middleware = models.CharField(
        "grid middleware",
        max_length=128,
        blank=True,
        help_text="Name by which jobs may require computing elements of this kind; empty: the type.",
    )
    options = models.JSONField(
        default=dict, blank=True, help_text="Options of the backend: host, partition, account, …"
    )
    pilot_types = ArrayField(
        models.CharField(max_length=16, choices=[(t, t) for t in PilotType]),
        default=list,
        blank=True,
        help_text="Kinds of pilot it accepts; empty: both.",
    )
    identity = models.CharField(max_length=16, choices=[(i, i) for i in PayloadIdentity], default=PayloadIdentity.NONE)
    setup = chosen_setup(f"{_SETUP_OF_PILOTS} empty: not chosen here.")

    class Meta:
        verbose_name = "computing element"
        constraints = [
            models.UniqueConstraint(name="ce_name_is_unique_at_its_site", fields=["site", "name"]),
            *level_constraints("ce"),
        ]

    def __str__(self) -> str:
        return self.name

    def setup_for(self, vo: VO) -> str | None:
        """Return the setup of pilots of *vo* here; None: the CE does not choose it."""
        return vo.setup_among(self.setup)

    def accepts(self, pilot_type: str) -> bool:
        """Return whether pilots of a type (PilotType) may run here."""
        return not self.pilot_types or pilot_type in self.pilot_types

    @property
    def grid_middleware(self) -> str:
        """Return the name of its grid middleware, case-folded."""
        return (self.middleware or self.type).casefold()

    def is_one_of(self, middlewares: Collection[str]) -> bool:
        """Return whether directors send pilots here for jobs that require one of these grid middlewares; empty: any."""
        return not middlewares or self.grid_middleware in {name.casefold() for name in middlewares}

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the VOs that its site serves."""
        return self.site.concerned_vo_ids()


class Queue(ResourceLevel):
    """One row is one batch queue of a computing element, with the offer of one of its slots."""

    ce = models.ForeignKey(
        ComputingElement, models.CASCADE, related_name="queues", db_index=False, verbose_name="computing element"
    )
    name = models.CharField(max_length=128, validators=[valid_name])
    cpu_time_s = models.PositiveIntegerField(
        validators=[MinValueValidator(1)], help_text="CPU time of a slot, in reference-core seconds per core."
    )
    platforms = name_list("Platforms of its nodes; empty: what the node itself detects.")
    processors = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1)])
    memory_mb = models.PositiveIntegerField(
        default=0, help_text="Memory of a slot; 0: only jobs that require no memory."
    )
    wall_time_s = models.PositiveIntegerField(
        "wall-clock time, s",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="From the start of a slot to its end; empty: not limited.",
    )
    gpus = models.PositiveIntegerField("GPUs", default=0, help_text="GPUs of a slot.")
    disk_mb = models.PositiveIntegerField(
        default=0, help_text="Disk space of a slot; 0: only jobs that require no disk."
    )
    container = models.BooleanField(default=False, help_text="Whether its nodes can run containers.")
    job_types = name_list("Job types that the queue accepts; empty: all.")
    tags = name_list("Tags that jobs may require.")
    required_tags = name_list("Tags that a job must require to be accepted.")
    setup = chosen_setup(f"{_SETUP_OF_PILOTS} empty: that of the computing element.")
    max_waiting_pilots = models.PositiveIntegerField(default=10)
    max_pilots = models.PositiveIntegerField(default=100)
    stalled_s = stall_rule.stall_window(
        "stalled after, s",
        help_text="A payload with hardly any CPU time for this long is stopped; 0: never; empty: as for the VO.",
    )
    stalled_cpu_fraction = stall_rule.stalled_cpu_fraction(
        help_text="CPU time per wall-clock time, 0 to 1 of a core, that counts as hardly any; empty: as for the VO.",
    )
    max_stalled_s = stall_rule.stall_window(
        "longest window of jobs, s",
        help_text="Longest window that a job may set for itself; it cannot exceed that of the VO. "
        "0 or empty: as for the VO.",
    )
    # Tens of thousands of queues have few distinct values: grouping by a digest is much faster than by the values.
    parameters_digest = models.GeneratedField(
        expression=MD5(Concat(Cast("parameters", models.TextField()), Cast("vo_parameters", models.TextField()))),
        output_field=models.CharField(max_length=32),
        db_persist=True,
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="queue_name_is_unique_at_its_ce", fields=["ce", "name"]),
            models.CheckConstraint(
                name="queue_required_tags_are_among_its_tags", condition=Q(tags__contains=models.F("required_tags"))
            ),
            models.CheckConstraint(
                name="queue_stalled_cpu_fraction_is_0_to_1", condition=Q(stalled_cpu_fraction__range=(0, 1))
            ),
            *level_constraints("queue"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_left_to_site(self) -> bool:
        """Return whether the site itself starts the pilots: directors send none (ADR 37)."""
        return self.max_waiting_pilots == 0

    def setup_for(self, vo: VO) -> str | None:
        """Return the setup of pilots of *vo* here; None: neither the queue nor its CE, which is loaded, chooses it."""
        return vo.setup_among(self.setup, self.ce.setup)

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the VOs that its site serves."""
        return self.ce.site.concerned_vo_ids()


class ReportedPlatform(models.Model):
    """One row is one platform reported by nodes of a queue, with the node that reported it last (ADR 28)."""

    queue = models.ForeignKey(Queue, models.CASCADE, related_name="reported_platforms", db_index=False)
    platform = models.CharField(max_length=128)
    host_name = models.CharField(max_length=255, blank=True)
    seen_at = models.DateTimeField(help_text="When a node last reported it, to the minute.")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a_platform_is_reported_once_of_a_queue", fields=["queue", "platform"]),
        ]

    def __str__(self) -> str:
        return f"{self.platform} at queue {self.queue_id}"


class Platform(models.Model):
    """One row is one platform of worker nodes, with the platforms of jobs that such nodes can run."""

    name = models.CharField(max_length=128, unique=True, validators=[valid_name])
    runs = name_list("Platforms of jobs that run on such a node; its own is always among them.")

    def __str__(self) -> str:
        return self.name


class RequirementDefinition(models.Model):
    """One row defines the comparison of one name in jobs' Requirements with the resources' parameters (RFC7)."""

    name = models.CharField(max_length=128, validators=[valid_name])
    kind = models.CharField(max_length=16, choices=[(k, k) for k in RequirementKind])
    unit = models.CharField(max_length=32, blank=True)
    vos = models.ManyToManyField(VO, blank=True, verbose_name="VOs", help_text="None chosen: all.")

    class Meta:
        constraints = [
            models.UniqueConstraint(models.functions.Lower("name"), name="requirement_name_is_unique_ignoring_case"),
        ]

    def __str__(self) -> str:
        return self.name

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the VOs to which it applies."""
        return [vo.pk for vo in self.vos.all()] or VO.objects.values_list("pk", flat=True)


class SiteToken(models.Model):
    """One row is one credential of a site; only its SHA-256 is stored."""

    site = models.ForeignKey(Site, models.CASCADE, related_name="tokens", db_index=False)
    purpose = models.CharField(max_length=16, choices=[(p, p) for p in SiteTokenPurpose])
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    configured = models.BooleanField(default=False, help_text="Set by the configuration file, which may replace it.")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="End of its validity; empty: it does not expire."
    )
    registrations = models.PositiveIntegerField(default=0, help_text="Pilots that were registered with it.")
    registered_at = models.DateTimeField(null=True, blank=True, help_text="Last registration with it.")
    setup = chosen_setup("Setup of the pilots that register with it and choose none; empty: that of their queue.")
    # Not a relation: a removed VO must not leave it empty.
    vo_ids = ArrayField(
        models.BigIntegerField(),
        null=True,
        editable=False,
        help_text="The VOs that the site served when it was made; it is for no others. Empty: it served all.",
    )
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(name="site_token_of_site", fields=["site", "purpose"])]  # configure replaces them

    def __str__(self) -> str:
        return f"{self.purpose} token {self.pk}"

    def is_valid(self, *, now: datetime) -> bool:
        """Return whether the token may still be used."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the VOs that its site serves."""
        return self.site.concerned_vo_ids()
