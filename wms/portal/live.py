"""Live pages: an unchanged page is answered with 304, before its view runs."""

import re
from collections.abc import Callable, Sequence
from functools import wraps
from hashlib import sha256
from http import HTTPStatus
from typing import Final, NamedTuple

from django.http import HttpRequest, HttpResponseNotModified
from django.http.response import HttpResponseBase

from wms.portal import notices, revisions
from wms.portal.pages import signed_in
from wms.portal.revisions import Followed, StreamPlace

View = Callable[..., HttpResponseBase]
#: Digest of the values, and place in the stream of changes.
_ETAG: Final = re.compile(r'"([0-9a-f]{32})-([0-9]{1,18})((?:\.[0-9]{1,18}){0,50})"')
#: Running transactions in an ETag; those of more count as after it.
_MOST_RUNNING: Final = 50


class _Tag(NamedTuple):
    digest: str
    place: StreamPlace

    def __str__(self) -> str:
        end, running = self.place
        if len(running) > _MOST_RUNNING:
            end, running = min(running), frozenset()
        return f'"{self.digest}-{".".join(map(str, [end, *sorted(running)]))}"'


def live(revision: Callable[..., Sequence[object]]) -> Callable[[View], View]:
    """Give a page an ETag, by which open tabs ask every few seconds whether it has changed.

    The ETag of an answer to POST would make an open tab fetch another page than the one it shows, so it has none.

    Args:
        revision: function of the request and the arguments of the view; returns values that change whenever the page
            does, and are cheap to read, and what it follows (``revisions.Followed``). It may raise Http404. Those of
            the banner are added.
    """

    def decorated(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            if request.method not in {"GET", "HEAD"}:
                return view(request, *args, **kwargs)
            tag, is_unchanged = _tag_of(request, revision(request, *args, **kwargs))
            if is_unchanged:
                return HttpResponseNotModified(headers={"ETag": str(tag)})
            vars(request)["page_etag"] = str(tag)  # base.html gives it to live.js
            response = view(request, *args, **kwargs)
            if response.status_code == HTTPStatus.OK:
                response.headers.setdefault("ETag", str(tag))
            return response

        return answer

    return decorated


def _tag_of(request: HttpRequest, revision: Sequence[object]) -> tuple[_Tag, bool]:
    """Return the ETag of the page as it is now, and whether the client has this page."""
    user = signed_in(request)
    followed = [each for each in revision if isinstance(each, Followed)]
    keys = [key for each in followed for key in each.keys]
    scope = revisions.scope_of(user)
    values = (
        user.pk,
        request.get_full_path(),
        *scope.values,
        *keys,
        *notices.revision(user, scope=scope),
        *(each for each in revision if not isinstance(each, Followed)),
    )
    digest = sha256(repr(values).encode()).hexdigest()[:32]
    reading = revisions.reading()
    place = min([reading.place, *(each.until for each in followed if each.until is not None)], key=_order)
    for known in _known_to_client(request):
        if known.digest == digest and not reading.has_changed(keys, since=known.place):
            # A later place, so that any process knows the changes since. Never an earlier one: another process may have
            # read more.
            return _Tag(digest, max(known.place, place, key=_order)), True
    return _Tag(digest, place), False


def _order(place: StreamPlace) -> tuple[int, int]:
    return place.end, -len(place.running)


def _known_to_client(request: HttpRequest) -> list[_Tag]:
    found = _ETAG.findall(request.headers.get("If-None-Match", ""))
    return [
        _Tag(digest, StreamPlace(int(end), frozenset(int(number) for number in running.split(".") if number)))
        for digest, end, running in found
    ]
