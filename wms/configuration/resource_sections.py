"""Sections of the configuration file: platforms, requirement definitions, storage, sites, CEs and batch queues."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from resources.domain import enums
from resources.domain.enums import (
    RequirementKind,
    SiteTokenPurpose,
    ThrottlePolicy,
    WhenExpired,
)
from resources.models import (
    ComputingElement,
    Platform,
    Queue,
    RequirementDefinition,
    Site,
    SiteToken,
    StorageElement,
)
from resources.services.site_tokens import set_site_token
from resources.services.throttles import recompute
from wms.accounts.domain import digest_of
from wms.configuration.account_sections import VOSection
from wms.configuration.records import SectionEntry
from wms.configuration.schema import (
    CEEntry,
    DefinitionEntry,
    PlatformEntry,
    QueueEntry,
    SiteEntry,
    StorageElementEntry,
    ThrottleEntry,
)
from wms.configuration.sections import (
    Identity,
    Section,
    SectionChange,
    free,
    options_of,
    put_level,
    sorted_names,
    status_of,
)
from wms.kernel.secrets import UndecipherableError, decrypt, encrypt


class DefinitionSection(Section[DefinitionEntry, RequirementDefinition]):
    """``requirement_definitions``; their names are case-insensitive."""

    record: ClassVar[type[SectionEntry]] = DefinitionEntry

    def __init__(self, vos: VOSection) -> None:
        self._vos = vos
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, RequirementDefinition]]:
        """Yield every definition."""
        for definition in RequirementDefinition.objects.prefetch_related("vos").order_by("name"):
            yield (definition.name.casefold(),), definition

    def entry_of(self, row: RequirementDefinition) -> DefinitionEntry:
        """Return the entry of the definition."""
        vos = sorted_names(vo.name for vo in row.vos.all())
        return DefinitionEntry(name=row.name, kind=RequirementKind(row.kind), unit=row.unit, vos=vos)

    def write(self, change: SectionChange[DefinitionEntry]) -> None:
        """Write the definition."""
        row = self.rows.setdefault(change.identity, RequirementDefinition())
        row.name, row.kind, row.unit = change.entry.name, change.entry.kind, change.entry.unit
        row.save()
        if "vos" in change.changed:
            row.vos.set([self._vos.rows[name,] for name in change.entry.vos])


class PlatformSection(Section[PlatformEntry, Platform]):
    """``platforms``."""

    record: ClassVar[type[SectionEntry]] = PlatformEntry

    def load(self) -> Iterator[tuple[Identity, Platform]]:
        """Yield every platform."""
        for platform in Platform.objects.order_by("name"):
            yield (platform.name,), platform

    def entry_of(self, row: Platform) -> PlatformEntry:
        """Return the entry of the platform."""
        return PlatformEntry(name=row.name, runs=sorted_names([row.name, *row.runs]))

    def write(self, change: SectionChange[PlatformEntry]) -> None:
        """Write the platform."""
        row = self.rows.setdefault(change.identity, Platform(name=change.entry.name))
        row.runs = list(change.entry.runs)
        row.save()


class StorageElementSection(Section[StorageElementEntry, StorageElement]):
    """``storage_elements``."""

    record: ClassVar[type[SectionEntry]] = StorageElementEntry

    def __init__(self, vos: VOSection) -> None:
        self._vos = vos
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, StorageElement]]:
        """Yield every storage element."""
        for element in StorageElement.objects.prefetch_related("vos").order_by("name"):
            yield (element.name,), element

    def entry_of(self, row: StorageElement) -> StorageElementEntry:
        """Return the entry of the storage element."""
        return StorageElementEntry(
            name=row.name,
            vos=sorted_names(vo.name for vo in row.vos.all()),
            url=row.url,
            credential_for_pilots=row.credential_for_pilots,
        )

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

    def write(self, change: SectionChange[StorageElementEntry]) -> None:
        """Write the storage element."""
        row = self.rows.setdefault(change.identity, StorageElement(name=change.entry.name))
        row.url, row.credential_for_pilots = change.entry.url, change.entry.credential_for_pilots
        if change.entry.credential is not None and "credential" in change.changed:
            row.credential_encrypted = encrypt(change.entry.credential)
        row.save()
        if "vos" in change.changed:
            row.vos.set([self._vos.rows[name,] for name in change.entry.vos])


class SiteSection(Section[SiteEntry, Site]):
    """``sites``, without their CEs."""

    record: ClassVar[type[SectionEntry]] = SiteEntry

    def __init__(self, vos: VOSection, storage_elements: StorageElementSection) -> None:
        self._vos, self._storage_elements = vos, storage_elements
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, Site]]:
        """Yield every site."""
        for site in Site.objects.prefetch_related("vos", "storage_elements", "tokens").order_by("name"):
            yield (site.name,), site

    def entry_of(self, row: Site) -> SiteEntry:
        """Return the entry of the site."""
        return SiteEntry(
            name=row.name,
            vos=sorted_names(vo.name for vo in row.vos.all()),
            status=status_of(row),
            parameters=free(row.parameters),
            vo_parameters=free(row.vo_parameters),
            containers_provide_platforms=row.containers_provide_platforms,
            throttle=_throttle_of(row),
            storage_elements=sorted_names(element.name for element in row.storage_elements.all()),
        )

    def changed_secrets(self, identity: Identity, entry: SiteEntry) -> Iterable[str]:
        """Return the key of the tokens if one of the stated tokens is not the site's."""
        row = self.rows.get(identity)
        has: set[tuple[str, bytes]] = set()
        if row is not None:
            has = {(token.purpose, bytes(token.digest)) for token in row.tokens.all() if token.revoked_at is None}
        stated = {(purpose, digest_of(plain)) for purpose, plain in tokens_of(entry)}
        return () if stated <= has else ("tokens",)

    def write(self, change: SectionChange[SiteEntry]) -> None:
        """Write the site and its tokens."""
        row = self.rows.setdefault(change.identity, Site(name=change.entry.name))
        put_level(row, change)
        row.containers_provide_platforms = change.entry.containers_provide_platforms
        _put_throttle(row, change.entry.throttle)
        row.save()
        if "throttle" in change.changed:
            recompute(row)
        if "vos" in change.changed:
            row.vos.set([self._vos.rows[name,] for name in change.entry.vos])
        if "storage_elements" in change.changed:
            row.storage_elements.set([self._storage_elements.rows[name,] for name in change.entry.storage_elements])
        if "tokens" in change.changed:
            for purpose, plain in tokens_of(change.entry):
                set_site_token(row, purpose=purpose, plain=plain, now=change.now)


