"""Pagination by cursor: stable while rows come and go, and as fast on the last page as on the first."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from django.core import signing
from django.db.models import Field, Model, Q, QuerySet
from rest_framework import serializers
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from wms.kernel.names import did_you_mean
from wms.kernel.rest.serializers import StrictSerializer

if TYPE_CHECKING:
    from rest_framework.views import APIView  # NB: at run time a cycle, see the package's docstring

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000
PAGE_PARAMETERS = ("cursor", "page_size", "ordering")
SALT = "wms.kernel.rest.cursor"

Row = TypeVar("Row", bound=Model)


class PageParameters(StrictSerializer):
    """Query parameters of every list beside its filters."""

    cursor = serializers.CharField(
        required=False,
        max_length=2000,
        help_text="Position of a page, copied from `next` or `previous` of another page.",
    )
    page_size = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_PAGE_SIZE, help_text=f"Rows per page; default {DEFAULT_PAGE_SIZE}."
    )
    ordering = serializers.CharField(
        required=False, max_length=64, help_text="Field to order by; with a leading -, in descending order."
    )


class Cursor(NamedTuple):
    """The start of a page: after (or, backwards, before) the row with this value and this primary key."""

    ordering: str
    backwards: bool
    value: str
    pk: int | str


class CursorPages(BasePagination):
    """Pages of rows, ordered by one of ``orderings``, of which the first is the default.

    The position of a row is its value in that column and its primary key, so that rows added or removed elsewhere
    neither repeat nor hide others. The columns are never NULL. The answer is ``{next, previous, results}``.
    """

    orderings: ClassVar[tuple[str, ...]] = ("-id",)

    def paginate_queryset(  # type: ignore[override]  # lists in memory are not paged
        self,
        queryset: QuerySet[Row],
        request: Request,
        view: "APIView | None" = None,
    ) -> list[Row]:
        """Return the rows of the requested page.

        Raises:
            ValidationError: the cursor is invalid or of another ordering, or the size or the ordering is wrong.
        """
        parameters = {name: request.query_params[name] for name in PAGE_PARAMETERS if name in request.query_params}
        query = PageParameters.checked(parameters)
        self._url = request.build_absolute_uri()
        self._ordering = self._known_ordering(query.get("ordering", self.orderings[0]))
        self._column = self._column_of(queryset.model)
        self._cursor = self._read(query["cursor"]) if "cursor" in query else None
        size: int = query.get("page_size", DEFAULT_PAGE_SIZE)

        backwards = self._cursor is not None and self._cursor.backwards
        rows = self._rows(queryset, backwards=backwards, at_most=size + 1)
        self._more = len(rows) > size
        page = rows[:size][::-1] if backwards else rows[:size]
        self._page: Sequence[Model] = page
        return page

    def get_paginated_response(self, data: Sequence[object]) -> Response:
        """Return the page with the addresses of its neighbours."""
        backwards = self._cursor is not None and self._cursor.backwards
        has_next = True if backwards else self._more
        has_previous = self._more if backwards else self._cursor is not None
        return Response(
            {
                "next": self._link(-1, backwards=False) if has_next else None,
                "previous": self._link(0, backwards=True) if has_previous else None,
                "results": data,
            }
        )

    def _known_ordering(self, name: str) -> str:
        if name not in self.orderings:
            hint = did_you_mean(name, self.orderings)
            sentence = f"Order by one of {', '.join(self.orderings)}.{hint}"
            raise serializers.ValidationError({"ordering": [sentence]})
        return name

    def _column_of(self, model: type[Model]) -> "Field[Any, Any]":
        name = self._ordering.removeprefix("-")
        column = model._meta.pk if name in {"id", "pk"} else model._meta.get_field(name)
        if not isinstance(column, Field) or column.null:
            message = f"pages cannot be ordered by {name}"
            raise TypeError(message)
        return column

    def _read(self, text: str) -> Cursor:
        try:
            cursor = Cursor(*signing.loads(text, salt=SALT))
        except signing.BadSignature as error:
            sentence = "This cursor is not valid; begin with the first page, without a cursor."
            raise serializers.ValidationError({"cursor": [sentence]}) from error
        if cursor.ordering != self._ordering:
            sentence = f'This cursor belongs to the order "{cursor.ordering}"; begin with the first page.'
            raise serializers.ValidationError({"cursor": [sentence]})
        return cursor

    def _rows(self, queryset: QuerySet[Row], *, backwards: bool, at_most: int) -> list[Row]:
        """Return the rows that follow the cursor, nearest first."""
        return list(self._from_cursor(queryset, backwards=backwards)[:at_most])

    def _from_cursor(self, queryset: QuerySet[Row], *, backwards: bool) -> QuerySet[Row]:
        sign, beyond = ("-", "lt") if self._descends(backwards=backwards) else ("", "gt")
        name = self._column.name
        if self._cursor is not None:
            queryset = queryset.filter(self._after(self._cursor, name=name, beyond=beyond))
        return queryset.order_by(f"{sign}{name}", *([] if self._column.primary_key else [f"{sign}pk"]))

    def _descends(self, *, backwards: bool) -> bool:
        return self._ordering.startswith("-") != backwards

    def _after(self, cursor: Cursor, *, name: str, beyond: str) -> Q:
        if self._column.primary_key:
            return Q(**{f"pk__{beyond}": cursor.pk})
        value = self._column.to_python(cursor.value)
        # Not "a < v OR (a = v AND id < n)": an index on the column is only used for a plain range in front.
        return Q(**{f"{name}__{beyond}e": value}) & (
            Q(**{f"{name}__{beyond}": value}) | Q(**{f"pk__{beyond}": cursor.pk})
        )

    def _link(self, position: int, *, backwards: bool) -> str:
        if not self._page:  # every row beyond the cursor was deleted: link to the first page
            return remove_query_param(self._url, "cursor")
        row = self._page[position]
        pk = row.pk if isinstance(row.pk, int) else str(row.pk)
        cursor = Cursor(self._ordering, backwards, self._column.value_to_string(row), pk)
        return replace_query_param(self._url, "cursor", signing.dumps(cursor, salt=SALT))

    def get_paginated_response_schema(self, schema: dict[str, object]) -> dict[str, object]:
        """Return the OpenAPI schema of a page of *schema*."""
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": {**link, "description": "Address of the next page; null on the last."},
                "previous": {**link, "description": "Address of the page before; null on the first."},
                "results": schema,
            },
        }

    def get_schema_operation_parameters(self, view: "APIView") -> list[dict[str, object]]:
        """Return the OpenAPI parameters of the query string."""
        schemas: Mapping[str, dict[str, object]] = {
            "cursor": {"type": "string", "maxLength": 2000},
            "page_size": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE},
            "ordering": {"type": "string", "enum": list(self.orderings), "default": self.orderings[0]},
        }
        return [
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": str(field.help_text),
                "schema": schemas[name],
            }
            for name, field in PageParameters().fields.items()
        ]
