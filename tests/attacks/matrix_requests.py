"""The requests of the matrix: each address with each method, for an existing object and for a missing one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin

from tests.api.credentials.addresses import METHODS, METHODS_OF_PAGES, Address, every_address
from tests.attacks import matrix
from tests.attacks.matrix import MACHINES, NOBODY_KNOWN, PEOPLE
from tests.attacks.matrix_callers import LIKE, NAMES, WHOLE, Caller, Scene

ALL_METHODS: Final = (*METHODS, "TRACE")
#: They try every method; for others of their kind it is the same code.
TRY_EVERY_METHOD: Final = frozenset(
    {
        "anonymous",
        "owner by session",
        "owner by token",
        "pilot",
        "job",
        "secret",
        "registering site",
        "advertising site",
    }
)


class Reach(StrEnum):
    """The part of the matrix that a caller requests."""

    RULES = "one address for each rule"
    ADDRESSES = "every address, by its methods"
    METHODS = "every address, by all methods that exist"


#: In the slow core these request every address; the others that do so in the nightly run, one for each rule.
ALWAYS_WHOLE: Final = frozenset(
    {
        "anonymous",
        "user of another VO by session",
        "pilot of another VO",
    }
)
#: {(caller, what it requests): whether in the slow core}.
CASES: Final[Mapping[tuple[str, Reach], bool]] = {
    **{(name, Reach.ADDRESSES if name in ALWAYS_WHOLE else Reach.RULES): True for name in NAMES},
    **{
        (name, Reach.METHODS if name in TRY_EVERY_METHOD else Reach.ADDRESSES): False
        for name in WHOLE
        if name in TRY_EVERY_METHOD or name not in ALWAYS_WHOLE
    },
}
#: They send their token to every page, where nobody looks at it: neither a person's nor a machine's opens any.
TRY_PAGES_BY_TOKEN: Final = frozenset({"superuser by token", "pilot"})
#: Attributes of views of the API by which requests are authenticated and permitted.
DECIDING: Final = ("authentication_classes", "permission_classes", "callers", "token_scope", "needs_fresh_log_in")
#: Of files that are sent, the contract wants a form.
FORMS: Final = frozenset({"match-sandboxes", "sandboxes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One cell of the matrix."""

    method: str
    #: Of the address; with a list's action behind it.
    name: str
    address: Address
    url: str
    body: Mapping[str, Any] = field(default_factory=dict)
    #: Whether what the address names is there.
    is_there: bool = True

    @property
    def asked(self) -> str:
        """Return the name of the request in the table."""
        return f"{self.method} {self.name}"

    def send(self, caller: Caller) -> Any:
        """Send the request; return its answer."""
        headers = {"Authorization": f"Bearer {caller.token}"} if caller.token else {}
        if self.method in {"GET", "HEAD"}:
            return getattr(caller.client, self.method.lower())(self.url, headers=headers)
        if self.method == "TRACE":
            return caller.client.trace(self.url, headers=headers)
        is_form = not self.address.is_api or self.name in FORMS
        if is_form and self.method == "POST":
            for value in self.body.values():
                if hasattr(value, "seek"):
                    value.seek(0)  # it was sent before
            return caller.client.post(self.url, self.body, headers=headers)
        if is_form:
            content_type = "application/x-www-form-urlencoded"
            return caller.client.generic(self.method, self.url, urlencode({}), content_type, headers=headers)
        send = getattr(caller.client, self.method.lower())
        return send(self.url, self.body, content_type="application/json", headers=headers)


def requests_of(name: str, caller: Caller, scene: Scene, *, at: Reach) -> Iterator[Request]:
    """Return the requests that the caller of this name sends."""
    requests = _on_every_address(name, caller, scene, by_every_method=at is Reach.METHODS)
    return _one_for_each_rule(requests, like=LIKE.get(name, name)) if at is Reach.RULES else requests


def _one_for_each_rule(requests: Iterator[Request], *, like: str) -> Iterator[Request]:
    """Yield, of requests that the same code and the same row of the table decide about, those to the first address.

    Of machines also all that open to *like*, but not to everybody.
    """
    first: dict[tuple[object, ...], Address] = {}
    for request in requests:
        is_first = first.setdefault(_rule_of(request), request.address) == request.address
        is_for_its_kind = like in MACHINES and matrix.opens(like, request.asked)
        if is_first or (is_for_its_kind and not matrix.opens(NOBODY_KNOWN, request.asked)):
            yield request


def _rule_of(request: Request) -> tuple[object, ...]:
    view = request.address.view
    code = [str(getattr(view, name, "")) for name in DECIDING] if request.address.is_api else [view.__module__]
    action = request.name.partition(" ")[2]
    return (*code, request.method, action, "<" in request.address.route, *matrix.row(request.asked))


def _on_every_address(name: str, caller: Caller, scene: Scene, *, by_every_method: bool) -> Iterator[Request]:
    for address in every_address():
        arguments = _arguments(address, scene)
        url, body = address.url(arguments), _body(address, scene)
        for method in methods(name, caller, address, by_every_method=by_every_method):
            yield Request(method=method, name=address.name, address=address, url=url, body=body)
        if address.name.endswith("_changelist") and not caller.token and caller.role in PEOPLE:
            yield from _actions(address, url, scene)
        if "<" in address.route and (address.is_api or not caller.token) and not is_redirect(address.name):
            gone = address.url({argument: _missing(value) for argument, value in arguments.items()})
            for method in sorted(address.answers & set(METHODS_OF_PAGES)) or sorted(address.answers)[:1]:
                yield Request(method=method, name=address.name, address=address, url=gone, body=body, is_there=False)


