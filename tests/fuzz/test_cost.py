"""The cost of small requests: no input of 64 kB takes the server more than about a second."""

import json
import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from resources.models import ComputingElement, Queue, Site
from tests.fuzz.sample import SampleData
from tests.fuzz.test_hostile_bodies import GOOD
from tests.pace import cpu_within

SMALL_BYTES: Final = 64 * 1024
#: CPU time of this process on the reference machine; quadratic costs are ten times as much.
MOST_S: Final = 3.0


def many(part: Any, *, of: Callable[[list[Any]], object] = list) -> object:
    """Return as many copies of *part* as fit into 64 kB, in what *of* makes of them."""
    return of([part] * ((SMALL_BYTES - 500) // (len(json.dumps(part)) + 2)))


def numbered(template: str, *, most: int = 100_000) -> list[str]:
    """Return different texts, as many as fit into 64 kB."""
    return [template % number for number in range(min(most, SMALL_BYTES // (len(template % 10_000) + 6)))]


#: Near enough to the names of many sites that each is compared in full.
MISSPELT: Final = "LCG.Sitee%03d.exmaple.org" + "x" * 30
COSTLY: Final[dict[str, tuple[str, object]]] = {
    "unknown sites": ("submit", {"executable": "a", "sites": numbered(MISSPELT, most=1000)}),
    "unknown sites in many jobs": (
        "submit",
        {"jobs": [{"executable": "a", "banned_sites": [name]} for name in numbered(MISSPELT, most=600)]},
    ),
    "unknown setups": (
        "submit",
        {"jobs": [{"executable": "a", "setup": name} for name in numbered("LHCb-Prod%d", most=1100)]},
    ),
    "unknown requirements": (
        "submit",
        {"jobs": [{"executable": "a", "requirements": {f"Memry{n}_{m}": 1 for m in range(25)}} for n in range(99)]},
    ),
    "different requirements": (
        "submit",
        {"jobs": [{"executable": "a", "requirements": {"Memory": number}} for number in range(99)]},
    ),
    "unknown sandboxes": ("submit", {"executable": "a", "input_sandbox": [f"sha256:{n:064d}" for n in range(800)]}),
    "unknown fields": ("submit", dict.fromkeys(numbered("executabel%d"), 1)),
    "unknown fields of jobs": ("submit", many({"executabel": "x" * 20}, of=lambda jobs: {"jobs": jobs})),
    "unknown fields of an offer": ("match", dict.fromkeys(numbered("cpu_tiem_s%d"), 1)),
    "empty values": ("submit", {"executable": "a", "arguments": "%s" * 10_000, "parameters": {"values": [""] * 9000}}),
    "many numbers": ("submit", {"executable": "a", "arguments": "%n" * 16_000, "parameters": {"count": 10_000}}),
    "many job ids": ("submit", {"executable": "a", "arguments": "%j" * 16_000, "parameters": {"count": 1000}}),
    "job ids in an environment": (
        "submit",
        {"executable": "a", "environment": {"A": "%j" * 10_000, "B": "%j" * 10_000}, "parameters": {"count": 500}},
    ),
    "many sequences": (
        "submit",
        {"executable": "a", "parameters": {f"s{number}": {"count": 10_000} for number in range(100)}},
    ),
    "a JDL of references": ("submit", {"jdl": 'Executable = "a";' + "".join(f"a{n}=a{n + 1};" for n in range(4000))}),
    "a JDL of one long name": ("submit", {"jdl": "Executabel" * 6000 + " = 1;"}),
    "a JDL of sums of sums": (
        "submit",
        {"jdl": f"Executable = Priority; Priority = Memory{'+Memory' * 3000}; Memory = 1{'+1' * 3000};"},
    ),
    "a JDL of strings": ("submit", {"jdl": 'Executable = "a"; InputData = {' + ",".join(['"x"'] * 10_000) + "};"}),
    "a JDL of brackets": ("submit", {"jdl": "Executable = " + "(" * 60_000}),
    "a JDL of empty lines": ("submit", {"jdl": "\n" * 35_000 + "Executable = ("}),
    "a JDL of names": ("submit", {"jdl": "[a" * 12_000 + "\n" * 20_000 + "="}),
    "a JDL of comments": ("submit", {"jdl": "/*/" * 20_000}),
    "a JDL of texts without quotes": ("submit", {"jdl": "InputData = {" + "a," * 30_000 + "}"}),
    "a JDL of commas": ("submit", {"jdl": "InputData = {" + "," * 60_000}),
    "a JDL of braces": ("submit", {"jdl": "Parameters = " + "{" * 60_000}),
    "a JDL of lists that do not end": ("submit", {"jdl": "a={{{\n" * 8000}),
    "a JDL of comments that do not end": ("submit", {"jdl": 'a={"x" /*' * 6000}),
    "a JDL of closing brackets": ("submit", {"jdl": "[ a = b" + "] " * 30_000}),
    "a JDL of repeated attributes": ("submit", {"jdl": "JobName = a;" * 5000}),
    "many JDLs": ("submit", {"jobs": [{"jdl": 'Executable="a"'}] * 1700}),
    "a log-in of unknown fields": ("log in", dict.fromkeys(numbered("usrname%d"), "x")),
    "wrong ids": ("bulk by ids", {"action": "kill", "ids": [""] * 15_000}),
    "unknown ids": ("bulk by ids", {"action": "kill", "ids": list(range(10**6, 10**6 + 7000))}),
    "many statuses": ("bulk by filter", {"action": "kill", "filter": {"status": ["waiting"] * 5000}}),
    "unknown sites of an edit": ("edit", {"sites": numbered(MISSPELT, most=1000)}),
    "tags of an offer": (
        "preview",
        {"cpu_time_s": 1, "tags": numbered("tag%d", most=1000), "platforms": numbered("p%d", most=1000)},
    ),
    "wrong tags of an offer": ("preview", {"cpu_time_s": 1, "tags": [1] * 20_000}),
    "a node of many numbers": ("report", {"host_name": "h", "ok": True, "node": {"x": [1] * 20_000}}),
    "checks": (
        "report",
        {"host_name": "h", "ok": False, "checks": [{"name": "a" * 64, "ok": False, "detail": "x" * 500}] * 100},
    ),
    "an advertisement of sums of sums": (
        "advertise ClassAd",
        {"classad": f"CurMatches = A; MaxJobs = A; CurrentJobs = A; A = B{'+B' * 3000}; B = 1{'+1' * 3000};"},
    ),
    "acknowledgements": ("heartbeat", {"acknowledged": list(range(9000))}),
    "a tail of output": ("heartbeat", {"std_output": "\n" * 30_000}),
}


@pytest.fixture
def crowded(sample: SampleData) -> SampleData:
    """Return the sample system with 150 more sites, of one queue each."""
    numbers = range(150)
    sites = Site.objects.bulk_create(
        Site(name=f"LCG.Site{number:03d}.example.org", parameters={f"P{number}": 1}) for number in numbers
    )
    ces = ComputingElement.objects.bulk_create(
        ComputingElement(name=f"ce.{site}", site=site, type="local") for site in sites
    )
    Queue.objects.bulk_create(
        Queue(name="grid", ce=ce, cpu_time_s=300_000, parameters={"Memory": number})
        for number, ce in zip(numbers, ces, strict=True)
    )
    return sample


@pytest.mark.parametrize("name", COSTLY)
def test_a_small_request_takes_little_time(crowded: SampleData, name: str) -> None:
    kind, body = COSTLY[name]
    good = GOOD[kind]
    address = good.address.format(job=crowded.job_ids[0], match=crowded.match_ids[0])
    client = APIClient(headers=crowded.headers_of(good.caller))
    text = json.dumps(body)
    assert len(text) <= 1.2 * SMALL_BYTES
    client.generic(good.method.upper(), address, "{}", content_type="application/json")  # what is done once is done

    before = time.process_time()
    answer = client.generic(good.method.upper(), address, text, content_type="application/json")
    cost_s = time.process_time() - before

    assert answer.status_code < 500
    assert len(answer.content) < 4 * SMALL_BYTES
    assert cost_s < cpu_within(MOST_S)
