"""A site that serves one VO only serves no VO after that VO is deleted."""

from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse

from resources.domain.enums import RequirementKind
from resources.models import RequirementDefinition, Site
from tests.admin.conftest import act, client_of
from tests.factories import make_requirement_definition, make_site, make_user, make_vo
from wms.accounts.models import VO


@pytest.fixture
def operator() -> Client:
    return client_of(make_user(username="olivia", staff=True, operator=True))


def make_definition(*, name: str, vos: list[VO]) -> RequirementDefinition:
    return make_requirement_definition(name=name, kind=RequirementKind.SET, vos=vos)


def execute(statements: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statements)


def delete(client: Client, vo: VO) -> str:
    page = reverse("admin:accounts_vo_delete", args=[vo.pk])
    return client.post(page, {"post": "yes"}).content.decode()


def serves(row: Site | RequirementDefinition) -> set[str]:
    return set(row.vos.values_list("name", flat=True))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("make", [make_site, make_definition])
def test_no_page_deletes_the_only_vo_that_something_serves(
    make: Callable[..., Site | RequirementDefinition], operator: Client
) -> None:
    vo = make_vo(name="lhcb")
    row = make(name="Closed", vos=[vo])
    page = delete(operator, vo)
    assert "Closed would serve all VOs without this one." in page
    act(operator, vo, "delete_selected", post="yes")
    assert serves(row) == {"lhcb"}


@pytest.mark.django_db(transaction=True)
def test_deleting_all_vos_of_a_served_site_is_refused(operator: Client) -> None:
    vos = [make_vo(name="lhcb"), make_vo(name="atlas")]
    site = make_site(vos=vos)
    operator.post(
        reverse("admin:accounts_vo_changelist"),
        {"action": "delete_selected", "post": "yes", "_selected_action": [str(vo.pk) for vo in vos]},
    )
    assert serves(site) == {"lhcb", "atlas"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("make", [make_site, make_definition])
def test_a_served_vo_cannot_be_deleted_by_other_pages(make: Callable[..., Site | RequirementDefinition]) -> None:
    """Django's own cascade, as in a shell or a script, and plain SQL."""
    vos = [make_vo(name="lhcb"), make_vo(name="atlas")]
    row = make(name="Closed", vos=vos)
    with pytest.raises(IntegrityError, match="Closed serves only a VO that is being deleted"):
        VO.objects.all().delete()
    table = type(row).vos.through._meta.db_table
    with pytest.raises(IntegrityError, match="Closed serves only"):
        execute(f"DELETE FROM {table}; DELETE FROM accounts_vo")
    assert serves(row) == {"lhcb", "atlas"}


@pytest.mark.django_db(transaction=True)
def test_a_vo_is_deleted_if_others_or_no_sites_remain(operator: Client) -> None:
    lhcb, atlas = make_vo(name="lhcb"), make_vo(name="atlas")
    site = make_site(vos=[lhcb, atlas])
    delete(operator, lhcb)
    assert serves(site) == {"atlas"}
    with transaction.atomic():
        site.delete()
        atlas.delete()
    assert not VO.objects.exists()
    # An operator may open a site on purpose.
    site = make_site(vos=[make_vo()])
    site.vos.clear()
    assert not site.vos.exists()