def tokens_of(entry: SiteEntry) -> Iterator[tuple[SiteTokenPurpose, str]]:
    """Yield the tokens that the entry states."""
    if entry.tokens is not None:
        for purpose in SiteTokenPurpose:
            plain: str | None = getattr(entry.tokens, purpose)
            if plain is not None:
                yield purpose, plain


def _throttle_of(row: Site) -> ThrottleEntry | None:
    if row.throttle_policy == ThrottlePolicy.NONE:
        return None
    return ThrottleEntry(
        policy=ThrottlePolicy(row.throttle_policy),
        max_matches=row.max_matches,
        max_submitting_jobs=row.max_submitting_jobs,
        max_submitting_and_output_gathering_jobs=row.max_submitting_and_output_gathering_jobs,
        max_jobs=row.max_jobs,
        requirements=row.throttle_requirements,
        advertisement_s=row.throttle_advertisement_s,
        when_expired=WhenExpired(row.throttle_when_expired),
    )


def _put_throttle(row: Site, entry: ThrottleEntry | None) -> None:
    throttle = entry or ThrottleEntry(policy=ThrottlePolicy.NONE)
    row.throttle_policy = throttle.policy
    row.max_matches = throttle.max_matches
    row.max_submitting_jobs = throttle.max_submitting_jobs
    row.max_submitting_and_output_gathering_jobs = throttle.max_submitting_and_output_gathering_jobs
    row.max_jobs = throttle.max_jobs
    row.throttle_requirements = throttle.requirements
    row.throttle_advertisement_s = throttle.advertisement_s
    row.throttle_when_expired = throttle.when_expired


