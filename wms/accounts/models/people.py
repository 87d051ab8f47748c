"""Virtual organisations, groups with their priorities, users, memberships and invitations."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Protocol, Self, runtime_checkable

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Exists, OuterRef, Q

from wms.accounts import stall_rule
from wms.accounts.domain import MAX_KEPT_DAYS, MOST_PRIORITY, GroupProperty, MailWhen, Standing
from wms.kernel.fields import valid_name


def lapsed_before(*, now: datetime) -> datetime:
    """Return the time at or before which the last confirmation of a lapsed membership by claim was."""
    return now - timedelta(days=settings.WMS_OIDC_MEMBERSHIP_DAYS)


@runtime_checkable
class OfVOs(Protocol):
    """A row of the configuration whose changes managers of some VOs see in the history (ADR 107)."""

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the primary keys of the VOs that the row concerns."""


def concerned_vo_ids(row: object) -> tuple[int, ...] | None:
    """Return the primary keys of the VOs that a row of the configuration concerns; None: it is for operators."""
    return tuple(row.concerned_vo_ids()) if isinstance(row, OfVOs) else None


class VOQuerySet(models.QuerySet["VO"]):
    """VOs by visibility and management."""

    def paused_after(self, moment: datetime) -> Self:
        """Return the VOs with a pause that ends after *moment*, of their own or of all."""
        return self.filter(Q(paused_until__gt=moment) | Q(all_paused_until__gt=moment))

    def visible_to(self, actor: "User") -> Self:
        """Return the VOs of the actor's groups and those the actor manages; all for an operator."""
        if actor.is_operator:
            return self
        return self.filter(Q(groups__memberships__user=actor) | Q(managers=actor)).distinct()

    def managed_by(self, actor: "User") -> Self:
        """Return the VOs whose configuration the actor may change."""
        return self if actor.is_operator else self.filter(managers=actor)


def _age(
    status: str, *, otherwise: str = "WMS_KEEP_JOBS_DAYS"
) -> "models.PositiveIntegerField[int | None, int | None]":
    """Return the column of the age at which ended jobs in a status are removed."""
    return models.PositiveIntegerField(
        f"keep {status} jobs for, days",
        null=True,
        blank=True,
        validators=[MaxValueValidator(MAX_KEPT_DAYS)],
        help_text=f"Days after their end; 0: for ever; empty: {otherwise}. Nothing is removed before an operator "
        "allows it.",
    )


