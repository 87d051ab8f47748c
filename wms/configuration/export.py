"""The configuration of the database as a file that reproduces it: all of it, or the part that one user changes."""

from collections.abc import Mapping, Sequence

from wms.configuration.entries import as_written, keys_of
from wms.configuration.plan import StoredConfiguration
from wms.configuration.reach import FileReach
from wms.configuration.schema import Configuration
from wms.configuration.sections import AnySection, Identity
from wms.kernel.yaml_text import dump

HEAD = "# Exported configuration. Secrets (passwords, tokens, credentials) are never exported.\n"
#: NB: nothing else may depend on the time or on who asks: the version of a file is made of it.
HEAD_OF_PART = (
    "# The configuration that you may change. Left out: secrets, and what computing elements run.\n"
    "# A row that is left out stays as it is; a file that has limits has all of them.\n"
)

#: Rows of a section as they are written, by identity.
_Rows = Mapping[Identity, dict[str, object]]


def export() -> str:
    """Return the whole configuration; applied to the same database it changes nothing."""
    return HEAD + dump(content_of(StoredConfiguration()))


def export_part(reach: FileReach, *, database: StoredConfiguration) -> str:
    """Return the part that a user changes; uploaded by the user it changes nothing."""
    return HEAD_OF_PART + dump(content_of(database, reach=reach))


def content_of(database: StoredConfiguration, *, reach: FileReach | None = None) -> Mapping[str, object]:
    """Return the content of the file.

    Args:
        database: the stored configuration.
        reach: of the user whose part it is; None: all.
    """
    sites, ces, queues = (_rows(each, reach) for each in (database.sites, database.ces, database.queues))
    _put_below(ces, queues, key="queues")
    _put_below(sites, ces, key="ces")
    platforms = {str(row["name"]): row["runs"] for row in _rows(database.platforms, reach).values()}
    limits = [entry for key, entry in database.limits.entries.items() if not reach or not reach.is_limit_of_others(key)]
    content: Mapping[str, object] = {
        "vos": _list(database.vos, reach),
        "groups": _list(database.groups, reach),
        "users": _list(database.users, reach),
        "requirement_definitions": _list(database.definitions, reach),
        "platforms": platforms,
        "storage_elements": _list(database.storage_elements, reach),
        "sites": [*sites.values()],
        "directors": _list(database.directors, reach),
        # Equal limits are exported once: together they have the effect of one, and a file may state it once only.
        "limits": as_written(tuple(dict.fromkeys(limits))),
    }
    # An empty list is left out of a part: most are not for managers.
    return {name: content[name] for name in keys_of(Configuration) if not reach or content[name] or name == "limits"}


def _rows(section: AnySection, reach: FileReach | None) -> dict[Identity, dict[str, object]]:
    written = {
        identity: as_written(entry) if reach is None else reach.written(section, identity)
        for identity, entry in section.entries.items()
    }
    return {identity: row for identity, row in written.items() if isinstance(row, dict)}


def _list(section: AnySection, reach: FileReach | None) -> Sequence[object]:
    return [*_rows(section, reach).values()]


def _put_below(rows: _Rows, below: _Rows, *, key: str) -> None:
    for identity, row in below.items():
        if identity[:-1] in rows:
            children = rows[identity[:-1]].setdefault(key, [])
            if isinstance(children, list):
                children.append(row)
