"""Pagination by cursor shows every row once, while rows are added and deleted."""

from typing import Any
from urllib.parse import quote

import pytest
from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from resources.models import Platform
from tests.factories import make_platform
from wms.kernel.rest import CursorPages

pytestmark = pytest.mark.django_db


class PlatformOut(serializers.Serializer[Any]):
    name = serializers.CharField()


class NewestFirst(ListAPIView[Platform]):
    authentication_classes = ()
    permission_classes = ()
    serializer_class = PlatformOut
    pagination_class = CursorPages

    def get_queryset(self) -> QuerySet[Platform]:
        return Platform.objects.all()

    def get(self, request: Request) -> Response:
        return self.list(request)


class NamePages(CursorPages):
    orderings = ("name", "-name", "id", "-id")


class ByName(NewestFirst):
    pagination_class = NamePages


def page(address: str, view: type[NewestFirst] = NewestFirst) -> Response:
    answer = view.as_view()(APIRequestFactory().get(address))
    assert isinstance(answer, Response)
    return answer


def names(answer: Response) -> list[str]:
    assert answer.status_code == 200, answer.data
    return [row["name"] for row in answer.data["results"]]


def turned(answer: Response, direction: str = "next", view: type[NewestFirst] = NewestFirst) -> list[str]:
    """Return the names on the page *answer* and on all later pages."""
    found = names(answer)
    while answer.data[direction]:
        answer = page(answer.data[direction], view)
        found = found + names(answer) if direction == "next" else names(answer) + found
    return found


def make_platforms(*wanted: str) -> None:
    for name in wanted:
        make_platform(name=name)


def test_no_row_is_one_empty_page() -> None:
    assert page("/").data == {"next": None, "previous": None, "results": []}


def test_the_newest_come_first() -> None:
    make_platforms("a", "b", "c")
    assert names(page("/")) == ["c", "b", "a"]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_every_row_is_shown_once_forwards_and_backwards(size: int) -> None:
    make_platforms("a", "b", "c", "d", "e")
    assert turned(page(f"/?page_size={size}")) == ["e", "d", "c", "b", "a"]
    last = page(f"/?page_size={size}")
    while last.data["next"]:
        last = page(last.data["next"])
    assert turned(last, "previous") == ["e", "d", "c", "b", "a"]


def test_the_last_page_has_no_next_and_the_first_no_previous() -> None:
    make_platforms("a", "b")
    first = page("/?page_size=1")
    second = page(first.data["next"])
    assert (first.data["previous"], second.data["next"]) == (None, None)
    assert page(second.data["previous"]).data == first.data


def test_new_rows_during_paging_neither_repeat_nor_hide_rows() -> None:
    make_platforms("a", "b", "c", "d")
    first = page("/?page_size=2")
    make_platforms("e", "f")
    assert names(page(first.data["next"])) == ["b", "a"]


def test_new_rows_are_found_on_previous_pages() -> None:
    make_platforms("a", "b", "c", "d")
    second = page(page("/?page_size=2").data["next"])
    make_platforms("e")
    assert turned(second, "previous") == ["e", "d", "c", "b", "a"]


def test_deleted_rows_hide_no_others_during_paging() -> None:
    make_platforms("a", "b", "c", "d")
    first = page("/?page_size=2")
    Platform.objects.filter(name__in=["c", "d"]).delete()
    assert names(page(first.data["next"])) == ["b", "a"]


def test_a_page_whose_rows_are_deleted_leads_to_the_first() -> None:
    make_platforms("a", "b", "c", "d")
    first = page("/?page_size=2")
    Platform.objects.filter(name__in=["a", "b"]).delete()
    empty = page(first.data["next"])
    assert names(empty) == []
    assert names(page(empty.data["previous"])) == ["d", "c"]


def test_another_order_is_followed_over_all_pages() -> None:
    make_platforms("b", "d", "a", "c")
    assert turned(page("/?page_size=1", ByName), view=ByName) == ["a", "b", "c", "d"]
    assert turned(page("/?page_size=3&ordering=-name", ByName), view=ByName) == ["d", "c", "b", "a"]
    assert turned(page("/?page_size=3&ordering=id", ByName), view=ByName) == ["b", "d", "a", "c"]


def test_rows_of_equal_value_are_ordered_by_their_key() -> None:
    for _ in range(5):
        make_platform()
    Platform.objects.update(runs=[])

    class RunsPages(CursorPages):
        orderings = ("runs",)

    class ByRuns(NewestFirst):
        pagination_class = RunsPages

    found = turned(page("/?page_size=2", ByRuns), view=ByRuns)
    assert sorted(found) == sorted(Platform.objects.values_list("name", flat=True))


def test_other_parameters_stay_in_the_addresses() -> None:
    make_platforms("a", "b")
    assert "page_size=1" in page("/?page_size=1&vo=lhcb").data["next"]
    assert "vo=lhcb" in page("/?page_size=1&vo=lhcb").data["next"]


def test_a_page_costs_one_query(django_assert_num_queries: Any) -> None:
    make_platforms("a", "b", "c")
    second = page("/?page_size=1").data["next"]
    with django_assert_num_queries(1):
        page(second)


@pytest.mark.parametrize("size", ["0", "-1", "1001", "ten", "", "1.5", "9" * 50])
def test_a_page_size_out_of_range_is_refused(size: str) -> None:
    answer = page(f"/?page_size={size}")
    assert (answer.status_code, list(answer.data["errors"])) == (400, ["page_size"])


@pytest.mark.parametrize("cursor", ["x", "", "%00", "cD0x", "[]:x:y", "%ff%fe", "a" * 3000])
def test_a_forged_cursor_is_refused(cursor: str) -> None:
    answer = page(f"/?cursor={cursor}")
    assert (answer.status_code, list(answer.data["errors"])) == (400, ["cursor"])


def test_a_cursor_with_another_end_is_refused() -> None:
    make_platforms("a", "b")
    assert page(page("/?page_size=1").data["next"] + "x").status_code == 400


def test_a_cursor_of_another_order_is_refused() -> None:
    make_platforms("a", "b")
    address = page("/?page_size=1&ordering=-name", ByName).data["next"].replace("ordering=-name", "ordering=name")
    answer = page(address, ByName)
    assert (answer.status_code, list(answer.data["errors"])) == (400, ["cursor"])


@pytest.mark.parametrize("ordering", ["runs", "nam", "--name", "name,id", "password", ""])
def test_an_order_that_is_not_offered_is_refused(ordering: str) -> None:
    answer = page(f"/?ordering={quote(ordering)}", ByName)
    assert (answer.status_code, list(answer.data["errors"])) == (400, ["ordering"])


def test_the_nearest_order_is_suggested() -> None:
    assert page("/?ordering=nam", ByName).data["errors"]["ordering"] == [
        'Order by one of name, -name, id, -id. Did you mean "name"?'
    ]
