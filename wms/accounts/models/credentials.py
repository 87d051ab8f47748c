"""Credentials of users: tokens, password links, failed log-ins; and the security log."""

from datetime import datetime
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.sessions.models import Session
from django.db import models
from django.db.models import Q
from django.utils import timezone

from wms.accounts.domain import TokenScope
from wms.accounts.models.people import User


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Tokens by validity."""

    def live(self, *, now: datetime) -> Self:
        """Return the tokens that are neither expired nor revoked."""
        return self.filter(expires_at__gt=now, revoked_at__isnull=True)


class ApiToken(models.Model):
    """One row is one bearer token of a user; only its SHA-256 is stored."""

    user = models.ForeignKey(User, models.CASCADE, related_name="api_tokens")
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    name = models.CharField(max_length=100, blank=True, help_text="Name given by the user.")
    scope = models.CharField(
        max_length=16,
        choices=[(scope, scope) for scope in TokenScope],
        default=TokenScope.MANAGE,
        help_text="Scope of the token: the requests that it allows.",
    )
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="Last use, within some minutes; empty: never.")
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        constraints = [
            models.CheckConstraint(name="api_token_scope_is_known", condition=Q(scope__in=list(TokenScope))),
        ]

    def __str__(self) -> str:
        return f"token {self.pk}"


class UserSession(models.Model):
    """One row is one session in which a user is logged in; Django's own row does not name the user."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="+")
    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    begun_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"session of user {self.user_id}"


class PasswordLink(models.Model):
    """One row is a link by which a user sets a password once; only its SHA-256 is stored.

    A user has at most one: a newer link replaces it; a change of the password and a suspension delete it.
    """

    user = models.OneToOneField(User, models.CASCADE, related_name="password_link")
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"password link of user {self.user_id}"


class FailedLogIn(models.Model):
    """One row is one failed, or not yet successful, log-in; it is removed when it no longer counts.

    The name is stored as its SHA-256, as people type passwords into the field of the name. The address is that of
    the block (``wms.kernel.addresses.address_block``); a device is a browser that the user has logged in with before.
    """

    name_digest = models.BinaryField(max_length=32, editable=False)
    address = models.CharField(max_length=64, editable=False)
    device = models.CharField(max_length=32, editable=False, default="")
    of_code = models.BooleanField(editable=False, default=False)  # of a second factor, not of the password
    failed_at = models.DateTimeField()

    class Meta:
        verbose_name = "failed log-in"
        indexes = [models.Index(name="failed_log_in_recent", fields=["failed_at"])]  # the log-in delay and the removal

    def __str__(self) -> str:
        return f"failed log-in {self.pk}"


def identity_of(row: models.Model) -> tuple[str, str]:
    """Return (type, id) by which events name a row."""
    return (row._meta.concrete_model or type(row))._meta.label_lower, str(row.pk)


class SecurityEvent(models.Model):
    """One row is one security-relevant event, or the same refusal several times within a minute.

    Rows are written by ``wms.accounts.security_log`` only, and hold no secret. Actor and target are stored as texts,
    too, so that the row stays readable when the user is deleted. Those about a row of the configuration are its
    history (ADR 107).
    """

    at = models.DateTimeField(help_text="Time of the event; of a repeated refusal, the first.")
    #: A SecurityEventKind. NB: without choices, so that a further kind needs no migration.
    kind = models.CharField(max_length=40)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, blank=True, related_name="+")
    actor_name = models.CharField(
        "who", max_length=150, blank=True, help_text="Empty: nobody known. With spaces: no user, but a program."
    )
    address = models.CharField(max_length=64, blank=True, help_text="Address of the client; empty: no request.")
    target = models.CharField(max_length=250, blank=True, help_text="Object of the action.")
    # Of a row of the configuration, which may be deleted by now.
    row_type = models.CharField(max_length=64, blank=True, db_default="", editable=False)  # such as accounts.group
    row_id = models.CharField(max_length=64, blank=True, db_default="", editable=False)
    #: Of the VOs whose managers see the event; None: only operators do. A VO may be deleted by now.
    vo_ids = ArrayField(models.BigIntegerField(), null=True, editable=False)
    facts = models.JSONField(default=dict, blank=True, help_text="Names, ids and states.")
    times = models.PositiveBigIntegerField(
        default=1, help_text="Of refusals: so often at least, and less than twice as often, within one minute."
    )

    class Meta:
        verbose_name = "security event"
        indexes = [
            models.Index(name="security_event_by_time", fields=["at", "id"]),  # the page, the export
            models.Index(name="security_event_by_kind", fields=["kind", "at"]),
            # What one searches for in the administration: whole names, and beginnings.
            models.Index(name="security_event_by_actor", fields=["actor_name"]),
            models.Index(name="security_event_by_address", fields=["address"], opclasses=["varchar_pattern_ops"]),
            models.Index(name="security_event_by_target", fields=["target"], opclasses=["varchar_pattern_ops"]),
            models.Index(name="security_event_by_row", fields=["row_type", "row_id", "id"], condition=~Q(row_type="")),
            # The history of a VO that nearly all of them concern …
            models.Index(name="security_event_of_vos", fields=["id"], condition=Q(vo_ids__isnull=False)),
            # … and of one that few do. Without a list of pending entries, which each query would read.
            GinIndex(
                name="security_event_by_vo", fields=["vo_ids"], fastupdate=False, condition=Q(vo_ids__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.target}".rstrip()


class ConfigurationChange(SecurityEvent):
    """A security event about a row of the configuration: a part of the row's history (ADR 107)."""

    class Meta:
        proxy = True
        verbose_name = "change"
        verbose_name_plural = "changes"
