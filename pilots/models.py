"""Models of the supply: pilots, their secrets and logs, and the directors that send them."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Self

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Case, Q, Value, When
from django.db.models.deletion import Collector

from pilots.domain.pilot import ENDED, MAY_END, PilotStatus
from resources.domain.enums import PilotType
from resources.models import ComputingElement, Queue, Site, chosen_setup
from wms.accounts.models import VO, Group, User
from wms.kernel.fields import valid_name


def at_sites(site_ids: "Collection[int] | models.QuerySet[Site, Any]") -> Q:
    """Return the condition of the pilots at some sites."""
    return Q(queue__in=Queue.objects.filter(ce__site__in=site_ids)) | Q(site__in=site_ids)


class PilotQuerySet(models.QuerySet["Pilot"]):
    """Querysets of pilots by who may see them."""

    def visible_to(self, actor: User) -> Self:
        """Keep those of managed VOs, private ones whose jobs the actor may see, and those at administered sites.

        A generic pilot's log and jobs are those of many users, so only managers and operators may see it, and the
        administrators of its site, where the log is a file. These are not told whose jobs a pilot runs: its
        ``is_of_others`` is set.
        """
        if actor.is_operator:
            return self
        sharing = Group.objects.sharing().filter(memberships__user=actor)
        private = Q(owner=actor) | Q(owner__isnull=True, group__in=sharing)
        own = private | Q(vo__in=VO.objects.filter(managers=actor))
        sites = list(Site.objects.administered_by(actor).values_list("pk", flat=True))
        if not sites:
            return self.filter(own)
        return self.filter(own | at_sites(sites)).annotate(
            is_of_others=Case(When(own, then=Value(value=False)), default=Value(value=True))
        )


def kept_by_living_pilots(
    collector: Collector, field: "models.ForeignKey[models.Model, models.Model]", pilots: PilotQuerySet, using: str
) -> None:
    """Refuse to delete a queue, or its CE or site, while pilots live there; ended pilots lose the reference.

    A pilot without a queue has no known place, as if made by hand, and its state would not be checked any more.

    Raises:
        ProtectedError: with some of these pilots; kill them, or wait until they have ended.
    """
    living = pilots.filter(ended_at=None)
    if living.exists():
        raise models.ProtectedError("Pilots live there.", set(living[:100]))
    models.SET_NULL(collector, field, pilots, using)


# Millions of pilots may have ended; Django need not read them first.
kept_by_living_pilots.lazy_sub_objs = True  # type: ignore[attr-defined]


class Pilot(models.Model):
    """One row is one pilot: an empty reservation of resources that pulls jobs (PIL §2.1)."""

    vo = models.ForeignKey(VO, models.PROTECT, related_name="pilots", verbose_name="VO")
    owner = models.ForeignKey(
        User,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="private_pilots",
        help_text="Owner of a private pilot.",
    )
    group = models.ForeignKey(
        Group, models.PROTECT, null=True, blank=True, related_name="private_pilots", help_text="None: a generic pilot."
    )
    queue = models.ForeignKey(
        Queue,
        kept_by_living_pilots,
        null=True,
        blank=True,
        related_name="pilots",
        db_index=False,
        help_text="Its queue; none: made by hand, and unknown properties of its place only narrow its offers.",
    )
    # Not indexed for all, because few pilots have one: see Meta.
    site = models.ForeignKey(
        Site,
        kept_by_living_pilots,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        help_text="Site of a pilot made by hand without a queue; none: any site that serves its VO.",
    )
    ce = models.ForeignKey(
        ComputingElement,
        kept_by_living_pilots,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        verbose_name="computing element",
        help_text="Computing element of such a pilot, if known.",
    )
    setup = chosen_setup("Setup chosen for the pilot itself; empty: that of its queue, else that of its VO.")
    stamp = models.CharField(max_length=128, blank=True, help_text="Name given by its submitter or batch system.")
    batch_id = models.CharField(
        max_length=255, blank=True, help_text="Id in its batch system; empty until accepted there."
    )
    status = models.CharField(max_length=16, choices=[(s, s) for s in PilotStatus], default=PilotStatus.SUBMITTED)
    status_reason = models.CharField(max_length=255, blank=True)
    host_name = models.CharField(max_length=255, blank=True)
    node = models.JSONField(default=dict, blank=True, help_text="Result of the node check.")
    slot = models.JSONField(default=dict, blank=True, help_text="Resources requested from the batch system.")
    submitted_at = models.DateTimeField()
    tried_at = models.DateTimeField(null=True, blank=True, help_text="First attempt to submit it to its CE.")
    stalled_at = models.DateTimeField(
        null=True, blank=True, help_text="When its status became Stalled: it had not started in time."
    )
    started_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    # "Any Pilot Job receiving a payload for execution is immediately flagged" (PIL §2.3), with its first match.
    matched_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    cleaned_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When its files at the CE were removed."
    )
    revoked_at = models.DateTimeField(null=True, blank=True, help_text="Since then its token is not valid.")
    died = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Whether it ended as if killed, though neither its batch system nor the server killed it.",
    )
    drained_at = models.DateTimeField(
        null=True, blank=True, help_text="Since then it gets no new job; it ends after those that it has."
    )
    drain_reason = models.CharField(max_length=255, blank=True)
    drain_told_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When its drain commands were written, if it had jobs."
    )
    # No index, because every report of the pilot would write to it; the pilots of a host are found by its site. No
    # constraint, because the claim would check it; rows of black holes are never deleted.
    black_hole = models.ForeignKey(
        "BlackHole",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
        help_text="Its host is a black hole, so it gets no jobs.",
    )
    answered_request_id = models.UUIDField(
        null=True,
        blank=True,
        editable=False,
        help_text="Request id of the last offer that got fewer jobs than it had room for.",
    )
    nothing_at = models.DateTimeField(null=True, blank=True, help_text="Last empty match.")
    nothing_left = models.JSONField(
        null=True, blank=True, help_text="Number of task queues left by each condition at the last empty match."
    )

    cut_usage = models.CharField(
        max_length=255,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The last job for which it reported more CPU or wall-clock time than its lease allows.",
    )

    #: Whether the reader sees it as administrator of its site only, who is not told whose jobs it runs.
    is_of_others = False

    objects = PilotQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="pilot_status_is_known_and_ended_at_set_iff_ended",
                condition=Q(status__one_of=sorted(MAY_END), ended_at__isnull=False)
                | Q(status__one_of=sorted(set(PilotStatus) - ENDED), ended_at__isnull=True),
            ),
            models.CheckConstraint(
                name="pilot_with_an_owner_has_a_group", condition=Q(owner__isnull=True) | Q(group__isnull=False)
            ),
        ]
        indexes = [
            # Serves directors: living pilots of a queue.
            models.Index(name="pilot_alive_at_queue", fields=["queue"], condition=Q(ended_at__isnull=True)),
            # Serves the status agent: pilots whose files may still be at their CE.
            models.Index(name="pilot_not_cleaned_at_queue", fields=["queue", "ended_at"], condition=Q(cleaned_at=None)),
            # Serves directors: pilots of the last hours.
            models.Index(name="pilot_submitted_at", fields=["submitted_at"]),
            # Serves directors: outcomes of the latest pilots of a queue.
            models.Index(name="pilot_latest_at_queue", fields=["queue", "-id"]),
            # Serves directors: batch queues with stalled pilots.
            models.Index(name="pilot_stalled_at", fields=["stalled_at"], condition=Q(stalled_at__isnull=False)),
            # Serves the deletion of a site or CE: the few pilots made for one.
            models.Index(name="pilot_made_for_site", fields=["site"], condition=Q(site__isnull=False)),
            models.Index(name="pilot_made_for_ce", fields=["ce"], condition=Q(ce__isnull=False)),
            # Serves the list of pilots: those of one host, the latest first.
            models.Index(name="pilot_latest_on_host", fields=["host_name", "-id"], condition=~Q(host_name="")),
        ]

    def __str__(self) -> str:
        return f"pilot {self.pk}"

    @property
    def pilot_type(self) -> PilotType:
        """Return the type: private when bound to a group (PIL §3.1)."""
        return PilotType.GENERIC if self.group_id is None else PilotType.PRIVATE

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return its VO."""
        return [self.vo_id]


