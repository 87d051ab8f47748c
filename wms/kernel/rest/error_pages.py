"""The pages of the error codes, to which the ``type`` of each error leads (RFC 9457); for programs as JSON."""

from collections.abc import Sequence

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from wms.kernel.rest.error_codes import ERROR_CODES, ErrorCode, as_sentence


@require_safe
def error_list(request: HttpRequest) -> HttpResponse:
    """Show all codes, by status."""
    described = list(ERROR_CODES.values())
    if _wants_json(request):
        return JsonResponse({"results": [_as_record(each) for each in described]})
    return _page(request, described, title="Errors")


@require_safe
def error_page(request: HttpRequest, code: str) -> HttpResponse:
    """Show one code; 404 if there is none of this name."""
    described = ERROR_CODES.get(code)
    if described is None:
        raise Http404
    if _wants_json(request):
        return JsonResponse(_as_record(described))
    return _page(request, [described], title=code)


def _wants_json(request: HttpRequest) -> bool:
    return request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def _page(request: HttpRequest, described: Sequence[ErrorCode], *, title: str) -> HttpResponse:
    rows = [(each, as_sentence(each.meaning), as_sentence(each.remedy)) for each in described]
    return render(request, "error_codes.html", {"title": title, "rows": rows})


def _as_record(described: ErrorCode) -> dict[str, object]:
    return {
        "code": described.code,
        "status": int(described.status),
        "title": described.title,
        "what_to_do": as_sentence(described.remedy),
    }
