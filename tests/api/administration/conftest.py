"""Two VOs with one row of each kind, and clients with tokens of those who answer for them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from django.db.models import Model
from rest_framework.test import APIClient

from tests.admin.conftest import RowsOfVO, make_rows_of_vo
from tests.factories import make_token, make_user
from tests.memos import without_brief_memos
from wms.accounts import queries
from wms.accounts.domain import TokenScope
from wms.accounts.models import SecurityEvent, User

__all__ = ["without_brief_memos"]

Ask = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Administration:
    """The rows of two VOs, and who manages them."""

    own: RowsOfVO
    other: RowsOfVO

    @cached_property
    def mallory(self) -> User:
        return make_user(username="mallory", manages=[self.own.vo])

    @cached_property
    def manager(self) -> APIClient:
        """The client of the manager of ``own``."""
        return client_of(self.mallory)

    @cached_property
    def operator(self) -> APIClient:
        return client_of(make_user(username="olga", operator=True))


def client_of(user: User, *, scope: TokenScope = TokenScope.ADMINISTER) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(user, scope=scope)}")
    client.default_format = "json"
    return client


@pytest.fixture
def administration(db: None) -> Administration:
    return Administration(own=make_rows_of_vo("lhcb"), other=make_rows_of_vo("atlas"))


def changes_of(kind: str = "configuration.changed") -> list[tuple[str, str, Any]]:
    """Return (who, target, changes) of the events in the security log, the oldest first."""
    events = SecurityEvent.objects.filter(kind=kind).order_by("pk")
    return [(each.actor_name, each.target, each.facts.get("changes", each.facts)) for each in events]


def history_of(row: Model) -> list[str]:
    """Return the lines of the row's history, those of the oldest change first."""
    return [line for entry in reversed(queries.history_of(row, user=User(operator=True))) for line in entry.changes]
