"""Sections of the configuration file: platforms, requirement definitions, storage, sites, CEs and batch queues."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, TypeVar

from django.db.models import Model

from resources.domain.enums import ResourceState, SiteTokenPurpose, ThrottlePolicy
from resources.models import (
    ComputingElement,
    Platform,
    Queue,
    RequirementDefinition,
    ResourceLevel,
    Site,
    SiteToken,
    StorageElement,
)
from resources.services.site_tokens import set_site_token
from resources.services.throttles import COLUMNS, recompute
from wms.accounts.domain import digest_of
from wms.configuration.entries import SectionEntry, keys_of
from wms.configuration.resource_schema import (
    CEEntry,
    DefinitionEntry,
    PlatformEntry,
    QueueEntry,
    SiteEntry,
    StatusEntry,
    StorageElementEntry,
    ThrottleEntry,
)
from wms.configuration.sections import Identity, Section, SectionChange, free
from wms.kernel.secrets import UndecipherableError, decrypt, encrypt

LevelT = TypeVar("LevelT", bound=SiteEntry | CEEntry | QueueEntry)
LevelRowT = TypeVar("LevelRowT", bound=ResourceLevel)


class DefinitionSection(Section[DefinitionEntry, RequirementDefinition]):
    """``requirement_definitions``; their names are case-insensitive."""

    record: ClassVar[type[SectionEntry]] = DefinitionEntry
    model: ClassVar[type[Model]] = RequirementDefinition

    def load(self) -> Iterator[tuple[Identity, RequirementDefinition]]:
        """Yield every definition by its folded name."""
        for (name,), row in super().load():
            yield (name.casefold(),), row


class PlatformSection(Section[PlatformEntry, Platform]):
    """``platforms``."""

    record: ClassVar[type[SectionEntry]] = PlatformEntry
    model: ClassVar[type[Model]] = Platform

    def entry_of(self, row: Platform) -> PlatformEntry:
        """Return the entry; a platform runs its own jobs, whether its row says so or not."""
        return super().entry_of(row).settled()


class StorageElementSection(Section[StorageElementEntry, StorageElement]):
    """``storage_elements``."""

    record: ClassVar[type[SectionEntry]] = StorageElementEntry
    model: ClassVar[type[Model]] = StorageElement

    def changed_secrets(self, identity: Identity, entry: StorageElementEntry) -> Iterable[str]:
        """Return the credential's key if the credential differs, or cannot be decrypted."""
        if entry.credential is None:
            return ()
        row = self.rows.get(identity)
        if row is None or not row.credential_encrypted:
            return ("credential",)
        try:
            return () if decrypt(row.credential_encrypted) == entry.credential else ("credential",)
        except UndecipherableError:
            return ("credential",)

    def put(self, row: StorageElement, change: SectionChange[StorageElementEntry]) -> None:
        """Set the columns."""
        super().put(row, change)
        if change.entry.credential is not None and "credential" in change.changed:
            row.credential_encrypted = encrypt(change.entry.credential)


class LevelSection(Section[LevelT, LevelRowT]):
    """Sites, computing elements or queues: objects with a status."""

    apart: ClassVar[frozenset[str]] = frozenset({"status"})

    def stored(self, row: LevelRowT) -> dict[str, object]:
        """Return the values of the keys."""
        state = ResourceState(row.state)
        return super().stored(row) | {
            "status": StatusEntry(state=state, reason=row.state_reason, until=row.state_until)
        }

    def put(self, row: LevelRowT, change: SectionChange[LevelT]) -> None:
        """Set the columns.

        NB: not by states.set_state, which refuses an end in the past: a file must stay valid as time passes.
        """
        super().put(row, change)
        status = change.entry.status
        row.state, row.state_reason, row.state_until = status.state, status.reason, status.until
        if "status" in change.changed:
            row.state_changed_at, row.state_changed_by = change.now, None


