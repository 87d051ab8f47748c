"""Every address of the system, found by a walk through its URL configuration."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.urls import URLPattern, URLResolver, get_resolver

#: What stands for an argument: ``<int:pk>`` of a path, ``(?P<url>.*)`` of a regular expression.
_ARGUMENT: Final = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)")
#: What a regular expression says beside its text.
_MARKS: Final = re.compile(r"[\^$]|\\Z")
API: Final = "/api/"
#: Namespace of the addresses of old agents (ADR 52): the same rules hold as for those with a version.
OLD: Final = "old-agents:"
METHODS: Final = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
#: Whatever else a page of people answers, a caller by token does not come so far.
METHODS_OF_PAGES: Final = ("GET", "POST")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One row of the URL configuration."""

    #: With its namespace, except that of old agents; of one without a name, what it looks like.
    name: str
    #: With its arguments as the configuration writes them.
    route: str
    #: That its view has code for; of a function, those that forms use.
    answers: frozenset[str]
    #: The class of its view, or the function.
    view: Any

    @property
    def is_api(self) -> bool:
        """True below /api/, where tokens are checked."""
        return self.route.startswith(API)

    @property
    def methods(self) -> tuple[str, ...]:
        """The HTTP methods that tests send to the address."""
        return METHODS if self.is_api else METHODS_OF_PAGES

    def url(self, arguments: Mapping[str, object]) -> str:
        """Return the address with its arguments, looked up by name, or by name of the address and name.

        Raises:
            KeyError: a new argument without a value.
        """

        def value(found: re.Match[str]) -> str:
            argument = found[1] or found[2]
            return str(arguments.get(f"{self.name} {argument}", None) or arguments[argument])

        return _ARGUMENT.sub(value, self.route)


def every_address() -> Iterator[Address]:
    """Yield every address."""
    yield from _below(get_resolver(), route="/", namespace="")


def _below(resolver: URLResolver, *, route: str, namespace: str) -> Iterator[Address]:
    for pattern in resolver.url_patterns:
        here = route + _MARKS.sub("", str(pattern.pattern))
        if isinstance(pattern, URLPattern):
            view = _view(pattern)
            yield Address(name=namespace + (pattern.name or here), route=here, answers=_answers(view), view=view)
        else:
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            inner = inner.removeprefix(OLD)
            yield from _below(pattern, route=here, namespace=inner)


def _view(pattern: URLPattern) -> Any:
    callback = pattern.callback
    return getattr(callback, "view_class", None) or getattr(callback, "cls", None) or callback


def _answers(view: Any) -> frozenset[str]:
    if not isinstance(view, type):
        return frozenset(METHODS_OF_PAGES)
    has = {method for method in METHODS if method != "OPTIONS" and hasattr(view, method.lower())}
    return frozenset(has | ({"HEAD"} if "GET" in has else set()))
