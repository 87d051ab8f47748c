"""The page of help, and its recipes."""

import pytest
from django.test import Client

from tests.factories import make_queue, make_user
from tests.portal.conftest import ClientOf
from tests.portal.test_submit import form
from wms.jobs.models import Job
from wms.portal.presentation.recipes import RECIPES

pytestmark = pytest.mark.django_db


def test_the_page_names_this_server_and_leads_to_the_form(portal: Client) -> None:
    page = portal.get("/help/").content.decode()
    assert "curl -sO http://testserver/api/v1/client/wms.pyz" in page
    for name in RECIPES:
        assert f'href="/jobs/submit/jdl/?recipe={name}"' in page


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_what_the_form_begins_with_and_is_accepted_as_it_is(portal: Client, name: str) -> None:
    make_queue(processors=2)
    begun = portal.get("/jobs/submit/?recipe=" + name, follow=True).context["form"]
    assert begun["jdl"].value() == RECIPES[name].jdl
    sent = portal.post("/jobs/submit/jdl/", form(jdl=RECIPES[name].jdl, syntax="jdl"))
    assert sent.status_code == 302
    assert Job.objects.count() == (3 if name == "many" else 1)


def test_a_user_without_group_is_told_whom_to_ask(client_of: ClientOf) -> None:
    page = client_of(make_user(username="dora")).get("/help/").content.decode()
    assert "invite <b>dora</b>" in page
    assert "?recipe=" not in page


def test_the_page_is_in_the_menu(portal: Client) -> None:
    page = portal.get("/").content.decode()
    assert 'href="/help/"' in page
