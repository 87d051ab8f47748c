"""The security log: changes in their transaction, refusals outside of it, floods counted, and no secrets."""

import logging
from typing import Any

import pytest
from django.db import transaction
from django.test import RequestFactory

from tests.factories import make_user
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import SecurityEvent
from wms.accounts.security_log import MAX_REFUSALS_IN_WINDOW, record
from wms.kernel.callers import current_command
from wms.kernel.log_lines import MASK

pytestmark = pytest.mark.django_db


def test_events_have_actor_address_and_action_in_table_and_log(
    caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: Any
) -> None:
    alice = make_user(username="alice")
    request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.7")
    request.user = alice
    with caplog.at_level(logging.INFO), django_capture_on_commit_callbacks(execute=True):
        record(SecurityEventKind.RIGHTS_CHANGED, request=request, target="user bob", operator=True)
    (event,) = SecurityEvent.objects.all()
    assert (event.kind, event.actor, event.actor_name, event.address, event.target, event.facts, event.times) == (
        "rights.changed",
        alice,
        "alice",
        "192.0.2.7",
        "user bob",
        {"operator": True},
        1,
    )
    (line,) = [each for each in caplog.records if each.name == "wms.accounts.security_log"]
    assert line.getMessage() == "security.rights.changed"
    assert (line.who, line.address, line.target, line.facts) == (  # type: ignore[attr-defined]
        "alice",
        "192.0.2.7",
        "user bob",
        {"operator": True},
    )


def test_the_record_stays_when_the_user_is_deleted() -> None:
    alice = make_user(username="alice")
    record(SecurityEventKind.LOG_OUT, actor=alice, address="::1")
    alice.delete()
    (event,) = SecurityEvent.objects.all()
    assert (event.actor, event.actor_name) == (None, "alice")


def test_a_command_is_no_user() -> None:
    before = current_command.set("token")
    record(SecurityEventKind.TOKEN_ISSUED, target="user bob")
    current_command.reset(before)
    (event,) = SecurityEvent.objects.all()
    assert (event.actor, event.actor_name, event.address) == (None, "manage.py token", "")


def test_secrets_are_masked_in_facts_and_targets() -> None:
    token = "wmsu_uK8z1l0n_g2Qx9VtX5Rr3Yp7Wm4Jc6Hb8Df0Ks2"
    record(SecurityEventKind.TOKEN_REVOKED, target=f"token {token}", password="hunter2", named=token, token_id=7)
    (event,) = SecurityEvent.objects.all()
    assert (event.target, event.facts) == (f"token {MASK}", {"password": MASK, "named": MASK, "token_id": 7})


def test_a_change_that_is_rolled_back_is_not_in_the_log() -> None:
    with transaction.atomic():
        record(SecurityEventKind.USER_SUSPENDED, target="user bob")
        transaction.set_rollback(True)
    assert not SecurityEvent.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_refusal_cannot_be_recorded_where_it_would_be_rolled_back() -> None:
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        record(SecurityEventKind.ACCESS_REFUSED, target="user bob")


def test_the_same_refusal_is_one_row_that_counts_it() -> None:
    for _ in range(1000):
        record(SecurityEventKind.CREDENTIAL_REFUSED, address="192.0.2.7", target="GET /api/v1/jobs/")
    (event,) = SecurityEvent.objects.all()
    assert event.times == 512  # at least, and less than twice as often


def test_a_network_of_one_client_is_one_address() -> None:
    for number in range(8):
        record(SecurityEventKind.CREDENTIAL_REFUSED, address=f"2001:db8::{number}")
    (event,) = SecurityEvent.objects.all()
    assert event.times == 8


def test_a_flood_of_different_refusals_does_not_fill_the_table() -> None:
    for number in range(1000):
        record(SecurityEventKind.CREDENTIAL_REFUSED, address=f"192.0.{number // 250}.{number % 250}")
    assert SecurityEvent.objects.count() == MAX_REFUSALS_IN_WINDOW + 1
    assert SecurityEvent.objects.get(facts={"many": True}).times == 512
