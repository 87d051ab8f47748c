"""The tables of endpoints and fields in docs/rest.md, and the error codes, equal those of the code."""

import ast
import re
from collections.abc import Iterator
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Final, TypeVar

from rest_framework import exceptions

from matching.api.serializers import OfferIn
from tests.api.credentials.addresses import every_address
from wms.kernel.errors import WmsError
from wms.kernel.rest.error_codes import ERROR_CODES
from wms.kernel.rest.errors import CODE_OF_FRAMEWORK, STATUS_OF_CATEGORY
from wms.wire.protocol import API_V1

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
PRODUCT: Final = ("wms", "matching", "pilots", "resources", "taskqueues")
#: Of the framework: a rate of its own, which is not used, and the base of all.
UNUSED: Final = (exceptions.Throttled, exceptions.APIException)
#: Functions that answer with a status and a code, outside of the framework.
ANSWERS: Final = {"api_error", "refuse"}
#: Answered by functions, not by views that say which methods they answer.
MACHINES: Final = {"/healthz", "/metrics", "/readyz"}

Error = TypeVar("Error", bound=Exception)


def modules() -> list[Path]:
    """Return the modules of the server: without migrations, main programs and the programs that stand alone."""
    found = (file for top in PRODUCT for file in (ROOT / top).rglob("*.py"))
    apart = {"agent", "gateway", "cli", "migrations", "__main__.py"}
    return sorted(file for file in found if not apart & {*file.relative_to(ROOT).parts})


def classes(base: type[Error]) -> Iterator[type[Error]]:
    children: list[type[Error]] = base.__subclasses__()
    for child in children:
        # Tests have errors of their own.
        if child.__module__.partition(".")[0] != "tests":
            yield child
            yield from classes(child)


def rows(heading: str, columns: int) -> list[list[str]]:
    """Return the cells of the tables below *heading*, without their first two lines."""
    section = re.split(rf"^##+ {heading}$", DOCUMENT, maxsplit=1, flags=re.MULTILINE)[1]
    text = re.split(r"^## ", section, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert all(len(cells) == columns for cells in lines), heading
    return lines


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def declared() -> Iterator[tuple[str, int]]:
    """Yield every (code, status) that the code can answer."""
    for file in modules():
        parts = file.relative_to(ROOT).with_suffix("").parts
        import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    for error in classes(WmsError):
        if "code" in vars(error):
            category = next(category for category in STATUS_OF_CATEGORY if issubclass(error, category))
            yield error.code, STATUS_OF_CATEGORY[category]
    for refusal in classes(exceptions.APIException):
        if refusal not in UNUSED:
            code = str(refusal.default_code)
            yield CODE_OF_FRAMEWORK.get(code, code), status_of(refusal)
    for file in modules():
        text = file.read_text(encoding="utf-8")
        if "code=" in text or any(f"{name}(" in text for name in ANSWERS):  # parsing takes long
            yield from named_in_calls(ast.parse(text))


def status_of(error: type[exceptions.APIException]) -> int:
    """Return the status of an error of the framework; a missing credential gives 401, see wms.kernel.rest.errors."""
    unknown = issubclass(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed)
    return HTTPStatus.UNAUTHORIZED if unknown else error.status_code


def named_in_calls(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the code and status of calls such as ``api_error(HTTPStatus.X, "code", …)`` and
    ``PermissionDenied(…, code="code")``.
    """
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id in ANSWERS:
            status = next((arg.attr for arg in node.args if isinstance(arg, ast.Attribute)), "")
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if status in HTTPStatus.__members__ and texts:
                yield texts[0], HTTPStatus[status]
        elif isinstance(error := getattr(exceptions, node.func.id, None), type):
            for keyword in node.keywords:
                if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                    yield str(keyword.value.value), status_of(error)


def test_every_error_code_is_described() -> None:
    described = {(each.code, int(each.status)) for each in ERROR_CODES.values()}
    assert described ^ {(code, int(status)) for code, status in declared()} == set()


def test_every_endpoint_has_its_row() -> None:
    answered = {
        (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", address.route))
        for address in every_address()
        if address.route.startswith(API_V1) or address.route in MACHINES
        for method in ({"GET"} if address.route in MACHINES else address.answers - {"HEAD"})
    }
    written = [(method.strip("`"), path.strip("`")) for method, path, _, _ in rows("Endpoints", 4)]
    assert len(written) == len({*written})
    assert {*written} ^ answered == set()


def test_every_field_of_an_offer_has_its_row() -> None:
    assert sorted(name for field, _ in rows("Offer", 2) for name in names(field)) == sorted(OfferIn().fields)


def test_every_setting_that_it_names_exists() -> None:
    named = set(re.findall(r"`(WMS_\w+)`", DOCUMENT))
    assert named
    assert [name for name in sorted(named) if f"`{name}`" not in (ROOT / "docs" / "settings.md").read_text()] == []
