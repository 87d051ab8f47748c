"""The ledger: what each client was told, apart from the database, and what contradicts itself in it."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import combinations
from math import inf
from threading import Lock

from tests.chaos.figures import Violation

RUN_TWICE = "A job is not run twice at one time"
WRONG_ANSWER = "A failure of the server is answered with 503"
REFUSED = "No valid credential is refused"
DEAD_LEASE = "A report on the lease of a dead attempt is refused"

_REPORT = re.compile(r"/api/v1/matches/([0-9a-f-]{36})/(status|heartbeat|finish)/")
_MATCHES = "/api/v1/matches/"


class Kind(StrEnum):
    """The pilots for which a job is."""

    SIMULATED = "simulated"
    REAL = "real"
    #: It fits no pilot, so that there are shares to add up at the end.
    PARKED = "parked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The time in which a simulated pilot ran a job, in seconds of the monotonic clock."""

    job: int
    lease: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A report that ended a lease, and whether the pilot was told that it was accepted."""

    job: int
    lease: str
    exit_code: int
    output: str
    told: bool


@dataclass(slots=True, kw_only=True)
class Lease:
    """A lease of which an answer of the server spoke; times of the monotonic clock."""

    job: int
    answered: float
    #: When an answer said that it had ended.
    ended: float = inf
    #: When the last report was sent that was accepted although it was not the last one.
    accepted: float = -inf


@dataclass(kw_only=True)
class Ledger:
    """The answers of the server: a record of jobs, leases and ends that does not come from its database."""

    #: {job: the pilots for which it is}, as submissions were answered.
    accepted: dict[int, Kind] = field(default_factory=dict)
    #: Jobs whose kill was requested; accepted by an answer, or not known.
    killed: set[int] = field(default_factory=set)
    perhaps_killed: set[int] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    leases: dict[str, Lease] = field(default_factory=dict)
    #: Answers that no client should get; refusals of credentials, which are all valid.
    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def submitted(self, jobs: list[int], kind: Kind) -> None:
        """Note the answer to a submission."""
        with self._lock:
            self.accepted |= dict.fromkeys(jobs, kind)

    def outstanding(self, kind: Kind) -> int:
        """Return the number of jobs of which no lease has ended yet."""
        with self._lock:
            ended = {lease.job for lease in self.leases.values() if lease.ended < inf} | self.killed
            return sum(of is kind and job not in ended for job, of in self.accepted.items())

    def answered(self, path: str, status: int, body: bytes, *, sent: float, heard: float) -> None:
        """Note an answer of the server, whether or not its client gets it."""
        with self._lock:
            if status >= 500 and status != 503:
                self.wrong.append(f"{path}: {status} {body[:300]!r}")
            elif status == 401:
                self.refused.append(f"{path}: {body[:300]!r}")
            elif path == _MATCHES and status == 201:
                leased = json.loads(body)
                for each in leased.get("leases", [leased]):
                    # A repeated request gets its leases also when they are over.
                    if datetime.fromisoformat(each["expires_at"]) > datetime.now(UTC):
                        self.leases.setdefault(each["match_id"], Lease(job=each["job"]["id"], answered=heard))
            elif report := _REPORT.fullmatch(path):
                self._reported(report[1], report[2], status, body, sent=sent, heard=heard)

    def _reported(self, lease_id: str, report: str, status: int, body: bytes, *, sent: float, heard: float) -> None:
        lease = self.leases.get(lease_id)
        if lease is None:
            return
        if (status == 200 and report == "finish") or (status == 409 and b"lease_ended" in body):
            lease.ended = min(lease.ended, heard)
        elif status == 200:
            lease.accepted = max(lease.accepted, sent)

    def contradictions(self) -> Iterator[Violation]:
        """Yield what was answered and must not be, by the ledger alone."""
        for invariant, texts in ((WRONG_ANSWER, self.wrong), (REFUSED, self.refused)):
            yield from (Violation(invariant=invariant, what=text) for text in texts)
        yield from self._run_twice()
        yield from self._dead_leases()

    def _run_twice(self) -> Iterator[Violation]:
        of_job: dict[int, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            of_job[attempt.job].append(attempt)
        for job, attempts in of_job.items():
            for one, other in combinations(attempts, 2):
                if one.began < other.ended and other.began < one.ended:
                    yield Violation(invariant=RUN_TWICE, what=f"job {job}, leases {one.lease} and {other.lease}")

    def _dead_leases(self) -> Iterator[Violation]:
        of_job: dict[int, list[tuple[float, str]]] = defaultdict(list)
        for number, lease in self.leases.items():
            of_job[lease.job].append((lease.answered, number))
            if lease.accepted > lease.ended:
                yield Violation(invariant=DEAD_LEASE, what=f"lease {number} of job {lease.job} had ended")
        for job, leases in of_job.items():
            for (_, older), (answered, newer) in combinations(sorted(leases), 2):
                if self.leases[older].accepted > answered:
                    yield Violation(invariant=DEAD_LEASE, what=f"{older} of job {job}, which {newer} had got")