class SiteSection(LevelSection[SiteEntry, Site]):
    """``sites``, without their CEs."""

    record: ClassVar[type[SectionEntry]] = SiteEntry
    model: ClassVar[type[Model]] = Site
    apart: ClassVar[frozenset[str]] = frozenset({"status", "throttle"})
    reads: ClassVar[tuple[str, ...]] = ("tokens",)

    def stored(self, row: Site) -> dict[str, object]:
        """Return the values of the keys."""
        throttle = {key: getattr(row, COLUMNS[key]) for key in keys_of(ThrottleEntry)}
        return super().stored(row) | {"throttle": ThrottleEntry(**throttle) if row.throttle_policy else None}

    def changed_secrets(self, identity: Identity, entry: SiteEntry) -> Iterable[str]:
        """Return the key of the tokens if one of the stated tokens is not the site's."""
        row = self.rows.get(identity)
        has: set[tuple[str, bytes, str]] = set()
        if row is not None:
            valid = [token for token in row.tokens.all() if token.revoked_at is None]
            has = {(token.purpose, bytes(token.digest), token.setup) for token in valid}
        stated = {(purpose, digest_of(plain), _setup_of(entry, purpose)) for purpose, plain in tokens_of(entry)}
        return () if stated <= has else ("tokens",)

    def put(self, row: Site, change: SectionChange[SiteEntry]) -> None:
        """Set the columns."""
        super().put(row, change)
        throttle = change.entry.throttle or ThrottleEntry(policy=ThrottlePolicy.NONE)
        for key in keys_of(ThrottleEntry):
            setattr(row, COLUMNS[key], getattr(throttle, key))

    def write(self, change: SectionChange[SiteEntry]) -> Site:
        """Write the site and its tokens."""
        row = super().write(change)
        if "throttle" in change.changed:
            recompute(row)
        if "tokens" in change.changed:
            for purpose, plain in tokens_of(change.entry):
                setup = _setup_of(change.entry, purpose)
                set_site_token(row, purpose=purpose, plain=plain, setup=setup, now=change.now)
        return row


def tokens_of(entry: SiteEntry) -> Iterator[tuple[SiteTokenPurpose, str]]:
    """Yield the tokens that the entry states."""
    if entry.tokens is not None:
        for purpose in SiteTokenPurpose:
            plain: str | None = getattr(entry.tokens, purpose)
            if plain is not None:
                yield purpose, plain


def _setup_of(entry: SiteEntry, purpose: SiteTokenPurpose) -> str:
    """Return the setup of the pilots that register with a token of the site."""
    return entry.tokens.setup if entry.tokens is not None and purpose is SiteTokenPurpose.REGISTER else ""


class CESection(LevelSection[CEEntry, ComputingElement]):
    """``ces`` of all sites."""

    record: ClassVar[type[SectionEntry]] = CEEntry
    model: ClassVar[type[Model]] = ComputingElement
    identified_by: ClassVar[tuple[str, ...]] = ("site__name", "name")

    def stored(self, row: ComputingElement) -> dict[str, object]:
        """Return the values of the keys."""
        return super().stored(row) | {"options": free(row.options, one_is_a_list=True)}

    def put(self, row: ComputingElement, change: SectionChange[CEEntry]) -> None:
        """Set the columns."""
        super().put(row, change)
        row.site = self.sections[Site].rows[change.identity[:1]]


class QueueSection(LevelSection[QueueEntry, Queue]):
    """``queues`` of all computing elements."""

    record: ClassVar[type[SectionEntry]] = QueueEntry
    model: ClassVar[type[Model]] = Queue
    identified_by: ClassVar[tuple[str, ...]] = ("ce__site__name", "ce__name", "name")

    def put(self, row: Queue, change: SectionChange[QueueEntry]) -> None:
        """Set the columns."""
        super().put(row, change)
        row.ce = self.sections[ComputingElement].rows[change.identity[:2]]


def tokens_in_use() -> dict[bytes, tuple[str, str, bool]]:
    """Return {digest: (site, purpose, revoked)} of every token."""
    tokens = SiteToken.objects.select_related("site")
    return {bytes(token.digest): (token.site.name, token.purpose, token.revoked_at is not None) for token in tokens}