class PilotSecret(models.Model):
    """One row is the single-use secret that a director gives to one pilot; only its SHA-256 is stored.

    A pilot without one was not sent by a director: it registered itself, or was made by hand.
    """

    pilot = models.OneToOneField(Pilot, models.CASCADE, related_name="secret", primary_key=True)
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"secret of pilot {self.pilot_id}"


class CEHealth(models.Model):
    """One row is the state of one computing element, as its rounds found it."""

    ce = models.OneToOneField(ComputingElement, models.CASCADE, related_name="health", primary_key=True)
    busy_until = models.DateTimeField(
        null=True, blank=True, help_text="Until then a round is marked as under way; afterwards another may begin."
    )
    asked_at = models.DateTimeField(null=True, blank=True, help_text="Last answer.")
    free_slots = models.PositiveIntegerField(
        null=True, blank=True, help_text="Pilots that it could take at its last answer."
    )
    failures = models.PositiveIntegerField(default=0, help_text="Consecutive failed rounds.")
    ask_after = models.DateTimeField(null=True, blank=True, help_text="Until then it has no rounds.")
    send_after = models.DateTimeField(null=True, blank=True, help_text="Until then no pilots are sent.")
    trouble = models.CharField(max_length=500, blank=True, help_text="Why it has no rounds, or gets no pilots.")
    stalls = models.TextField(
        blank=True, help_text="Which of its queues get no pilots now, because some did not start there."
    )
    described_as = models.CharField(
        max_length=64,
        blank=True,
        editable=False,
        help_text="Digest of its options, state and queues at the last check.",
    )
    judged_from = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Failures of pilots submitted earlier do not count: it was changed, or an operator ended the pause.",
    )
    shortfalls = models.TextField(blank=True, help_text="Slots of its queues that it does not provide.")

    class Meta:
        verbose_name = "health of a computing element"
        verbose_name_plural = "health of computing elements"

    def __str__(self) -> str:
        return f"health of {self.ce}"


