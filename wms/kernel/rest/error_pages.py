"""The pages of the error codes, to which the ``type`` of each error leads (RFC 9457); for programs as JSON."""

from collections.abc import Sequence
from http import HTTPStatus

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from wms.kernel.handlers import api_error
from wms.kernel.rest.error_codes import ERROR_CODES, ErrorCode, as_sentence


@method_decorator(csrf_exempt, name="dispatch")  # they change nothing, and 405 is the better answer
class _ErrorsView(View):
    """Base of these pages. No APIView: to somebody who is logged in, they are pages of the portal."""

    http_method_names = ("get", "head")

    def http_method_not_allowed(self, request: HttpRequest, *_args: object, **_arguments: object) -> HttpResponse:
        """Refuse another method as the rest of the interface does."""
        answer = api_error(
            HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", f'Method "{request.method}" not allowed.'
        )
        answer["Allow"] = ", ".join(name.upper() for name in self.http_method_names)
        return answer


class ErrorListView(_ErrorsView):
    """All codes, by status."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer with all codes."""
        described = list(ERROR_CODES.values())
        if _wants_json(request):
            return JsonResponse({"results": [_as_record(each) for each in described]})
        return _page(request, described, title="Errors")


class ErrorView(_ErrorsView):
    """One code."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """Answer with the code; 404 if there is none of this name."""
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