class VO(models.Model):
    """One row is one virtual organisation: a scientific community with its own users, groups and shares."""

    name = models.CharField(max_length=64, unique=True, validators=[valid_name])
    setup = models.CharField(max_length=64, help_text="Setup of jobs and pilots that name none.")
    setups = ArrayField(
        models.CharField(max_length=64), help_text="Every setup that jobs of this VO may name; holds the default."
    )
    managers: "models.ManyToManyField[User, models.Model]" = models.ManyToManyField(
        "accounts.User", related_name="managed_vos", blank=True
    )
    history_fair_share = models.BooleanField(
        default=False,
        help_text="Correct the shares of groups by their recent usage, by a factor of 3 at most in either direction.",
    )
    any_segment_fraction = models.FloatField(
        default=0.0,
        blank=True,
        validators=[MinValueValidator(0.0), MaxValueValidator(1.0)],
        help_text="Part of the matches, 0 to 1, in which jobs of all CPU segments compete, not the longest alone: "
        "above 0, so that long jobs cannot starve short ones for ever.",
    )
    stalled_s = stall_rule.stall_window(
        "stalled after, s",
        help_text="A payload with hardly any CPU time for this long is stopped; 0: never; empty: 1800 s.",
    )
    stalled_cpu_fraction = stall_rule.stalled_cpu_fraction(
        help_text="CPU time per wall-clock time, 0 to 1 of a core, that counts as hardly any; empty: 0.05.",
    )
    max_stalled_s = stall_rule.stall_window(
        "longest window of jobs, s",
        help_text="Longest window that a job may set for itself; 0: any, also none; empty: WMS_MAX_STALLED_S.",
    )
    paused_until = models.DateTimeField(
        "matching paused until",
        null=True,
        blank=True,
        help_text="Until then the jobs of the VO wait: no pilot gets one, and directors send none. Running jobs go on.",
    )
    pause_reason = models.CharField(
        "reason of the pause", max_length=200, blank=True, help_text="Shown to everybody whose jobs wait."
    )
    all_paused_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="End of the pause of all VOs, which is beside the VO's own."
    )
    all_pause_reason = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Reason of the pause of all VOs.",
    )
    outputs_for_sites = models.BooleanField(
        "output for sites",
        default=False,
        db_default=False,
        help_text="Show administrators of sites why jobs failed there, and the last lines of their output.",
    )
    keep_done_days = _age("Done")
    keep_failed_days = _age("Failed")
    keep_killed_days = _age("Killed")
    keep_deleted_days = _age("Deleted", otherwise="WMS_KEEP_DELETED_JOBS_DAYS")

    objects = VOQuerySet.as_manager()

    class Meta:
        verbose_name = "VO"
        constraints = [
            models.CheckConstraint(
                name="vo_default_setup_is_one_of_its_setups", condition=Q(setups__contains=[models.F("setup")])
            ),
            models.CheckConstraint(
                name="vo_any_segment_fraction_is_0_to_1", condition=Q(any_segment_fraction__range=(0, 1))
            ),
            models.CheckConstraint(
                name="vo_stalled_cpu_fraction_is_0_to_1", condition=Q(stalled_cpu_fraction__range=(0, 1))
            ),
            models.CheckConstraint(name="vo_pause_has_a_reason", condition=Q(paused_until=None) | ~Q(pause_reason="")),
        ]

    def __str__(self) -> str:
        return self.name

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return itself."""
        return [self.pk]

    def why_paused(self, now: datetime) -> str:
        """Return why no jobs of the VO are matched at *now*, as a part of a sentence; empty: they are."""
        pauses = ((self.paused_until, self.pause_reason), (self.all_paused_until, self.all_pause_reason))
        in_force = [(until, reason) for until, reason in pauses if until is not None and until > now]
        if not in_force:
            return ""
        # The one that ends last: until then they wait.
        until, reason = max(in_force)
        # A part of other sentences, which add their own full stop.
        return f"matching for {self} is paused until {until:%Y-%m-%d %H:%M %Z}: {reason.rstrip(' .')}"

    def setup_among(self, *names: str) -> str | None:
        """Return the first of these setups that the VO has; None: it has none of them."""
        for name in names:
            if name in self.setups:
                return name
        return None

    @property
    def longest_stalled_s(self) -> int:
        """Longest window of the stall rule that jobs may ask for; 0: any, also none."""
        return settings.WMS_MAX_STALLED_S if self.max_stalled_s is None else self.max_stalled_s


class GroupQuerySet(models.QuerySet["Group"]):
    """Groups by visibility and property."""

    def visible_to(self, actor: "User") -> Self:
        """Return the groups of the VOs that the actor belongs to or manages."""
        if actor.is_operator:
            return self
        return self.filter(vo__in=VO.objects.visible_to(actor))

    def production(self) -> Self:
        """Return the groups in which any number of jobs of one user may wait (PRODUCTION)."""
        return self.filter(properties__contains=[GroupProperty.PRODUCTION])

    def sharing(self) -> Self:
        """Return the groups whose members act for one another (JOB_SHARING)."""
        return self.filter(properties__contains=[GroupProperty.JOB_SHARING])


class Group(models.Model):
    """One row is one group of users of a VO; its priority is its share of the VO's resources (PRI)."""

    name = models.CharField(max_length=64, unique=True, validators=[valid_name])
    vo = models.ForeignKey(VO, models.PROTECT, related_name="groups", verbose_name="VO")
    priority = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.0)],
        help_text="Share of the group, relative to the other groups; 0: its jobs are never matched.",
    )
    properties = ArrayField(
        models.CharField(max_length=32, choices=[(p, p) for p in GroupProperty]), default=list, blank=True
    )

    objects = GroupQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="group_priority_is_finite_and_not_negative", condition=Q(priority__range=(0, MOST_PRIORITY))
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return its VO."""
        return [self.vo_id]

    @property
    def shares_jobs(self) -> bool:
        """Whether its members act for the whole group (JOB_SHARING)."""
        return GroupProperty.JOB_SHARING in self.properties


class User(AbstractUser):
    """One row is one person or service that logs in; the identity that owns jobs (docs/architecture.md, Jobs).

    ``is_active`` False means suspended: no log-in, no token, and none of the waiting jobs is matched.

    Tokens, one-time links and sessions end with a change of the password and with a suspension, however the row is
    changed: triggers (``sql/credentials.sql``) revoke tokens and links; sessions hold a hash of password and
    ``suspensions``.
    """

    operator = models.BooleanField(default=False, help_text="Runs the system: sees and manages every VO.")
    default_group = models.ForeignKey(
        Group,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="Group in which the user acts if none is named.",
    )
    suspensions = models.PositiveIntegerField(
        default=0, editable=False, help_text="Number of suspensions, counted by a trigger."
    )
    waits_since = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Time of the first log-in by OpenID Connect; empty: admitted by a manager, or added by an operator.",
    )
    mail_when = models.CharField(
        max_length=8,
        choices=[(when, when) for when in MailWhen],
        default=MailWhen.NEVER,
        editable=False,
        help_text="When mail about a submission of the user is sent; chosen by the user.",
    )

    #: Set for the requests of a token whose scope is ``submit``.
    acts_on_own_jobs_only = False
    #: Set if they were read with the user's session, and not used yet.
    standings_read: list[Standing] | None = None

    class Meta(AbstractUser.Meta):
        constraints = [
            models.CheckConstraint(name="user_mail_when_is_known", condition=Q(mail_when__in=list(MailWhen))),
        ]

    def __str__(self) -> str:
        return self.username

    @property
    def is_operator(self) -> bool:
        """Whether this user sees and manages everything."""
        return self.operator or self.is_superuser

    def get_session_auth_hash(self) -> str:
        """Return the hash that a session of this user holds; a different one ends the session."""
        return self._of_this_suspension(super().get_session_auth_hash())

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        """Yield the same hash under previous secret keys."""
        for digest in super().get_session_auth_fallback_hash():
            yield self._of_this_suspension(digest)

    def _of_this_suspension(self, digest: str) -> str:
        return f"{digest}.{self.suspensions}" if self.suspensions else digest


class UserDN(models.Model):
    """One row is one distinguished name of a user's certificates; an attribute, not the identity (ADR 4)."""

    dn = models.CharField("DN", max_length=255, unique=True)
    user = models.ForeignKey(User, models.CASCADE, related_name="dns")

    class Meta:
        verbose_name = "DN"

    def __str__(self) -> str:
        return self.dn


