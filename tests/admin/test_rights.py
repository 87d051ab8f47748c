"""The rights of each role on each model of the administration, compared with the table of the matrix."""

import pytest
from django.contrib import admin
from django.test import RequestFactory

from resources.services.administrators import make_administrator
from tests.admin.conftest import RowsOfVO
from tests.admin.test_pages import OURS
from tests.attacks.matrix import ACTIONS, MODELS
from tests.factories import NOW, make_user
from wms.accounts.models import User

pytestmark = pytest.mark.django_db

#: Of it the table has what may be done with one that has replicas.
STORAGE_ELEMENT = "resources_storageelement"
ROLES = ("staff", "site administrator", "manager", "manager of another VO", "operator", "superuser")


def user_with(role: str, mine: RowsOfVO, theirs: RowsOfVO) -> User:
    """Return a user of the role who may log in to the administration."""
    managed = {"manager": [mine.vo], "manager of another VO": [theirs.vo]}.get(role, [])
    is_operator = role in {"operator", "superuser"}
    user = make_user(staff=True, manages=managed, operator=is_operator, superuser=role == "superuser")
    if role == "site administrator":
        make_administrator(mine.site, user, by=None, now=NOW)
    return user


def in_the_table(model: str, role: str) -> set[str]:
    """Return the rights and actions of the role, if it sees the row, by the table."""
    of_managers, of_operators = MODELS[model]
    if model == STORAGE_ELEMENT:
        of_operators += " delete"
    as_manager = role in {"manager", "manager of another VO"}
    may = {*(of_managers if as_manager else of_operators if role in {"operator", "superuser"} else "").split()}
    named_role = "manager" if as_manager else role
    actions = {name.split()[1] for name, who in ACTIONS.items() if name.split()[0] == model and named_role in who}
    return (may - {"history"}) | actions | ({"delete_selected"} if "delete" in may else set())


@pytest.mark.parametrize("role", ROLES)
def test_rights_on_each_model_are_those_of_the_table(role: str, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    request = RequestFactory().get("/")
    request.user = user_with(role, mine, theirs)
    found: dict[str, set[str]] = {}
    for model in OURS:
        page = admin.site._registry[model]
        rights = {
            "view": page.has_view_permission(request),
            "add": page.has_add_permission(request),
            "change": page.has_change_permission(request),
            "delete": page.has_delete_permission(request),
        }
        name = page.opts.label_lower.replace(".", "_")
        found[name] = {right for right, is_given in rights.items() if is_given}
        if "view" in found[name]:  # else the list, and with it each action, is refused
            found[name] |= page.get_actions(request).keys()
    assert found == {name: in_the_table(name, role) for name in MODELS}
