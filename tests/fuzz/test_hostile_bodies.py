"""Bodies that are nearly valid: one part of a valid body is replaced by a hostile value, and the server never fails.

Schemathesis is refused at the first wrong field; these bodies reach the code behind: names and ids in them exist.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest
from django.apps import apps
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from tests.fuzz.conftest import EXAMPLES, Fresh
from tests.fuzz.sample import PASSWORD, SampleData
from tests.problems import MEMBERS
from wms.accounts.models import FailedLogIn, SecurityEvent

Json: TypeAlias = Any
Path: TypeAlias = tuple[str | int, ...]

DESCRIPTION: Final[Mapping[str, Json]] = {
    "executable": "run.sh",
    "arguments": "1 'two three'",
    "job_name": "sim",
    "job_group": "mc",
    "job_type": "User",
    "cpu_time_s": 3600,
    "priority": 5,
    "sites": ["LCG.CERN.ch"],
    "banned_sites": ["LCG.RAL.uk"],
    "grid_ces": ["ce01.cern.ch"],
    "platforms": ["x86_64-el9"],
    "pilot_types": ["generic"],
    "grid_middlewares": ["local"],
    "setup": "LHCb-Devel",
    "tags": ["gpu"],
    "processors": 1,
    "memory_mb": 1000,
    "wall_time_s": 3600,
    "gpus": 1,
    "disk_mb": 100,
    "container": "docker://alpine",
    "requirements": {"Memory": 2000, "SoftwareTag": ["v1", "v2"]},
    "software": ["python3"],
    "input_data": ["/lhcb/a"],
    "output_sandbox": ["*.txt"],
    "output_data": ["out"],
    "input_data_policy": "in_place",
    "output_se": "CERN-DST",
    "output_path": None,
    "std_output": "a.out",
    "std_error": "a.err",
    "environment": {"A": "b"},
}
JDL: Final = 'Executable = "a"; Site = {"LCG.CERN.ch"}; CPUTime = 60 * 2; Requirements = [Memory = 2000;];'
OFFER: Final[Mapping[str, Json]] = {
    "vo": "lhcb",
    "setup": "LHCb-Production",
    "site": "LCG.CERN.ch",
    "ce": "ce01.cern.ch",
    "queue": "grid",
    "platforms": ["x86_64-el9"],
    "cpu_time_s": 300_000,
    "tags": ["gpu", "fast"],
    "required_tags": [],
    "processors": 4,
    "memory_mb": 4000,
    "wall_time_s": 86_400,
    "gpus": 2,
    "disk_mb": 1000,
    "container": True,
    "job_types": ["User"],
    "submit_pools": [],
    "grid_middleware": "local",
    "request_id": "123e4567-e89b-42d3-a456-426614174000",
    "max_jobs": 2,
}
USAGE: Final[Mapping[str, Json]] = {"cpu_s": 1.5, "wall_s": 2, "memory_mb": 3, "disk_mb": 4.5}
ADVERTISEMENT: Final[Mapping[str, Json]] = {
    "current_submitting_jobs": 1,
    "current_gathering_output_jobs": 2,
    "current_jobs": 3,
    "cur_matches": 4,
    "max_matches": 5,
    "max_submitting_jobs": 6,
    "max_submitting_and_output_gathering_jobs": 7,
    "max_jobs": 8,
    "sequence": 9,
    "measured_s_ago": 0.5,
}
CLASSAD: Final = (
    "[ CurMatches = 0; MaxJobs = 2 * 3; WantAdReevaluate = true; Requirements = TARGET.Processors < CurMatches; ]"
)
CHECK: Final[Mapping[str, Json]] = {"name": "disk", "ok": True, "detail": "10 GB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Good:
    """A valid request; ``{job}``, ``{held}`` and ``{match}`` in its address stand for ids of the sample system."""

    caller: str
    address: str
    body: Json
    method: str = "post"


GOOD: Final[Mapping[str, Good]] = {
    "submit": Good(caller="member", address="/api/v1/jobs/", body={**DESCRIPTION, "group": "lhcb_prod"}),
    "submit again": Good(
        caller="member", address="/api/v1/jobs/", body={"executable": "a", "request_id": OFFER["request_id"]}
    ),
    "submit JDL": Good(caller="member", address="/api/v1/jobs/", body={"jdl": JDL, "group": None}),
    "submit list": Good(
        caller="operator", address="/api/v1/jobs/", body={"jobs": [DESCRIPTION, {"jdl": JDL}, {"executable": "b"}]}
    ),
    "submit parametric": Good(
        caller="member",
        address="/api/v1/jobs/",
        body={
            "executable": "run %s %n %j %%",
            "environment": {"A": "%s"},
            "parameters": {"count": 3, "start": 1, "step": 2, "factor": 1.5},
        },
    ),
    "submit named sequences": Good(
        caller="member",
        address="/api/v1/jobs/",
        body={
            "executable": "run %(seed)s %(file)s",
            "parameters": {"seed": {"count": 2, "start": 1}, "file": {"values": ["a", 2]}},
        },
    ),
    "register replicas": Good(
        caller="manager",
        address="/api/v1/replicas/",
        body={
            "vo": "lhcb",
            "replicas": [
                {"lfn": "/lhcb/b", "storage_element": "CERN-DST", "size_bytes": 5, "checksum": "adler32:0000000a"},
                {"lfn": "LFN:/lhcb/c", "storage_element": "CERN-DST"},
            ],
        },
    ),
    "remove replicas": Good(
        caller="operator",
        address="/api/v1/replicas/remove/",
        body={"replicas": [{"lfn": "/lhcb/a", "storage_element": "CERN-DST"}, {"lfn": "/lhcb/b"}]},
    ),
    "edit": Good(
        caller="member",
        address="/api/v1/jobs/{job}/",
        method="patch",
        body={"priority": 3, "sites": ["LCG.CERN.ch"], "banned_sites": ["LCG.RAL.uk"], "job_name": "b"},
    ),
    "hold": Good(caller="member", address="/api/v1/jobs/{job}/hold/", body={"reason": "later"}),
    "kill": Good(caller="member", address="/api/v1/jobs/{job}/kill/", body={}),
    "bulk by ids": Good(
        caller="manager", address="/api/v1/jobs/bulk/", body={"action": "hold", "ids": [1, 2], "reason": "x"}
    ),
    "bulk by filter": Good(
        caller="operator",
        address="/api/v1/jobs/bulk/",
        body={
            "action": "kill",
            "filter": {
                "status": ["Waiting", "held"],
                "site": "LCG.CERN.ch",
                "owner": "alice",
                "group": "lhcb_user",
                "vo": "lhcb",
                "job_name": "sim",
                "job_group": "mc",
                "job_group_id": OFFER["request_id"],
                "job_type": "User",
                "submitted_after": "2026-01-01T00:00:00Z",
                "submitted_before": "2030-01-01T00:00:00+01:00",
            },
        },
    ),
    "log in": Good(caller="nobody", address="/api/v1/auth/token/", body={"username": "alice", "password": PASSWORD}),
    "match": Good(caller="pilot", address="/api/v1/matches/", body=OFFER),
    "preview": Good(
        caller="manager", address="/api/v1/matches/preview/", body={**OFFER, "owner": "alice", "group": "lhcb_user"}
    ),
    "status": Good(
        caller="job",
        address="/api/v1/matches/{match}/status/",
        body={"status": "Running", "minor_status": "a", "application_status": "b"},
    ),
    "heartbeat": Good(
        caller="pilot",
        address="/api/v1/matches/{match}/heartbeat/",
        body={**USAGE, "std_output": "line\nline", "std_error": "line", "acknowledged": [1, 2]},
    ),
    "finish": Good(
        caller="job",
        address="/api/v1/matches/{match}/finish/",
        body={"exit_code": 3, "minor_status": "a", "usage": USAGE, "output_sandbox": None, "std_error": "line"},
    ),
    "register": Good(
        caller="site",
        address="/api/v1/pilots/register/",
        body={"vo": "lhcb", "site": "LCG.CERN.ch", "ce": "ce01.cern.ch", "queue": "grid", "stamp": "s"},
    ),
    "report": Good(
        caller="pilot",
        address="/api/v1/pilots/report/",
        body={"host_name": "h", "batch_id": "1", "ok": True, "checks": [CHECK], "node": {"cpu": {"cores": [1, None]}}},
    ),
    "advertise": Good(caller="gateway", address="/api/v1/sites/LCG.CERN.ch/advertisements/", body=ADVERTISEMENT),
    "advertise ClassAd": Good(
        caller="gateway",
        address="/api/v1/sites/LCG.CERN.ch/advertisements/",
        body={"classad": CLASSAD, "sequence": 9, "measured_s_ago": 1},
    ),
    "leave": Good(caller="pilot", address="/api/v1/pilots/report/", body={"leaving": "no more time"}),
}


def nested(depth: int, *, kind: str) -> Json:
    """Return lists in lists, or objects in objects."""
    value: Json = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


HOSTILE: Final[tuple[Json, ...]] = (
    *(None, True, False, 0, 1, -1, 11, 1.5, -0.0, 1e-320, 1e308, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)),
    *("", " ", "\n", "a\tb", "\u2028", "\u202e", "é", "İ", "ß", "\U0001f600", "\x1b[2J", "ANY", "any", "0", "1.0"),
    *("null", "NaN", "2026-01-01", "2026-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"),
    *("../../etc/passwd", "/etc/passwd", "~root", "a/../b", "$(reboot)", "'", '"', "\\", "%", "%s", "%(x)s", "%n%j%%"),
    *("sha256:" + "0" * 64, "123e4567-e89b-42d3-a456-426614174001", "Waiting", "lhcb", "alice", "LCG.RAL.uk", "v1"),
    *("x" * 65, "x" * 256, "x" * 5000, "x" * 40_000, "é" * 20_000, "[" * 500, "(" * 60_000, "a" * 60_000 + ";"),
    *([], {}, [None], [True], [[]], [{}], [""], {"": ""}, {"a": None}, {"values": []}, {"count": 10_000}, {"count": 0}),
    *(["x"] * 1001, ["LCG.CERN.ch"] * 999, [{}] * 101, {str(number): number for number in range(1001)}),
    *(nested(60, kind="list"), nested(60, kind="object")),
)
KEYS: Final = ("", " ", "a.b", "__class__", "Memory", "memory", "MEMORY", "jobs", "jdl", "group", "x" * 300, "ſ", "%s")


def parts_of(value: Json, path: Path = ()) -> list[Path]:
    """Return the path of every part of a JSON value."""
    inner: list[tuple[str | int, Json]] = []
    if isinstance(value, Mapping):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(found for name, part in inner for found in parts_of(part, (*path, name)))]


def changed(body: Json, path: Path, change: Callable[[Json, str | int], None]) -> Json:
    """Return *body* with *change* applied to the container of the part at *path*."""
    holder: Json = [deepcopy(body)]
    whole, way = holder, (0, *path)
    for name in way[:-1]:
        holder = holder[name]
    change(holder, way[-1])
    return whole[0]


def replaced_by(value: Json) -> Callable[[Json, str | int], None]:
    def change(holder: Json, name: str | int) -> None:
        holder[name] = value

    return change


def removed(holder: Json, name: str | int) -> None:
    if len(holder) > 1 or isinstance(holder, dict):
        del holder[name]


def wrapped(holder: Json, name: str | int) -> None:
    holder[name] = [holder[name]]


def with_key(key: str, value: Json) -> Callable[[Json, str | int], None]:
    def change(holder: Json, name: str | int) -> None:
        if isinstance(holder[name], dict):
            holder[name][key] = value
        else:
            holder[name] = {key: holder[name]}

    return change


#: Made once: Hypothesis looks at every value of a strategy that is new.
CHANGES: Final = (
    (st.sampled_from(HOSTILE) | st.text(max_size=20) | st.integers(-(2**63), 2**63 - 1)).map(replaced_by)
    | st.sampled_from((removed, wrapped))
    | st.builds(with_key, st.sampled_from(KEYS), st.sampled_from(HOSTILE))
)


@st.composite
def hostile_bodies(draw: st.DrawFn, good: Json) -> Json:
    """Draw a valid body with one or two hostile changes."""
    body = good
    for _ in range(draw(st.sampled_from((1, 1, 1, 2)))):
        parts = parts_of(body)
        path = parts[draw(st.integers(0, min(len(parts), 400) - 1))]
        body = changed(body, path, draw(CHANGES))
    return body


def everything() -> list[tuple[str, str]]:
    """Return a digest of every table but those of failed log-ins and refusals, by one query."""
    tables = [table._meta.db_table for table in apps.get_models() if table not in {FailedLogIn, SecurityEvent}]
    digests = (
        f"SELECT '{table}', md5(string_agg(row::text, ' ' ORDER BY row::text)) FROM {table} row" for table in tables
    )
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(digests))
        return sorted(cursor.fetchall())  # UNION ALL keeps no order


@pytest.mark.parametrize("name", GOOD)
def test_nearly_valid_bodies_are_accepted_or_refused_with_one_error(
    sample: SampleData, fresh: Fresh, name: str
) -> None:
    good = GOOD[name]
    address = good.address.format(job=sample.job_ids[0], match=sample.match_ids[0])
    client = APIClient(raise_request_exception=True)
    client.credentials(**{f"HTTP_{header.upper()}": value for header, value in sample.headers_of(good.caller).items()})
    before = everything()

    def send(body: Json) -> tuple[int, Json]:
        answer = getattr(client, good.method)(address, body, format="json")
        return answer.status_code, answer.json() if answer.content else {}

    with fresh():
        status, answer = send(good.body)
        assert status < 300, answer

    @settings(settings.get_profile("fuzz"), max_examples=2 * EXAMPLES)
    @given(hostile_bodies(good.body))
    def attack(body: Json) -> None:
        with fresh():
            status, answer = send(body)
            if status < 300:
                return
            assert status in {400, 401, 403, 404, 409, 413}, answer
            assert set(answer) <= {*MEMBERS, "errors"}
            assert answer["code"].isascii()
            assert len(answer["detail"]) > 10
            assert status != 400 or answer["errors"], answer
            assert everything() == before

    attack()
