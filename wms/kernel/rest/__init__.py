"""Shared parts of the REST endpoints: strict input, one shape of error, pages by cursor, bearer tokens.

NB: Django REST framework imports this package while it imports its own views (the settings name classes from here),
so nothing below may import ``rest_framework.views`` or ``rest_framework.generics``.
"""

from wms.kernel.file_answers import AnyClientNegotiation
from wms.kernel.rest.authentication import BearerAuthentication, has_bearer_token, token_in
from wms.kernel.rest.changes import (
    ChangeIn,
    ConfirmedIn,
    DeletionIn,
    EndIn,
    ExplainedIn,
    ZonedTime,
    end_in,
    transaction_of,
)
from wms.kernel.rest.documentation import ErrorAnswer, error_responses
from wms.kernel.rest.errors import answer_error
from wms.kernel.rest.fields import Flag, GroupBy, Name, Number, ReasonText, Text, WholeNumber
from wms.kernel.rest.filters import FilterBody, checked_filters
from wms.kernel.rest.pages import PAGE_PARAMETERS, CursorPages, PageParameters
from wms.kernel.rest.serializers import StrictSerializer
from wms.kernel.rest.strict_json import InvalidJSONError, StrictJSONParser, load_json

__all__ = [
    "PAGE_PARAMETERS",
    "AnyClientNegotiation",
    "BearerAuthentication",
    "ChangeIn",
    "ConfirmedIn",
    "CursorPages",
    "DeletionIn",
    "EndIn",
    "ErrorAnswer",
    "ExplainedIn",
    "FilterBody",
    "Flag",
    "GroupBy",
    "InvalidJSONError",
    "Name",
    "Number",
    "PageParameters",
    "ReasonText",
    "StrictJSONParser",
    "StrictSerializer",
    "Text",
    "WholeNumber",
    "ZonedTime",
    "answer_error",
    "checked_filters",
    "end_in",
    "error_responses",
    "has_bearer_token",
    "load_json",
    "token_in",
    "transaction_of",
]
