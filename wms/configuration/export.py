"""`manage.py export_configuration`: the configuration of the database as a file that reproduces it."""

from dataclasses import replace

from wms.configuration.document import dump
from wms.configuration.entries import as_written, keys_of
from wms.configuration.plan import StoredConfiguration
from wms.configuration.resource_schema import CEEntry, SiteEntry
from wms.configuration.schema import Configuration

HEAD = "# Exported configuration. Secrets (passwords, tokens, credentials) are never exported.\n"


def export() -> str:
    """Return the whole configuration; applied to the same database it changes nothing."""
    return HEAD + dump(_configuration(StoredConfiguration()))


def _configuration(database: StoredConfiguration) -> object:
    queues: dict[tuple[str, ...], list[str]] = {}
    for identity in database.queues.entries:
        queues.setdefault(identity[:2], []).append(identity[2])
    ces: dict[tuple[str, ...], list[CEEntry]] = {}
    for identity, ce in database.ces.entries.items():
        below = tuple(database.queues.entries[*identity, name] for name in queues.get(identity, []))
        ces.setdefault(identity[:1], []).append(replace(ce, queues=below))
    sites: list[SiteEntry] = [
        replace(site, ces=tuple(ces.get(identity, []))) for identity, site in database.sites.entries.items()
    ]
    stored = Configuration(
        vos=tuple(database.vos.entries.values()),
        groups=tuple(database.groups.entries.values()),
        users=tuple(database.users.entries.values()),
        requirement_definitions=tuple(database.definitions.entries.values()),
        platforms=tuple(database.platforms.entries.values()),
        storage_elements=tuple(database.storage_elements.entries.values()),
        sites=tuple(sites),
        directors=tuple(database.directors.entries.values()),
        # Equal limits are exported once: together they have the effect of one, and a file may state it once only.
        limits=tuple(dict.fromkeys(database.limits.entries.values())),
    )
    platforms = {platform.name: as_written(platform.runs) for platform in stored.platforms}
    return {
        name: platforms if name == "platforms" else as_written(getattr(stored, name)) for name in keys_of(Configuration)
    }
