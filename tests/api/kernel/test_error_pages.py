"""The pages of the error codes, to which the ``type`` of each error leads."""

import pytest
from django.conf import settings
from django.test import Client

from tests.problems import MEDIA_TYPE, of_problem
from wms.kernel.rest.error_codes import ERROR_CODES

ERRORS = "/api/v1/errors/"
PEOPLE = {"accept": "text/html,application/xhtml+xml"}


@pytest.mark.django_db  # a refusal is in the security log
def test_the_type_url_of_an_error_leads_to_its_page() -> None:
    problem = Client().get("/api/v1/jobs/").json()
    assert problem["type"].startswith(settings.WMS_SERVER_URL)
    page = problem["type"].removeprefix(settings.WMS_SERVER_URL)

    answer = Client(headers=PEOPLE).get(page)
    assert answer.headers["Content-Type"].startswith("text/html")
    assert problem["code"] in answer.content.decode()
    assert problem["title"] in answer.content.decode()

    record = Client(headers={"accept": "application/json"}).get(page).json()
    assert (record["code"], record["status"], record["title"]) == ("not_authenticated", 401, problem["title"])
    assert record["what_to_do"] == "Send a token."


def test_all_codes_are_listed_each_with_its_page() -> None:
    listed = Client(headers={"accept": "application/json"}).get(ERRORS).json()["results"]
    assert [each["code"] for each in listed] == list(ERROR_CODES)
    page = Client(headers=PEOPLE).get(ERRORS).content.decode()
    assert all(f'href="{each.path}"' in page for each in ERROR_CODES.values())


def test_a_title_is_a_sentence_without_notes() -> None:
    for each in ERROR_CODES.values():
        assert each.title[0].isupper(), each
        assert each.title.endswith("."), each
        assert "(" not in each.title, each


def test_there_is_no_page_of_another_code() -> None:
    answer = Client(headers=PEOPLE).get(f"{ERRORS}nonsense/")
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, MEDIA_TYPE)


@pytest.mark.parametrize("address", [ERRORS, f"{ERRORS}not_found/"])
def test_error_pages_accept_reads_only(address: str) -> None:
    answer = Client(enforce_csrf_checks=True).post(address)
    assert of_problem(answer.json())[:2] == (405, "method_not_allowed")
    assert (answer.headers["Content-Type"], answer.headers["Allow"]) == (MEDIA_TYPE, "GET, HEAD")
    assert Client().head(address).status_code == 200
