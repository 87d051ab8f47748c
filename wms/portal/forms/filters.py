"""The filters of the list of jobs, as a query string of the portal writes them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from django.http import QueryDict

from wms.accounts.models import User
from wms.jobs.filters import JobFilterSet
from wms.jobs.queries.filtering import Rows
from wms.portal.search import EVERYBODY, KEYS, Search, parse, text_of

#: {name in a query string beside ``q``: parameter of the filters}. The menus beside the search box send some of them,
#: and links that were made before there was a search box.
_PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {**{name: name for name in KEYS.values()}, "since": "submitted_after", "whose": "owner"}
)
#: What the menus set: without a value, they leave it out of the query.
OF_MENUS: Final = ("status", "site", "submitted_after", "group", "owner")
#: Value of ``whose`` in older links.
_ALL: Final = "all"


class JobPageFilterSet(JobFilterSet):
    """Filters of jobs of which an invalid value is ignored; without an owner only the reader's own jobs match."""

    def __init__(self, values: Mapping[str, str], *, by: User) -> None:
        named = {name: value for name, value in values.items() if (name, value) != ("owner", EVERYBODY)}
        super().__init__(named)
        owner_is_invalid = "owner" in named and "owner" in self.form.errors
        self._by = by if owner_is_invalid or "owner" not in values else None

    def always_narrowed(self) -> Collection[str]:
        """Return the owner, unless one is named."""
        return () if self._by is None else ("owner",)

    def filter_queryset(self, queryset: Rows, *, but: Collection[str] = ()) -> Rows:
        """Return the matching rows."""
        if self._by is not None and "owner" not in but:
            queryset = queryset.filter(owner=self._by)
        return super().filter_queryset(queryset, but=but)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The query of a page about jobs."""

    search: Search
    filters: JobPageFilterSet
    #: One sentence for each part of the query that was left out.
    errors: tuple[str, ...]
    by: User
    #: Text of the search box: as its author wrote it, as long as there is something to be corrected in it.
    box: str

    @property
    def text(self) -> str:
        """The query as written in the search box."""
        return text_of(self.search.words)

    @property
    def pinned(self) -> str:
        """The query with times instead of durations, so that it means the same later."""
        return text_of(self.search.filters)

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses of the query; none: all but Deleted."""
        return tuple(filter(None, self.search.filters.get("status", "").split(",")))

    def with_filters(self, **changed: str) -> JobPageFilterSet:
        """Return the filters with some values changed; an empty one is left out."""
        values = {name: value for name, value in {**self.search.filters, **changed}.items() if value}
        return JobPageFilterSet(values, by=self.by)

    def words_with(self, **changed: str) -> str:
        """Return the query as written, with some values changed."""
        return text_of({**self.search.words, **changed})


def asked_in(query: QueryDict, *, by: User, now: datetime) -> Asked:
    """Return the query of a page about jobs.

    Args:
        query: the query string: ``q``, and filters by name, which replace those of ``q``.
        by: the reader.
        now: the time from which durations are counted back.
    """
    search, errors = _search_in(query, now=now)
    filters = JobPageFilterSet(search.filters, by=by)
    labels = {name: filters.form.fields[name].label or name for name in filters.form.errors}
    invalid = [f"{labels[name]}: {sentence}" for name, found in filters.form.errors.items() for sentence in found]
    errors = (*errors, *invalid)
    box = query.get("q", "") if errors and "q" in query else text_of(search.words)
    return Asked(search=search, filters=filters, errors=errors, by=by, box=box)


def names_owner(query: QueryDict, *, now: datetime) -> bool:
    """Return whether the query of a page about jobs names an owner, or everybody: without one, jobs are one's own."""
    return "owner" in _search_in(query, now=now)[0].filters


def _search_in(query: QueryDict, *, now: datetime) -> tuple[Search, tuple[str, ...]]:
    """Return the meaning of a query, and the errors of the words in it."""
    search = parse(query.get("q", ""), now=now)
    named = _named_in(query)
    if not named:
        return search, search.errors
    others = parse(text_of(named), now=now)
    kept = {name: word for name, word in search.words.items() if name not in named}
    return parse(text_of({**kept, **others.words}), now=now), (*search.errors, *others.errors)


def _named_in(query: QueryDict) -> dict[str, str]:
    """Return {parameter: value} of the filters by name; an empty value: not filtered by it."""
    named = {parameter: query.get(name, "") for name, parameter in _PARAMETERS.items() if name in query}
    if "status" in named:
        named["status"] = ",".join(query.getlist("status"))
    if named.get("owner") == _ALL:
        named["owner"] = EVERYBODY
    return {**dict.fromkeys(OF_MENUS, ""), **named} if query.get("menu") == "filters" else named
