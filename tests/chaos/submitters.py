"""Users over REST, in threads: they submit jobs, kill, hold and release some, and look at them."""

from http import HTTPStatus
from random import Random
from uuid import uuid4

from tests.chaos.ledger import Kind
from tests.chaos.sample import PARKED_TAG, REAL_SITE, SIMULATED_SITE
from tests.chaos.world import Caller, World

#: Jobs that wait for pilots; submitters then pause.
_ENOUGH_WAITING = 60
_ENOUGH_REAL = 4


class Submitter:
    """A user who submits jobs, kills, holds and releases some, and looks at them."""

    def __init__(self, world: World, *, name: str, password: str, seed: int) -> None:
        self._world = world
        self._chance = Random(seed)
        self._caller = Caller(world)
        self._log_in = {"username": name, "password": password}
        self._own: list[int] = []

    def run(self) -> None:
        """Work until submitters are to stop."""
        token = self._caller.ask("POST", "/auth/token/", self._log_in).body["token"]
        self._caller.credential = token
        while not self._world.submitted.wait(self._chance.uniform(0.2, 1.5)):
            if self._world.ledger.outstanding(Kind.SIMULATED) < _ENOUGH_WAITING:
                self._submit()
            self._chance.choice([self._kill, self._hold_and_release, self._look, self._look])()

    def _submit(self) -> None:
        kind = self._chance.choices([Kind.SIMULATED, Kind.PARKED, Kind.REAL], [20, 1, 2])[0]
        if kind is Kind.REAL and not self._wants_real():
            kind = Kind.SIMULATED
        job: dict[str, object] = {
            "cpu_time_s": self._chance.choice([300, 3000]),
            "priority": self._chance.choice([1, 5, 10]),
        }
        many = 1
        if kind is Kind.REAL:
            job |= {**self._world.payload(self._chance.uniform(0.2, 6.0)), "sites": [REAL_SITE]}
        else:
            many = self._chance.randint(1, 8)
            # A long body is read only when its caller is known.
            arguments = self._chance.choice([0, 1000]) * ["argument"]
            job |= {"executable": "simulated.sh", "arguments": arguments, "sites": [SIMULATED_SITE]}
            if kind is Kind.PARKED:
                job["tags"] = [PARKED_TAG]
        request = {"request_id": str(uuid4()), "jobs": [job] * many}
        answer = self._caller.ask("POST", "/jobs/", request)
        if answer.status != HTTPStatus.CREATED:
            self._world.ledger.wrong.append(f"submission: {answer.status} {answer.body}")
            return
        jobs = [each["id"] for each in answer.body["jobs"]]
        self._world.ledger.submitted(jobs, kind)
        self._world.figures.count(self._world.figures.operations, f"jobs accepted, {kind}", many)
        self._own += jobs if kind is Kind.SIMULATED else []

    def _wants_real(self) -> bool:
        return self._world.with_agents and self._world.ledger.outstanding(Kind.REAL) < _ENOUGH_REAL

    def _kill(self) -> None:
        if self._own and self._chance.random() < 0.5:
            job = self._chance.choice(self._own[-20:])
            self.kill(job)

    def kill(self, job: int) -> None:
        """Kill a job, and note what was answered; a repeated request is refused if the first one was not."""
        self._world.ledger.perhaps_killed.add(job)
        if self._caller.ask("POST", f"/jobs/{job}/kill/").status == HTTPStatus.OK:
            self._world.ledger.killed.add(job)
            self._world.figures.count(self._world.figures.operations, "jobs killed")

    def kill_all(self, jobs: list[int]) -> None:
        """Kill jobs, of which some are others', by one request."""
        self._world.ledger.perhaps_killed.update(jobs)
        self._caller.ask("POST", "/jobs/bulk/", {"action": "kill", "ids": jobs})

    def _hold_and_release(self) -> None:
        if not self._own:
            return
        job = self._chance.choice(self._own[-20:])
        self._caller.ask("POST", f"/jobs/{job}/hold/", {"reason": "chaos"})
        # Whatever was answered: a repetition that comes late may hold it once more.
        self._caller.ask("POST", f"/jobs/{job}/release/")

    def release_all(self, jobs: list[int]) -> None:
        """Release jobs that a late repetition has held."""
        self._caller.ask("POST", "/jobs/bulk/", {"action": "release", "ids": jobs})

    def _look(self) -> None:
        paths = ["/jobs/?status=Running", "/jobs/summary/?group_by=status", "/submissions/"]
        if self._own:
            paths.append(f"/jobs/{self._chance.choice(self._own)}/")
        self._caller.once("GET", self._chance.choice(paths))
