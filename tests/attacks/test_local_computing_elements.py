"""Payloads of a CE on the server's own machine: refused in production under the server's account."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from pilots.models import CEHealth
from pilots.services.ce_cycle import serve
from resources.models import ComputingElement
from tests.admin.conftest import add, changelist, client_of, errors_of
from tests.factories import make_ce, make_queue, make_site, make_user
from wms.configuration.configure import configure
from wms.configuration.problems import ConfigurationError

pytestmark = pytest.mark.django_db

SENTENCE = "their payloads could read its key and its database"
#: Of no account with a name.
NOBODY_IN_PARTICULAR = 1_234_567
FORM = {"name": "ce01", "identity": "none", "options": "{}", "parameters": "{}", "vo_parameters": "{}"}
SUDO = {"identity": "sudo", "options": {"payload_users": ["wms01"]}}


@pytest.fixture
def operator() -> Client:
    return client_of(make_user(username="olivia", staff=True, operator=True))


@pytest.fixture
def production(settings: Settings) -> None:
    settings.WMS_EMBEDDED = False


@contextmanager
def an_ordinary_server() -> Iterator[None]:
    """Run under an account that is not root, as a server in production does.

    That account may be unable to read the Python of the tests; so the same work is done once before, for an allowed CE,
    so that all modules are loaded.
    """
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY_IN_PARTICULAR)
    try:
        yield
    finally:
        os.seteuid(before)


def applied(ce: str, *, dry_run: bool = False) -> None:
    file = f"sites: [{{name: A, ces: [{{name: ce01, {ce}}}]}}]".encode()
    configure(file, environ={}, now=timezone.now(), dry_run=dry_run)


def test_computing_elements_have_no_default_type(operator: Client) -> None:
    site = make_site()
    page = operator.get(add(ComputingElement))
    assert not page.context["adminform"].form["type"].value()
    assert "type" in errors_of(operator.post(add(ComputingElement), {**FORM, "site": site.pk}))
    with pytest.raises(ValidationError, match="type"):
        ComputingElement(site=site, name="ce01").full_clean()
    with pytest.raises(ConfigurationError, match="type is missing; give one of: local, slurm, ssh, ht"):
        applied("queues: [{name: q, cpu_time_s: 1}]")
    assert not ComputingElement.objects.exists()


@pytest.mark.parametrize("ce", [{"type": "local"}, {"type": "ssh", "options": '{"host": "localhost"}'}])
def test_in_production_the_admin_refuses_a_ce_under_the_server_account(
    ce: dict[str, str], operator: Client, production: None
) -> None:
    form = {**FORM, **ce, "site": make_site().pk}
    operator.post(add(ComputingElement), {**form, "type": ""})
    with an_ordinary_server():
        (sentence,) = errors_of(operator.post(add(ComputingElement), form))["type"]
    assert SENTENCE in sentence
    assert not ComputingElement.objects.exists()


@pytest.mark.parametrize(
    "ce",
    [
        "type: local",
        "type: local, identity: environment",
        "type: local, options: {payload_users: [wms01]}",
        "type: ssh, options: {host: localhost}",
        "type: ssh, options: {host: '::1'}",
        "type: ssh, options: {host: '[::ffff:127.0.0.1]'}",
        "type: ssh, options: {host: '127.1'}",
        f"type: ssh, options: {{host: '{os.uname().nodename}'}}",
    ],
)
def test_in_production_a_file_with_a_ce_under_the_server_account_is_refused(ce: str, production: None) -> None:
    applied("type: slurm", dry_run=True)
    with an_ordinary_server(), pytest.raises(ConfigurationError, match=SENTENCE):
        applied(ce)
    assert not ComputingElement.objects.exists()


def test_in_production_a_ce_with_other_payload_accounts_is_accepted(production: None) -> None:
    applied("type: slurm", dry_run=True)
    with an_ordinary_server():
        applied("type: local, identity: sudo, options: {payload_users: [wms01]}")
    assert ComputingElement.objects.get().type == "local"


@pytest.mark.django_db(transaction=True)
def test_in_production_a_stored_ce_under_the_server_account_is_not_served(production: None, operator: Client) -> None:
    """As after an upgrade: the row was made when `local` was the type of whatever named none."""
    ce = make_ce(type="local", site=make_site(name="LCG.CERN.ch"))
    make_queue(ce=ce)
    serve(make_ce(type="slurm", options={"nonsense": 1}).pk)
    with an_ordinary_server():
        serve(ce.pk)
    assert SENTENCE in CEHealth.objects.get(ce=ce).trouble
    assert SENTENCE in operator.get(changelist(CEHealth)).content.decode()


@pytest.mark.root
@pytest.mark.django_db(transaction=True)
def test_in_production_a_root_server_serves_a_local_ce(production: None) -> None:
    applied("type: local, queues: [{name: q, cpu_time_s: 1}]")
    ce = ComputingElement.objects.get()
    serve(ce.pk)
    assert CEHealth.objects.get(ce=ce).trouble == ""
