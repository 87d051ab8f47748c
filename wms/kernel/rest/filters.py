"""Filters of lists over REST: FilterSets that refuse unknown names and wrong values, with their documentation."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from django.core.validators import EMPTY_VALUES
from django.db.models import Model, QuerySet
from django.http import QueryDict
from django_filters import FilterSet, IsoDateTimeFilter, UUIDFilter
from drf_spectacular.extensions import OpenApiSerializerExtension
from rest_framework import serializers
from rest_framework.filters import BaseFilterBackend
from rest_framework.request import Request

from wms.kernel.rest.pages import PAGE_PARAMETERS
from wms.kernel.rest.serializers import require_object, single_values, unknown_fields

if TYPE_CHECKING:
    from rest_framework.views import APIView  # NB: at run time a cycle, see the package's docstring

F = TypeVar("F", bound=FilterSet)


def checked_filters(
    filterset_class: type[F],
    data: Mapping[str, object],
    queryset: QuerySet[Model] | None = None,
    *,
    also: Collection[str] = (),
    request: Request | None = None,
) -> F:
    """Return the filters that *data* sets, a query string or an object of a body.

    Args:
        filterset_class: the available filters.
        data: values by name.
        queryset: the rows to filter; None: all rows of the FilterSet's model.
        also: names in the data that other code reads.
        request: for FilterSets that depend on the caller.

    Raises:
        ValidationError: with all errors at once; also for an empty value, which a form treats as missing.
    """
    values = single_values(data) if isinstance(data, QueryDict) else data
    filters: F = filterset_class(values, queryset, request=request)
    unknown = unknown_fields(values, known=frozenset(filters.filters).union(also))
    wrong = {name: list(sentences) for name, sentences in filters.errors.items()}
    empty = {
        name: [f"This field may not be {'null' if value is None else 'blank'}."]
        for name, value in values.items()
        if name in filters.filters and (value.strip() if isinstance(value, str) else value) in EMPTY_VALUES
    }
    if unknown or wrong or empty:
        # Unknown names first: a misspelt name is the reason why the right one is missing.
        raise serializers.ValidationError({**unknown, **wrong, **empty})
    return filters


class FilterBackend(BaseFilterBackend):
    """Filters the rows of a view by its ``filterset_class``.

    NB: not a DjangoFilterBackend: that one accepts unknown names and empty values, formats sentences that hold a
    ``%``, and its extension of the OpenAPI schema queries the view's rows without a caller, and leaves out lengths.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: "APIView") -> QuerySet[Any]:
        """Return the rows that the query string selects; its page parameters are ignored here."""
        filterset_class: type[FilterSet] | None = getattr(view, "filterset_class", None)
        if filterset_class is None:
            return queryset
        filters = checked_filters(
            filterset_class, request.query_params, queryset, also=PAGE_PARAMETERS, request=request
        )
        return cast("QuerySet[Any]", filters.qs)

    def get_schema_operation_parameters(self, view: "APIView") -> list[dict[str, object]]:
        """Return the OpenAPI parameters of the query string."""
        filterset_class: type[FilterSet] = getattr(view, "filterset_class", FilterSet)
        return [
            {"name": name, "in": "query", "description": schema.pop("description"), "schema": schema}
            for name, schema in schemas_of(filterset_class).items()
        ]


class FilterBody(serializers.Serializer[Any]):
    """The filters of a list as an object in a body; its validated value is the FilterSet."""

    filterset_class: ClassVar[type[FilterSet]]

    def to_internal_value(self, data: object) -> FilterSet:
        """Return the filters, or raise with all errors at once."""
        return checked_filters(self.filterset_class, require_object(data))


class FilterBodySchema(OpenApiSerializerExtension):
    """Filters of a body in the OpenAPI schema."""

    target_class = FilterBody
    match_subclasses = True

    def map_serializer(self, auto_schema: object, direction: str) -> dict[str, object]:
        """Return the schema of the object, without additional properties."""
        return {
            "type": "object",
            "description": self.target.filterset_class.__doc__,
            "properties": schemas_of(self.target.filterset_class),
            "additionalProperties": False,
        }


def schemas_of(filterset_class: type[FilterSet]) -> Mapping[str, dict[str, object]]:
    """Return the OpenAPI schemas of the values of the filters, by name; all are texts."""
    schemas: dict[str, dict[str, object]] = {}
    for name, each in filterset_class.base_filters.items():
        schema = schemas[name] = {"type": "string", "description": each.extra["help_text"]}
        if isinstance(each, UUIDFilter):
            schema["format"] = "uuid"
        elif isinstance(each, IsoDateTimeFilter):
            schema["format"] = "date-time"
        else:
            schema["minLength"] = 1
            if "max_length" in each.extra:
                schema["maxLength"] = each.extra["max_length"]
    return schemas
