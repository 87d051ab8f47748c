"""Simulated pilots, in threads: they report, die, freeze and are late as real ones do, but run nothing."""

import gzip
import time
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus
from random import Random
from typing import Any
from uuid import uuid4

from tests.chaos.ledger import Attempt, End
from tests.chaos.sample import GRACE_S, LEASE_S, REGISTER, SIMULATED_PLACE
from tests.chaos.world import Caller, World
from wms.wire.archives import END, Member, MemberKind, blocks_of

_HEARTBEAT_S = 2.0


class SimulatedPilot:
    """Pilots of one slot, one after another."""

    def __init__(self, world: World, *, seed: int) -> None:
        self._world = world
        self._chance = Random(seed)
        self._caller = Caller(world)

    def run(self) -> None:
        """Be one pilot after another until nothing is left to do."""
        while not self._world.over.is_set():
            self._caller.credential = REGISTER
            answer = self._caller.ask("POST", "/pilots/register/", SIMULATED_PLACE)
            if answer.status != HTTPStatus.CREATED:
                self._world.ledger.wrong.append(f"registration: {answer.status} {answer.body}")
                return
            self._caller.credential = answer.body["token"]
            self._world.figures.count(self._world.figures.operations, "simulated pilots")
            while not self._world.over.is_set() and self._match():
                pass
        self._caller.once("POST", "/pilots/report/", {"leaving": "no work"})

    def _match(self) -> bool:
        """Ask for a job and run it; return whether this pilot lives on."""
        offer = {"request_id": str(uuid4()), "cpu_time_s": 100_000}
        answer = self._caller.ask("POST", "/matches/", offer)
        if answer.status == HTTPStatus.NO_CONTENT:
            self._world.over.wait(min(1.0, answer.retry_after_s))
            return True
        if answer.status != HTTPStatus.CREATED:  # it was silent for too long
            return False
        return _SimulatedJob(self._world, answer.body, chance=self._chance).run()


class _SimulatedJob:
    """One lease of a simulated pilot."""

    def __init__(self, world: World, lease: Mapping[str, Any], *, chance: Random) -> None:
        self._world = world
        self._chance = chance
        self._id = lease["match_id"]
        self._job = lease["job"]["id"]
        self._caller = Caller(world, lease["token"])
        self._began = time.monotonic()
        self._renewed(lease)
        self._is_killed = False
        self._output = ""

    def run(self) -> bool:
        """Run the job, or die, or freeze; return whether the pilot lives on."""
        self._world.figures.count(self._world.figures.operations, "attempts of simulated jobs")
        if time.monotonic() >= self._stop_at:  # the answer took too long
            return True
        self._report("status", {"status": "Running"})
        fate = self._chance.choices(["normal", "dies", "freezes"], [94, 3, 3])[0]
        if fate == "normal":
            return self._work()
        if fate == "freezes":  # as when its machine is suspended: the server hears of it again when the lease is over
            self._end_attempt()
            self._world.given_up.wait(LEASE_S + GRACE_S + self._chance.uniform(1, 10))
            self._report("heartbeat", {"cpu_s": 1.0})
            self._finish(0)
        else:
            self._world.given_up.wait(self._chance.uniform(0, 2))
            self._end_attempt()
        self._world.figures.fault(f"a simulated pilot {fate}", ready_again_s=None)
        return fate == "freezes"

    def _work(self) -> bool:
        done_at = self._began + self._chance.choice([0.1, 0.5, 1.0, 3.0, 12.0])
        while time.monotonic() < min(done_at, self._stop_at) and not self._is_killed:
            time.sleep(max(0.0, min(_HEARTBEAT_S, min(done_at, self._stop_at) - time.monotonic())))
            if not self._report("heartbeat", {"cpu_s": 1.0, "std_output": f"job {self._job}"}):
                self._end_attempt()
                return True
        is_done = time.monotonic() < self._stop_at and not self._is_killed
        self._end_attempt()
        if is_done and self._chance.random() < 0.4:
            self._store_output()
        exit_code = self._chance.choices([0, 1, 222], [90, 5, 5])[0] if is_done else 222
        self._finish(exit_code)
        return True

    def _renewed(self, answer: Mapping[str, Any]) -> None:
        """Take the end of the lease from an answer: the database's clock is that of this machine."""
        left_s = datetime.fromisoformat(answer["expires_at"]).timestamp() - time.time()
        self._stop_at = time.monotonic() + min(left_s, LEASE_S) - GRACE_S

    def _report(self, what: str, body: object) -> bool:
        """Report once; return whether the lease may be open."""
        answer = self._caller.once("POST", f"/matches/{self._id}/{what}/", body)
        if answer.status != HTTPStatus.OK:
            return answer.status != HTTPStatus.CONFLICT
        self._renewed(answer.body)
        if any(command["name"] == "kill" for command in answer.body["commands"]):
            self._is_killed = True
        return True

    def _end_attempt(self) -> None:
        ended = min(time.monotonic(), max(self._began, self._stop_at))
        self._world.ledger.attempts.append(Attempt(job=self._job, lease=self._id, began=self._began, ended=ended))

    def _store_output(self) -> None:
        content = _archive(f"{self._job} {self._id}".encode())
        boundary = uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="output.tar.gz"\r\n\r\n'
        data = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        path = f"/matches/{self._id}/sandboxes/"
        if self._caller.ask("POST", path, content=(kind, data)).status == HTTPStatus.CREATED:
            self._output = f"sha256:{sha256(content).hexdigest()}"

    def _finish(self, exit_code: int) -> None:
        body: dict[str, object] = {"exit_code": exit_code, "usage": {"cpu_s": 1.0}}
        if self._output:
            body["output_sandbox"] = self._output
        told = self._caller.ask("POST", f"/matches/{self._id}/finish/", body).status == HTTPStatus.OK
        end = End(job=self._job, lease=self._id, exit_code=exit_code, output=self._output, told=told)
        self._world.ledger.ends.append(end)
        self._world.figures.count(self._world.figures.operations, "ends of leases acknowledged", told)


def _archive(content: bytes) -> bytes:
    """Return a .tar.gz with one file."""
    member = Member("result.txt", MemberKind.FILE, size_bytes=len(content))
    return gzip.compress(b"".join(blocks_of(member, [content])) + END)