class BlackHoleQuerySet(models.QuerySet["BlackHole"]):
    """Querysets of black holes by their validity."""

    def in_force(self, *, now: datetime) -> Self:
        """Keep those in force at *now*."""
        return self.filter(lifted_at=None, until__gt=now)


class BlackHole(models.Model):
    """One row is one period in which a host gets no jobs, because jobs ended badly and fast there."""

    site = models.ForeignKey(Site, models.CASCADE, related_name="black_holes", db_index=False)
    host_name = models.CharField(max_length=255)
    found_at = models.DateTimeField()
    until = models.DateTimeField(help_text="End of the period without jobs.")
    fetched = models.PositiveIntegerField(help_text="Leases that had ended there within the hour.")
    failed = models.PositiveIntegerField(help_text="Those of them that had ended badly and fast.")
    reason = models.CharField(max_length=255)
    lifted_at = models.DateTimeField(
        null=True, blank=True, help_text="When it got jobs again: its time was over, or somebody lifted it."
    )
    lifted_by = models.CharField(max_length=150, blank=True, help_text="Who lifted it; empty: its time was over.")

    objects = BlackHoleQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="a_host_is_one_black_hole_at_a_time",
                fields=["site", "host_name"],
                condition=Q(lifted_at__isnull=True),
            ),
            models.CheckConstraint(
                name="black_hole_ends_after_it_was_found", condition=Q(until__gt=models.F("found_at"))
            ),
            models.CheckConstraint(
                name="black_hole_failed_no_more_than_it_fetched", condition=Q(failed__lte=models.F("fetched"))
            ),
        ]
        indexes = [
            # Serves the detection: earlier black holes of a host, the latest first.
            models.Index(name="black_hole_of_host", fields=["site", "host_name", "-found_at"]),
        ]

    def __str__(self) -> str:
        return f"black hole {self.host_name} at {self.site}"

    def is_in_force_at(self, now: datetime) -> bool:
        """Return whether the host gets no jobs at *now*."""
        return self.lifted_at is None and self.until > now