class CESection(Section[CEEntry, ComputingElement]):
    """``ces`` of all sites."""

    record: ClassVar[type[SectionEntry]] = CEEntry

    def __init__(self, sites: SiteSection) -> None:
        self._sites = sites
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, ComputingElement]]:
        """Yield every computing element."""
        for ce in ComputingElement.objects.select_related("site").order_by("site__name", "name"):
            yield (ce.site.name, ce.name), ce

    def entry_of(self, row: ComputingElement) -> CEEntry:
        """Return the entry of the computing element."""
        return CEEntry(
            name=row.name,
            type=row.type,
            middleware=row.middleware,
            options=options_of(row.options),
            pilot_types=sorted_names(row.pilot_types),
            identity=enums.PayloadIdentity(row.identity),
            status=status_of(row),
            parameters=free(row.parameters),
            vo_parameters=free(row.vo_parameters),
        )

    def write(self, change: SectionChange[CEEntry]) -> None:
        """Write the computing element."""
        row = self.rows.setdefault(
            change.identity, ComputingElement(name=change.entry.name, site=self._sites.rows[change.identity[:1]])
        )
        put_level(row, change)
        row.type, row.options, row.identity = change.entry.type, dict(change.entry.options), change.entry.identity
        row.pilot_types, row.middleware = list(change.entry.pilot_types), change.entry.middleware
        row.save()


class QueueSection(Section[QueueEntry, Queue]):
    """``queues`` of all computing elements."""

    record: ClassVar[type[SectionEntry]] = QueueEntry

    def __init__(self, ces: CESection) -> None:
        self._ces = ces
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, Queue]]:
        """Yield every queue."""
        for queue in Queue.objects.select_related("ce__site").order_by("ce__site__name", "ce__name", "name"):
            yield (queue.ce.site.name, queue.ce.name, queue.name), queue

    def entry_of(self, row: Queue) -> QueueEntry:
        """Return the entry of the queue."""
        return QueueEntry(
            name=row.name,
            cpu_time_s=row.cpu_time_s,
            platforms=sorted_names(row.platforms),
            processors=row.processors,
            memory_mb=row.memory_mb,
            wall_time_s=row.wall_time_s,
            gpus=row.gpus,
            disk_mb=row.disk_mb,
            container=row.container,
            job_types=sorted_names(row.job_types),
            tags=sorted_names(row.tags),
            required_tags=sorted_names(row.required_tags),
            max_waiting_pilots=row.max_waiting_pilots,
            max_pilots=row.max_pilots,
            stalled_s=row.stalled_s,
            stalled_cpu_fraction=row.stalled_cpu_fraction,
            max_stalled_s=row.max_stalled_s,
            status=status_of(row),
            parameters=free(row.parameters),
            vo_parameters=free(row.vo_parameters),
        )

    def write(self, change: SectionChange[QueueEntry]) -> None:
        """Write the queue."""
        row = self.rows.setdefault(
            change.identity, Queue(name=change.entry.name, ce=self._ces.rows[change.identity[:2]])
        )
        put_level(row, change)
        for offered in ("cpu_time_s", "wall_time_s", "processors", "memory_mb", "gpus", "disk_mb", "container"):
            setattr(row, offered, getattr(change.entry, offered))
        row.platforms, row.job_types = list(change.entry.platforms), list(change.entry.job_types)
        row.tags, row.required_tags = list(change.entry.tags), list(change.entry.required_tags)
        row.stalled_s, row.stalled_cpu_fraction = change.entry.stalled_s, change.entry.stalled_cpu_fraction
        row.max_stalled_s = change.entry.max_stalled_s
        row.max_waiting_pilots, row.max_pilots = change.entry.max_waiting_pilots, change.entry.max_pilots
        row.save()


def tokens_in_use() -> dict[bytes, tuple[str, str, bool]]:
    """Return {digest: (site, purpose, revoked)} of every token."""
    tokens = SiteToken.objects.select_related("site")
    return {bytes(token.digest): (token.site.name, token.purpose, token.revoked_at is not None) for token in tokens}
