"""Content negotiation of views that answer with a file."""

from collections.abc import Iterable

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class AnyClientNegotiation(DefaultContentNegotiation):
    """For views that answer with a file in one format; errors are JSON, also for clients that accept only the file."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer that the client accepts, or the first if it accepts none."""
        try:
            chosen: tuple[BaseRenderer, str] = super().select_renderer(request, renderers, format_suffix)
        except NotAcceptable:
            first = next(iter(renderers))
            return first, str(first.media_type)
        return chosen
