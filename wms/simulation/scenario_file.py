"""Reads a scenario file and the configuration file that it names; reports all errors, not only the first."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from wms.configuration.document import MAX_BYTES
from wms.configuration.entries import EntryT, read
from wms.configuration.problems import ConfigurationError, Remark
from wms.configuration.reading import Reading
from wms.configuration.resource_schema import PlatformEntry, SiteEntry
from wms.configuration.schema import Configuration, GroupEntry, UserEntry, VOEntry
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean
from wms.simulation.schema import LoadEntry, ScenarioFile

#: Nouns whose names a simulation needs; it ignores others, such as managers and storage.
_NEEDED = frozenset({"vo", "group", "site", "ce"})


class ScenarioError(RejectedError):
    """A file of the scenario cannot be read or is not accepted."""

    code = "scenario"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """The entries of a file, or of two merged files, without duplicates."""

    vos: tuple[VOEntry, ...] = ()
    groups: tuple[GroupEntry, ...] = ()
    users: tuple[UserEntry, ...] = ()
    platforms: tuple[PlatformEntry, ...] = ()
    sites: tuple[SiteEntry, ...] = ()


def read_scenario(path: Path, *, environ: Mapping[str, str]) -> tuple[Entries, tuple[LoadEntry, ...]]:
    """Return the entries of the scenario file, merged with the configuration file that it names, and its load.

    Args:
        path: of the scenario; relative paths in it start at its directory.
        environ: values of ``${NAME}``; unset ones stay unchanged, as a simulation needs no secrets, and names and
            numbers do not accept them.

    Raises:
        ScenarioError: all errors of the first file with any.
    """
    reading = Reading(_Variables(environ))
    file = _read(path, ScenarioFile, reading)
    configured = Entries()
    names: Mapping[str, set[str]] = {}
    if file.configuration is not None:
        configuration = path.parent / file.configuration
        of_configuration = Reading(_Variables(environ))
        configured = _joined(configured, _read(configuration, Configuration, of_configuration), of_configuration)
        names = of_configuration.names
        _check(configuration, of_configuration, names={})
    entries = _joined(configured, file, reading)
    reading.problems += _wrong_owners(file.load, entries.users)
    _check(path, reading, names=names)
    return entries, file.load


class _Variables(dict[str, str]):
    """The environment; unset variables stand for themselves."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return f"${{{name}}}"


def _read(path: Path, record: type[EntryT], reading: Reading) -> EntryT:
    try:
        with path.open("rb") as stream:
            source = stream.read(MAX_BYTES + 1)
        return read(source, record, reading)
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}.") from error
    except ConfigurationError as error:
        raise _refused(path, error.problems) from error


def _refused(path: Path, problems: Iterable[Remark]) -> ScenarioError:
    sentences = [str(problem) for problem in sorted(set(problems))]
    count = f"{len(sentences)} {'problems' if len(sentences) > 1 else 'problem'}"
    return ScenarioError("\n".join([f"{path} is not accepted. {count}:", *sentences]))


# ---- Merging ---------------------------------------------------------------------------------------------------------


def _joined(earlier: Entries, file: Configuration | ScenarioFile, reading: Reading) -> Entries:
    """Return the earlier entries merged with those of *file*; contradictions are added to the reading's problems."""

    def join(before: Iterable[EntryT], after: Iterable[EntryT]) -> tuple[EntryT, ...]:
        return _join(before, after, note=reading.problems.append)

    return Entries(
        vos=join(earlier.vos, file.vos),
        groups=join(earlier.groups, file.groups),
        users=join(earlier.users, file.users),
        platforms=join(earlier.platforms, file.platforms),
        sites=join(earlier.sites, file.sites),
    )


def _join(before: Iterable[EntryT], after: Iterable[EntryT], *, note: Callable[[Remark], None]) -> tuple[EntryT, ...]:
    by_name = {entry.name_of(): entry for entry in before}
    for entry in after:
        joined = _over(by_name.get(entry.name_of()), entry, note=note).settled()
        if not entry.source.broken:
            for key, sentence in joined.mistakes():
                note(joined.remark(key, sentence))
        by_name[entry.name_of()] = joined
    return tuple(by_name.values())


def _over(before: EntryT | None, entry: EntryT, *, note: Callable[[Remark], None]) -> EntryT:
    """Return *before* with the keys that *entry* states; other keys keep their values."""
    stated = {name: getattr(entry, name) for name in entry.source.lines}
    if entry.children:
        children = () if before is None else getattr(before, entry.children)
        stated[entry.children] = _join(children, getattr(entry, entry.children), note=note)
    return replace(entry if before is None else before, source=entry.source, **stated)


# ---- References ------------------------------------------------------------------------------------------------------


def _check(path: Path, reading: Reading, *, names: Mapping[str, set[str]]) -> None:
    for use in reading.uses:
        known = reading.names.get(use.of, set()) | names.get(use.of, set())
        if use.of in _NEEDED and use.name not in known:
            sentence = f'there is no {use.of} "{use.name}".{did_you_mean(use.name, sorted(known))}'
            reading.problems.append(Remark(use.line, use.path, sentence))
    if reading.problems:
        raise _refused(path, reading.problems)


def _wrong_owners(load: Iterable[LoadEntry], users: Iterable[UserEntry]) -> Iterator[Remark]:
    """Yield errors of the users of the load; without configured users, everybody is in every group."""
    groups_of = {user.username: user.groups for user in users}
    for entry in load if groups_of else ():
        if entry.user not in groups_of:
            hint = did_you_mean(entry.user, sorted(groups_of))
            yield entry.remark("user", f'there is no user "{entry.user}".{hint}')
        elif entry.group not in groups_of[entry.user]:
            groups = ", ".join(groups_of[entry.user]) or "none"
            yield entry.remark("group", f"{entry.user} is not in {entry.group}; in: {groups}")