class MembershipQuerySet(models.QuerySet["Membership"]):
    """Memberships by source and validity."""

    def given(self) -> Self:
        """Return those that a manager, an operator or the configuration file has given."""
        return self.filter(confirmed_at__isnull=True)

    def valid(self, *, now: datetime) -> Self:
        """Return those that have not lapsed."""
        return self.filter(Q(confirmed_at__isnull=True) | Q(confirmed_at__gt=lapsed_before(now=now)))


class Membership(models.Model):
    """One row is one user's right to act in one group, given by a manager or by a claim of a provider (ADR 67)."""

    user = models.ForeignKey(User, models.CASCADE, related_name="memberships", db_index=False)
    group = models.ForeignKey(Group, models.CASCADE, related_name="memberships")
    by_claim_of = models.ForeignKey(
        "socialaccount.SocialAccount", models.CASCADE, null=True, editable=False, related_name="+"
    )
    confirmed_at = models.DateTimeField(
        "confirmed by claim at",
        null=True,
        editable=False,
        help_text="Last log-in that confirmed it; it lapses WMS_OIDC_MEMBERSHIP_DAYS later. Empty: given by a manager.",
    )

    objects = MembershipQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="user_is_member_of_a_group_once", fields=["user", "group"]),
            models.CheckConstraint(
                name="membership_confirmed_at_set_iff_by_claim",
                condition=Q(by_claim_of__isnull=True, confirmed_at__isnull=True)
                | Q(by_claim_of__isnull=False, confirmed_at__isnull=False),
            ),
        ]
        indexes = [  # Serves services.people.remove_lapsed_memberships.
            models.Index(name="membership_by_claim", fields=["confirmed_at"], condition=Q(confirmed_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"user {self.user_id} in group {self.group_id}"


class InvitationQuerySet(models.QuerySet["Invitation"]):
    """Invitations by the user who may answer them."""

    def open_to(self, user: User, *, now: datetime) -> Self:
        """Return those of *user* that are neither expired nor declined, and whose sender may still invite."""
        sender = User.objects.filter(
            Q(operator=True) | Q(is_superuser=True) | Q(managed_vos=OuterRef("group__vo")),
            pk=OuterRef("invited_by"),
            is_active=True,
        )
        # Uses index: invitation_by_name
        return self.filter(Exists(sender), username=user.username, expires_at__gt=now, declined_at__isnull=True)


class Invitation(models.Model):
    """One row is an invitation of a user name, existing or not, into a group; the user joins by accepting it.

    The name is a text: nothing that a manager sees of the row shows whether the user exists, so a declined one stays
    until it expires.
    """

    group = models.ForeignKey(Group, models.CASCADE, related_name="invitations", db_index=False)
    username = models.CharField("user name", max_length=150, help_text="The exact name; letter case counts.")
    invited_by = models.ForeignKey(User, models.SET_NULL, null=True, editable=False, related_name="+")
    created_at = models.DateTimeField("sent at", editable=False)
    expires_at = models.DateTimeField(editable=False)
    declined_at = models.DateTimeField(null=True, editable=False)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="name_is_invited_to_a_group_once",
                fields=["group", "username"],
            ),
        ]
        indexes = [models.Index(name="invitation_by_name", fields=["username"])]  # each page of the portal asks

    def __str__(self) -> str:
        return f"invitation of {self.username}"
