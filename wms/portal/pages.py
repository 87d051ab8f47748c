"""Common parts of all pages: the header with the user, and long lists by page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.forms import BaseForm
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from wms.accounts import queries
from wms.accounts.models import User
from wms.kernel.clock import current_time
from wms.kernel.errors import WmsError
from wms.portal import revisions
from wms.portal.notices import Notice, notices_of

M = TypeVar("M", bound=Model)
M_co = TypeVar("M_co", bound=Model, covariant=True)

ROWS_PER_PAGE = 50
#: Query parameters of the pagination; the others are filters.
PAGE_PARAMETERS = ("before", "after")
#: PostgreSQL's largest id; a larger one in an address does not exist.
LARGEST_ID = 2**63 - 1


def is_id(text: str) -> bool:
    """Return whether a text of a form is an id that PostgreSQL can have."""
    return text.isascii() and text.isdecimal() and len(text) < 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One entry of the navigation."""

    url_name: str
    label: str
    icon: str


#: Entries of the navigation for every user, in their order.
NAVIGATION: Final[Sequence[Link]] = (
    Link(url_name="portal:home", label="Home", icon="house"),
    Link(url_name="portal:jobs", label="Jobs", icon="list"),
    Link(url_name="portal:submissions", label="Submissions", icon="layers"),
    Link(url_name="portal:submit", label="Submit", icon="send"),
    Link(url_name="portal:task-queues", label="Task queues", icon="layers"),
    Link(url_name="portal:sites", label="Sites", icon="server"),
    Link(url_name="portal:shares", label="Shares", icon="scale"),
    Link(url_name="portal:plots", label="Plots", icon="chart-line"),
    Link(url_name="portal:accounting", label="Accounting", icon="columns-3"),
)
#: Of those, the entries for administrators of sites who are in no group.
OF_SITES: Final = tuple(link for link in NAVIGATION if link.url_name in {"portal:home", "portal:sites"})
#: Entries for managers and operators.
OF_MANAGERS: Final[Sequence[Link]] = (
    Link(url_name="portal:pilots", label="Pilots", icon="cpu"),
    Link(url_name="portal:people", label="People", icon="users"),
    Link(url_name="portal:changes", label="Changes", icon="clock"),
    Link(url_name="portal:configuration", label="Configuration", icon="file-text"),
)
#: Entry for operators.
OPERATIONS: Final = Link(url_name="portal:operations", label="Operations", icon="gauge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a page, about its user."""

    username: str
    links: Sequence[Link]
    #: The group in which the user acts, as a phrase.
    acts_in: str
    #: Of a VO, or an operator.
    is_manager: bool
    #: Of a site, or more.
    is_site_administrator: bool
    may_administer: bool
    has_password: bool
    is_invited: bool
    #: What is wrong with the system, as far as it concerns the user.
    notices: Sequence[Notice]


def signed_in(request: HttpRequest) -> User:
    """Return the user of the session, in a view with login_required.

    Raises:
        PermissionDenied: nobody is logged in, which only a view without login_required allows.
    """
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user


def manager_of(request: HttpRequest) -> User:
    """Return the user of the session; answer others than managers and operators as if there were no page.

    Raises:
        Http404: the user is neither.
    """
    user = signed_in(request)
    if not queries.is_manager(user):
        raise Http404
    return user


@contextmanager
def refusals_as_404() -> Iterator[None]:
    """Answer a refusal by the service that is called within as an address that does not exist: 404.

    Raises:
        Http404: the service within has refused.
    """
    try:
        yield
    except WmsError as error:
        raise Http404(error.detail) from error


def show(
    request: HttpRequest, template: str, context: Mapping[str, object], *, status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    """Return the page of *template* with *context* and the user's header."""
    return render(request, template, {"header": header_of(signed_in(request)), **context}, status=status)


def form_context(form: BaseForm, chosen: QueryDict) -> dict[str, object]:
    """Return the form above a report and what is chosen in it, as the heads of pages show them."""
    query = query_of(form, chosen)
    return {"form": form, "query": query, "is_narrowed": bool(query)}


def query_of(form: BaseForm, chosen: QueryDict) -> str:
    """Return the query string of what is chosen in a form; empty: nothing."""
    return urlencode({name: value for name in form.fields if (value := chosen.get(name))})


def header_of(user: User) -> Header:
    """Return the header of *user*'s pages."""
    groups = queries.groups_of(user)
    default = queries.default_group_of(user, groups=groups)
    is_manager, administered = queries.is_manager(user), revisions.administered_sites(user)
    if default is not None:
        acts_in = f"acting in {default.name}"
    elif administered and not groups:
        acts_in = "administers a site" if len(administered) == 1 else f"administers {len(administered)} sites"
    else:
        acts_in = f"member of {len(groups)} groups" if groups else "in no group"
    is_invited = queries.open_invitations(user, now=current_time()).exists()
    return Header(
        username=user.get_username(),
        links=[
            # Without a group or VO there are no jobs, queues, shares and plots to see.
            *(OF_SITES if administered and not (groups or is_manager) else NAVIGATION),
            # Owners of private pilots find them at the jobs that they ran.
            *(OF_MANAGERS if is_manager else OF_MANAGERS[:1] if administered else []),
            *([OPERATIONS] if user.is_operator else []),
        ],
        acts_in=acts_in,
        may_administer=user.is_active and user.is_staff,
        is_manager=is_manager,
        is_site_administrator=bool(administered),
        has_password=user.has_usable_password(),
        is_invited=is_invited,
        notices=notices_of(user, groups=groups, is_invited=is_invited, is_manager=is_manager or bool(administered)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[M]):
    """Some rows of a list, newest first, and the query strings of the adjacent pages; empty: none."""

    rows: Sequence[M]
    newer: str
    older: str


class Reader(Protocol[M_co]):
    """Reads part of a list in the order of the ids."""

    def __call__(
        self, *, at_most: int, newest_first: bool, before: int | None = None, after: int | None = None
    ) -> Sequence[M_co]:
        """Return the first rows with ids between *after* and *before*."""


def rows_of(listed: QuerySet[M]) -> Reader[M]:
    """Return what reads the rows of a queryset."""

    def read(*, at_most: int, newest_first: bool, before: int | None = None, after: int | None = None) -> list[M]:
        rows = listed if before is None else listed.filter(pk__lt=before)
        rows = rows if after is None else rows.filter(pk__gt=after)
        return list(rows.order_by("-pk" if newest_first else "pk")[:at_most])

    return read


def _id_of(row: Model) -> int:
    return int(row.pk)


def page_of(
    read: Reader[M], query: QueryDict, *, newest_first: bool = True, key: Callable[[M], int] = _id_of
) -> Page[M]:
    """Return the page that *query* selects: rows older than ``before``, or newer than ``after``, or the first.

    A page is defined by the ids at its edges, so that it stays the same while rows are added or removed.

    Args:
        read: reads rows.
        query: the query string.
        newest_first: the order of the rows.
        key: the id of a row, by which the list is in order.
    """
    before, after = _id_in(query, "before"), _id_in(query, "after")
    onwards, backwards = (before, after) if newest_first else (after, before)
    forwards = onwards is not None or backwards is None
    edge = {"before": before} if newest_first == forwards else {"after": after}
    rows = list(read(at_most=ROWS_PER_PAGE + 1, newest_first=newest_first == forwards, **edge))
    more, rows = len(rows) > ROWS_PER_PAGE, rows[:ROWS_PER_PAGE]
    if not forwards:
        rows.reverse()
    has_previous = onwards is not None if forwards else more
    has_next = more if forwards else True
    has_newer, has_older = (has_previous, has_next) if newest_first else (has_next, has_previous)
    keys = sorted(map(key, rows))
    return Page(
        rows=rows,
        newer=_with(query, "after", keys[-1]) if keys and has_newer else "",
        older=_with(query, "before", keys[0]) if keys and has_older else "",
    )


def filters_in(query: QueryDict) -> dict[str, str]:
    """Return the filters of *query*: all but the pagination, one value for each name, without empty ones."""
    return {name: value for name in query if name not in PAGE_PARAMETERS and (value := query.get(name, ""))}


def _id_in(query: QueryDict, name: str) -> int | None:
    text = query.get(name, "")
    return min(int(text), LARGEST_ID) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _with(query: QueryDict, name: str, key: int) -> str:
    return urlencode({**filters_in(query), name: key})
