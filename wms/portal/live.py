"""Live pages: an unchanged page is answered with 304, before its view runs."""

from collections.abc import Callable, Sequence
from hashlib import sha256

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import condition

from wms.portal import notices

View = Callable[..., HttpResponseBase]


def live(revision: Callable[..., Sequence[object]]) -> Callable[[View], View]:
    """Give a page an ETag, by which open tabs ask every few seconds whether it has changed.

    Args:
        revision: function of the request and the arguments of the view; returns values that change whenever the page
            does, and are cheap to read. It may raise Http404. Those of the banner are added.
    """

    def etag_of(request: HttpRequest, *args: object, **kwargs: object) -> str:
        values = (
            request.user.pk,
            request.get_full_path(),
            *notices.revision(),
            *revision(request, *args, **kwargs),
        )
        etag = f'"{sha256(repr(values).encode()).hexdigest()[:32]}"'
        request.page_etag = etag  # type: ignore[attr-defined]  # base.html tells live.js
        return etag

    return condition(etag_func=etag_of)
