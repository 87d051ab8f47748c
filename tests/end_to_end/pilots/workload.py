"""A hundred jobs of many kinds, of three users in two groups, and their expected ends."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.end_to_end.pilots.grid import FIRST, PLAIN, SECOND, System
from wms.demo.workload import open_python

PAYLOAD = Path(__file__).with_name("payload.py")
#: The file that held jobs wait for, unless the test names another.
CALM = "calm"
WORDS = ("pear", "apple", "quince", "fig")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedJob:
    """One submitted job and its expected end; ``site`` None: at any site."""

    id: int
    owner: str
    kind: str
    status: str = "Done"
    exit_code: int = 0
    site: str | None = None
    at_least_reschedules: int = 0


class Workload:
    """Functions that submit jobs, whose payloads write diaries into the directory."""

    def __init__(self, system: System, directory: Path) -> None:
        self._system = system
        self._directory = directory

    def submit_all(self) -> Sequence[ExpectedJob]:
        """Submit a hundred jobs."""
        held = [*self.held(FIRST, "alice", 3), *self.held(SECOND, "bob", 3), *self.held(PLAIN, "charlie", 2)]
        return [*held, *self._short(), *self._sandboxes(), *self._ended(), *self._large(), *self._placed()]

    def held(self, site: str, owner: str, count: int, *, until: str = CALM) -> Iterator[ExpectedJob]:
        """Submit jobs at a site that end when the test writes a file of this name."""
        yield from self._many(owner, "held", count, ["until", until], sites=[site], site=site)

    def _short(self) -> Iterator[ExpectedJob]:
        body = self._body(["sleep", "%s"], parameters={"count": 20, "start": 0.05, "step": 0.1})
        for job_id in self._system.submit("alice", body):
            yield ExpectedJob(id=job_id, owner="alice", kind="parametric")

    def _sandboxes(self) -> Iterator[ExpectedJob]:
        words = self._directory / "words.txt"
        words.write_text("\n".join(WORDS))
        body = {
            **self._body(["sort", "words.txt", "sorted.txt"], program="payload.py"),
            "input_sandbox": [self._system.upload("bob", file) for file in (PAYLOAD, words)],
            "output_sandbox": ["sorted.txt"],
        }
        for job_id in self._system.submit("bob", {"jobs": [body] * 10, "group": "physics"}):
            yield ExpectedJob(id=job_id, owner="bob", kind="sandboxes")

    def _ended(self) -> Iterator[ExpectedJob]:
        yield from self._many("charlie", "failing", 10, ["exit", "1"], status="Failed", exit_code=1)
        yield from self._many("charlie", "again", 8, ["again"], at_least_reschedules=1)

    def _large(self) -> Iterator[ExpectedJob]:
        yield from self._many("bob", "two cores", 8, ["sleep", "1"], processors=2, site=FIRST)
        yield from self._many("alice", "eating", 8, ["eat", "1"])
        yield from self._many("bob", "private", 6, ["sleep", "0.5"], pilot_types=["private"])

    def _placed(self) -> Iterator[ExpectedJob]:
        short = ["sleep", "0.5"]
        yield from self._many("charlie", "platform", 6, short, platforms=["x86_64-el9"], site=FIRST)
        yield from self._many("alice", "tag", 6, short, tags=["big"], site=SECOND)
        yield from self._many("bob", "software", 4, short, requirements={"SoftwareTag": "Gauss-v56"}, site=SECOND)
        yield from self._many("charlie", "site", 4, short, sites=[PLAIN], site=PLAIN)
        yield from self._many("charlie", "elsewhere", 2, short, banned_sites=[FIRST, SECOND], site=PLAIN)

    def _many(
        self,
        owner: str,
        kind: str,
        count: int,
        arguments: Sequence[str],
        *,
        status: str = "Done",
        exit_code: int = 0,
        site: str | None = None,
        at_least_reschedules: int = 0,
        **wanted: Any,
    ) -> Iterator[ExpectedJob]:
        for job_id in self._system.submit(owner, {"jobs": [self._body(arguments, **wanted)] * count}):
            yield ExpectedJob(
                id=job_id, owner=owner, kind=kind, status=status, exit_code=exit_code, site=site,
                at_least_reschedules=at_least_reschedules,
            )  # fmt: skip

    def _body(self, arguments: Sequence[str], *, program: str = str(PAYLOAD), **wanted: Any) -> Mapping[str, Any]:
        words = [program, str(self._directory), *arguments]
        return {"executable": open_python(), "arguments": words, "cpu_time_s": 400, **wanted}


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One attempt of a job: its first and its last line, in seconds of this machine's monotonic clock."""

    job: int
    copy: str
    #: Where it ran.
    place: Path
    began: float
    last_seen: float
    ended: bool


def lives(directory: Path) -> Sequence[Life]:
    """Return the attempts of each job, from the diaries, in the order in which they began."""
    return [life for diary in sorted(directory.glob("*.diary")) for life in _lives_in(diary)]


def twice_at_once(directory: Path) -> Sequence[tuple[Life, Life]]:
    """Return the attempts of a job of which one began before the last line of another."""
    found = lives(directory)
    return [
        (one, other)
        for one in found
        for other in found
        if one.job == other.job and one.copy != other.copy and one.began <= other.began <= one.last_seen
    ]


def remove_leftovers(directory: Path) -> None:
    """Remove the files that killed pilots left on the disk of their node."""
    for life in lives(directory):
        # Payloads run in one of the directories of their job.
        shutil.rmtree(life.place.parent, ignore_errors=True)


def _lives_in(diary: Path) -> Sequence[Life]:
    entries: dict[str, list[tuple[float, str]]] = {}
    job = 0
    for line in diary.read_text().splitlines():
        number, copy, moment, word = line.split()
        job = int(number)
        entries.setdefault(copy, []).append((float(moment), word))
    found = [
        Life(
            job=job,
            copy=copy,
            place=Path(lines[0][1].removeprefix("in-")),
            began=min(moment for moment, _ in lines),
            last_seen=max(moment for moment, _ in lines),
            ended=any(word.startswith("ends") for _, word in lines),
        )
        for copy, lines in entries.items()
    ]
    return sorted(found, key=lambda life: life.began)