class DirectorRun(models.Model):
    """The one row is the time of the last director cycle, and since when cycles have run without a break.

    While no cycles ran, the server may have been down, so the silence of pilots does not count.
    """

    ran_at = models.DateTimeField()
    running_since = models.DateTimeField()

    def __str__(self) -> str:
        return f"directors at {self.ran_at}"


class DirectorDecision(models.Model):
    """One row is what the directors last decided about the batch queues of one CE, of those that took pilots then."""

    ce = models.OneToOneField(ComputingElement, models.CASCADE, related_name="decision", primary_key=True)
    decided_at = models.DateTimeField(help_text="First cycle since which it has been the same.")
    queues = models.JSONField(
        help_text="{queue's primary key: [jobs without a pilot on its way, pilots sent, why none was sent]}."
    )

    def __str__(self) -> str:
        return f"decision about {self.ce_id}"


class PilotLog(models.Model):
    """One row is the stored log of one pilot, without its parts; it is removed some time after its last change."""

    pilot = models.OneToOneField(Pilot, models.CASCADE, related_name="log", primary_key=True)
    received = models.BigIntegerField(default=0, help_text="Characters received, plus those the pilot reported lost.")
    batch_output = models.TextField(
        blank=True, help_text="Output kept by its batch system, of a pilot that could not send its log."
    )
    changed_at = models.DateTimeField()

    class Meta:
        # Serves the removal of old logs.
        indexes = [models.Index(name="pilot_log_by_age", fields=["changed_at"])]

    def __str__(self) -> str:
        return f"log of pilot {self.pilot_id}"


class PilotLogPart(models.Model):
    """One row is a part of a pilot's log, from an offset in characters on."""

    log = models.ForeignKey(PilotLog, models.CASCADE, related_name="parts", db_index=False)
    offset = models.BigIntegerField()
    text = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a_part_of_a_pilots_log_is_kept_once", fields=["log", "offset"]),
        ]

    def __str__(self) -> str:
        return f"log of pilot {self.log_id} from {self.offset} on"


class Director(models.Model):
    """One row is one director: the sites that it fills with pilots, for which jobs and at which rate (PIL §2.3)."""

    name = models.CharField(max_length=64, unique=True, validators=[valid_name])
    kind = models.CharField(
        max_length=16,
        choices=[("site", "site"), ("taskqueue", "taskqueue")],
        default="site",
        help_text="What it requests for a pilot. site: a whole slot of the batch queue. taskqueue: what the jobs need, "
        "at most a slot, so that it starts sooner.",
    )
    sites = models.ManyToManyField(
        Site, blank=True, related_name="directors", help_text="Sites to which it sends pilots; none chosen: all."
    )
    job_types = ArrayField(
        models.CharField(max_length=255),
        default=list,
        blank=True,
        help_text="Job types of a dedicated facility; empty: all.",
    )
    requirements = models.TextField(
        blank=True,
        default="",
        help_text="ClassAd expression over the attributes of a task queue, such as GPUs > 0; it serves those for which "
        "it is TRUE; empty: all.",
    )
    setup = chosen_setup(
        "Setup of the pilots that it sends, for VOs that have it, where queue and computing element choose none; "
        "empty: that of the jobs."
    )
    pilots_per_cycle = models.PositiveIntegerField(default=40, validators=[MinValueValidator(1)])
    private_fraction = models.FloatField(default=0.0, validators=[MinValueValidator(0.0), MaxValueValidator(1.0)])

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="director_private_fraction_is_0_to_1", condition=Q(private_fraction__range=(0, 1))
            ),
        ]

    def __str__(self) -> str:
        return self.name
