"""The program that advertises a site, packed into one file with the modules of the wire that it uses."""

from functools import cache
from http import HTTPStatus
from inspect import getsource

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from resources.gateway import wms_advertise
from wms.kernel.rest import AnyClientNegotiation
from wms.kernel.rest.audience import Audience
from wms.wire import http, protocol

FILE_NAME = "wms_advertise.py"
_FUTURE = "from __future__ import annotations\n"
_LOADER = """
import sys
from types import ModuleType


def _add_module(name: str, source: str) -> None:
    \"\"\"Add a module of the package wms.wire, which the server packs into this file.\"\"\"
    module = sys.modules[name] = ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    exec(compile(source, name, "exec"), module.__dict__)


_add_module("wms", "")
_add_module("wms.wire", "")
"""


@cache
def gateway_package() -> bytes:
    """Return the program; made once in each process."""
    head, _, program = getsource(wms_advertise).partition(_FUTURE)
    wire = (http, protocol)
    modules = "".join(f"_add_module({module.__name__!r}, r'''{getsource(module)}''')\n" for module in wire)
    return f"#!/usr/bin/env python3\n{head}{_FUTURE}{_LOADER}{modules}{program}".encode()


class AdvertiserView(APIView):
    """The program wms-advertise; without authentication, because it contains no secret."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    content_negotiation_class = AnyClientNegotiation

    @extend_schema(
        operation_id="gateway_advertiser",
        summary="Download the program that counts job managers at a gateway and advertises them",
        tags=[Audience.SITES],
        responses={(HTTPStatus.OK, "text/x-python"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:  # noqa: ARG002 - the framework's signature
        """Fetch `wms-advertise`, one file for Python 3.9 or newer: `python3 wms_advertise.py --help`."""
        response = HttpResponse(gateway_package(), content_type="text/x-python")
        response["Content-Disposition"] = f'attachment; filename="{FILE_NAME}"'
        response["Cache-Control"] = "no-cache"
        return response
