"""Credentials in a wrong place, or with a wrong scheme, at every address.

Rights of credentials in their right place are in the matrix (``tests/attacks/test_matrix.py``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.conf import settings as configured
from django.test import Client
from pytest_django import Settings

from tests.api.credentials.addresses import METHODS, Address, every_address
from tests.api.credentials.sample import CREDENTIALS, SampleData, make_sample
from tests.attacks import matrix
from tests.cases import quick_cases
from tests.tables import checksums
from wms.accounts.models import SecurityEvent

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

REFUSED: Final = frozenset({401, 403, 404})
#: Of files that are sent, the contract wants a form.
FORMS: Final = frozenset({"match-sandboxes", "sandboxes"})
#: Open to all too, but for a token that is none: that is told wherever tokens are looked at.
DOCUMENTATION: Final = frozenset({"schema", "docs"})
#: Of each kind that opens anything, the right one.
GOOD: Final = ("owner", "pilot", "job", "secret", "registering site", "manager", "advertising site")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A client that sends a credential in its right place or in a wrong one."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)

    def ask(self, method: str, address: Address, sample: SampleData) -> "Answer":
        client = Client(raise_request_exception=False, headers=dict(self.headers))
        client.cookies.load(dict(self.cookies))
        url, body = address.url(sample.arguments()), sample.body(address.name)
        form: dict[str, Any] = {} if address.name in FORMS else {"content_type": "application/json"}
        send = getattr(client, method.lower())
        wanted = method == "POST" or form
        answer: Answer = (
            send(url, self.query)
            if method in {"GET", "HEAD"}
            else send(url, body if wanted else None, **form, query_params=self.query)
        )
        return answer


@cache
def addresses() -> tuple[Address, ...]:
    return tuple(every_address())


@pytest.fixture
def sample(db: None, settings: Settings, tmp_path: Path) -> SampleData:
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": kept}
    return make_sample()


def opens(method: str, address: Address) -> bool:
    """Return whether the address answers callers without any credential."""
    return matrix.opens(matrix.NOBODY_KNOWN, f"{method} {address.name}")


def answered() -> Iterator[tuple[str, Address]]:
    """Yield each method and address below /api/ that a view implements and that needs a credential."""
    for address in addresses():
        for method in address.methods if address.is_api else ():
            if method in address.answers and address.name not in DOCUMENTATION and not opens(method, address):
                yield method, address


@pytest.mark.parametrize("kind", quick_cases(GOOD, quick=2))
@pytest.mark.parametrize("place", ["query", "cookies"])
def test_credentials_outside_the_header_are_refused(sample: SampleData, kind: str, place: str) -> None:
    token = CREDENTIALS[kind](sample)
    given = dict.fromkeys(
        ("token", "access_token", "authorization", "Authorization", configured.SESSION_COOKIE_NAME), token
    )
    caller = Caller(query=given if place == "query" else {}, cookies=given if place == "cookies" else {})
    before = checksums(without={SecurityEvent._meta.db_table})
    for method, address in answered():
        assert caller.ask(method, address, sample).status_code in REFUSED, (method, address.name)
    assert checksums(without={SecurityEvent._meta.db_table}) == before


@pytest.mark.parametrize("scheme", quick_cases(["Basic", "", "Token", "JWT"], quick=1))
@pytest.mark.parametrize("kind", ["owner", "pilot", "job", "secret", "registering site"])
def test_credentials_of_another_scheme_are_refused(sample: SampleData, kind: str, scheme: str) -> None:
    caller = Caller(headers={"Authorization": f"{scheme} {CREDENTIALS[kind](sample)}".strip()})
    for address in addresses():
        is_open = address.name in DOCUMENTATION or any(opens(method, address) for method in METHODS)
        if address.is_api and not is_open:
            assert caller.ask("POST", address, sample).status_code == 401, address.name