def methods(name: str, caller: Caller, address: Address, *, by_every_method: bool) -> tuple[str, ...]:
    """Return the HTTP methods that the caller sends to the address."""
    # The admin sends away everybody who is no staff.
    is_sent_away = caller.role == "owner" and address.route.startswith("/admin/")
    if by_every_method and not is_sent_away and (address.is_api or not caller.token):
        return ALL_METHODS
    if address.is_api:
        return tuple(method for method in METHODS if method in address.answers)
    return METHODS_OF_PAGES if not caller.token or name in TRY_PAGES_BY_TOKEN else ()


def is_redirect(name: str) -> bool:
    """Return whether the name is that of an old address of a row of the admin, which redirects to the row's page."""
    return name.startswith("admin:/admin/") and "object_id" in name


def actions_of(model: str) -> Iterator[str]:
    """Yield the actions of a model's list, as addresses name the model."""
    page = next(page for page in admin.site._registry.values() if page.opts.label_lower.replace(".", "_") == model)
    yield from (action if isinstance(action, str) else action.__name__ for action in page.actions or ())


def _actions(address: Address, url: str, scene: Scene) -> Iterator[Request]:
    model = address.name.removeprefix("admin:").removesuffix("_changelist")
    for action in (*actions_of(model), "delete_selected"):
        body = {
            "action": action,
            "_selected_action": scene.rows[model],
            "index": "0",
            "post": "yes",
            "confirmed": "1",
            "reason": "an attack",
        }
        yield Request(method="POST", name=f"{address.name} {action}", address=address, url=url, body=body)


def _arguments(address: Address, scene: Scene) -> Mapping[str, object]:
    if not address.route.startswith("/admin/"):
        return scene.arguments
    model = "_".join(address.route.split("/")[2:4])
    row = scene.rows.get(model, 1)
    return {**scene.arguments, "object_id": row}


def _missing(value: object) -> object:
    if isinstance(value, UUID):
        return UUID(int=5)
    return 2**31 - 7 if isinstance(value, int) else f"sha256:{7:064d}" if "sha256" in str(value) else "nowhere"


def _body(address: Address, scene: Scene) -> Mapping[str, Any]:
    """Return a valid body, so that a refusal is not caused by the body."""
    if address.name.endswith("_delete"):
        return {"post": "yes"}
    job, group = str(scene.sample.job.pk), scene.sample.group.name
    replica = {"lfn": "/lhcb/a", "storage_element": scene.sample.storage_element.name}
    in_her_group = {"group": group, "request_id": str(UUID(int=6))}
    bodies: Mapping[str, Mapping[str, Any]] = {
        "jobs": {"executable": "run.sh", "group": group},
        "replicas-remove": {"vo": scene.sample.vo.name, "replicas": [replica]},
        "portal:submit": {**in_her_group, "executable": "run.sh", "cpu_time_s": "100", "priority": "1"},
        "portal:submit-json": {**in_her_group, "json": '{"executable": "run.sh"}'},
        "portal:submit-check": {**in_her_group, "executable": "run.sh", "cpu_time_s": "1 h", "priority": "1"},
        "portal:submit-jdl": {**in_her_group, "jdl": '[ Executable = "run.sh"; ]', "syntax": "jdl"},
        "auth-oidc-token": {"handle": scene.handle},
        "auth-oidc-device": {},
        "portal:person-admit": {"group": scene.sample.group.pk},
        "portal:people-membership": {"username": scene.sample.alice.username, "group": group},
        "portal:person-suspension": {"suspended": "yes", "reason": "an attack"},
        "portal:site-downtimes": {
            "begins_at": "2036-01-02T08:00",
            "ends_at": "2036-01-02T12:00",
            "reason": "new disks",
        },
        "portal:site-state": {"state": "draining", "reason": "kernel update", "for_s": "7200"},
        "portal:site-throttle": {
            "policy": "matches",
            "max_matches": "5",
            "when_expired": "count",
            "advertisement_s": "300",
        },
        "portal:site-expression": {"requirements": "CurMatches < 5"},
        "portal:site-limits": {"limit": "", "running": "50"},
        "portal:change-revert": {"reason": "by mistake"},
        "portal:pilots-actions": {
            "action": "drain",
            "ids": [str(scene.sample.pilot.pk)],
            "reason": "kernel update",
            "confirmed": "1",
            "shown": "1",
        },
        "portal:vo-pause": {
            "for_s": "7200",
            "reason": "storage is moved",
            "confirmed": f"No job of {scene.sample.vo} starts while it lasts.",
        },
        "portal:pause-all": {
            "for_s": "7200",
            "reason": "network is moved",
            "confirmed": "No job of all VOs starts while it lasts.",
        },
        "portal:account-mail": {"when": "never"},
        "portal:tokens": {"name": "laptop", "scope": "read", "days": "1"},
        "portal:job-actions": {"action": "kill"},
        "portal:jobs-retry": {"memory_mb": "4 GB", "request_id": "7c3ef5a1-90a2-4a57-9b0c-8a2f7cbd1c11"},
        "portal:jobs-actions": {"action": "kill", "ids": [job], "confirmed": "1", "shown": "1"},
    }
    return bodies.get(address.name) or scene.sample.body(address.name)
