"""The table of the matrix is complete; each failure is a sentence that says what to add."""

from collections.abc import Iterator, Sequence
from types import ModuleType

from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import path
from pytest_django import Settings
from rest_framework.settings import api_settings

from tests.api.credentials.addresses import Address, every_address
from tests.attacks import matrix
from tests.attacks.matrix_callers import KNOWN_BY, LIKE, MACHINE_CREDENTIALS, NAMES, PEOPLE, WHOLE
from tests.attacks.matrix_requests import actions_of, is_redirect
from wms import urls
from wms.accounts.domain import TokenScope
from wms.accounts.models import User

FILE = "tests/attacks/matrix.py"
CALLERS = "tests/attacks/matrix_callers.py"


def missing() -> Iterator[str]:
    """Yield a sentence for each address, method and action that is not in the table."""
    for address in every_address():
        if address.is_api:
            for method in sorted(address.answers - {"HEAD"}):
                if f"{method} {address.name}" not in matrix.OPENS:
                    yield f'Say in OPENS of {FILE} for whom "{method} {address.name}" opens.'
        elif model := model_of(address):
            if model not in matrix.MODELS:
                yield f'Say in MODELS of {FILE} who may what on the pages of "{model}".'
        elif not is_redirect(address.name) and not {f"GET {address.name}", f"POST {address.name}"} & {*matrix.OPENS}:
            yield f'Say in OPENS of {FILE} for whom "GET {address.name}" or "POST {address.name}" opens.'
    yield from missing_actions()


def model_of(address: Address) -> str:
    """Return the model of a page of the admin; empty for other addresses."""
    model, _, page = address.name.removeprefix("admin:").rpartition("_")
    is_its_page = address.route.startswith(f"/admin/{model.replace('_', '/', 1)}/") and f"GET {page}" in matrix.RIGHTS
    return model if is_its_page else ""


def missing_actions() -> Iterator[str]:
    for model in matrix.MODELS:
        for action in actions_of(model):
            if f"{model} {action}" not in matrix.ACTIONS:
                yield f'Say in ACTIONS of {FILE} who changes rows by "{model} {action}".'


def missing_callers(ways_to_be_known: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each way to authenticate, scope and power that no caller has."""
    for name in ways_to_be_known:
        if name.rpartition(".")[2] not in KNOWN_BY:
            yield f"Add a caller whom {name} knows to NAMES of {CALLERS}, and its name to KNOWN_BY."
    for scope in TokenScope:
        if scope not in {TokenScope.MANAGE, TokenScope.ADMINISTER} and scope not in matrix.OF_SCOPE:
            yield f'Say in OF_SCOPE of {FILE} what a token of the scope "{scope}" may be used for.'
    powers = {field.name for field in User._meta.get_fields() if isinstance(field, models.BooleanField)}
    for power in sorted(powers - {"is_active", "is_staff", "is_superuser", "operator"}):
        yield f"Add a caller who has User.{power} to PEOPLE of {CALLERS}, and to the rows of {FILE}."


def test_every_address_method_and_action_is_in_the_table() -> None:
    assert list(missing()) == []


def test_every_kind_of_credential_has_a_caller() -> None:
    assert list(missing_callers(api_settings.user_settings["DEFAULT_AUTHENTICATION_CLASSES"])) == []
    assert {*KNOWN_BY.values()} <= {*NAMES}
    assert {*PEOPLE} == matrix.PEOPLE
    assert {*WHOLE} >= matrix.MACHINES
    assert {*NAMES} >= {*MACHINE_CREDENTIALS, *(f"{role} by {way}" for role in PEOPLE for way in ("session", "token"))}
    assert len({*NAMES}) == len(NAMES)
    assert {*LIKE.values()} <= {*WHOLE}


def test_the_table_has_no_obsolete_address() -> None:
    names = {address.name: address for address in every_address()}
    rows = [row.partition(" ") for row in matrix.OPENS]
    assert [name for _, _, name in rows if name not in names] == []
    answered = {
        f"{method} {address.name}" for address in names.values() if address.is_api for method in address.answers
    }
    assert [row for row in matrix.OPENS if row not in answered and names[row.partition(" ")[2]].is_api] == []
    assert {*matrix.CHANGED_BY} <= {*matrix.OPENS}
    assert {f"{model}_changelist" for model in matrix.MODELS} <= {name.removeprefix("admin:") for name in names}
    assert {f"{model} {action}" for model in matrix.MODELS for action in actions_of(model)} == {*matrix.ACTIONS}
    roles = matrix.EVERYBODY | {matrix.UNWANTED}
    assert [row for row, who in (*matrix.OPENS.items(), *matrix.CHANGED_BY.items()) if not who <= roles] == []


def new_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.method)


def test_an_address_outside_the_table_is_detected(settings: Settings) -> None:
    new = [path("api/v1/new/", new_page, name="new"), path("new/", new_page, name="page")]
    module = ModuleType("new_addresses")
    vars(module)["urlpatterns"] = [*urls.urlpatterns, *new]
    settings.ROOT_URLCONF = module
    assert list(missing()) == [
        'Say in OPENS of tests/attacks/matrix.py for whom "GET new" opens.',
        'Say in OPENS of tests/attacks/matrix.py for whom "POST new" opens.',
        'Say in OPENS of tests/attacks/matrix.py for whom "GET page" or "POST page" opens.',
    ]


def test_an_authentication_class_without_a_caller_is_detected() -> None:
    assert list(missing_callers(["somewhere.NewAuthentication"])) == [
        f"Add a caller whom somewhere.NewAuthentication knows to NAMES of {CALLERS}, and its name to KNOWN_BY."
    ]
