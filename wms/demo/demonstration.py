"""The steps of the demonstration: log in, submit, watch, kill one job, fetch outputs, check the results."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlencode
from uuid import uuid4

from wms.demo import display
from wms.demo.job_table import OPEN, ListedJob, WatchedJob
from wms.demo.rest import DemoRefusedError, DemoUnreachableError, Session, path_of, records_of, text_of
from wms.demo.workload import JOB_GROUP, DemoSubmission
from wms.jobs.domain.lifecycle import JobStatus
from wms.stack.output import Output
from wms.wire.protocol import API_V1

_NAME = "demo"
_LOOK_EVERY_S = 1.0
_LINE_EVERY_S = 3.0
_PAGE = 1000


@dataclass(kw_only=True)
class Demonstration:
    """One demonstration.

    Args:
        host, port: of the web server.
        passwords: of the sample's users.
        watcher: the one of them who may see and kill all jobs.
        submissions: to be submitted.
        count_pilots: returns the number of living pilots; called in a thread.
        standstill_s: seconds in which no job changed its status, after which unfinished jobs count as failed.
    """

    host: str
    port: int
    passwords: Mapping[str, str]
    watcher: str
    submissions: Sequence[DemoSubmission]
    count_pilots: Callable[[], int]
    standstill_s: float
    jobs: dict[int, WatchedJob] = field(default_factory=dict)
    #: Whether it ran to its end, with success or not.
    finished: bool = False
    _sessions: dict[str, Session] = field(default_factory=dict)
    _printed_at: float = 0.0

    @property
    def faults(self) -> list[str]:
        """Return a sentence for each deviation from the expected results."""
        ordered = sorted(self.jobs.values(), key=lambda job: job.row.id)
        return [f"Job {job.row.id} ({job.row.name}) {fault}." for job in ordered for fault in job.faults]

    async def run(self, output: Output) -> None:
        """Run all steps.

        Raises:
            DemoRefusedError: the server refuses a request.
            DemoUnreachableError: the server does not answer a request that is not repeated.
        """
        try:
            await self._end_earlier_ones()
            for submission in self.submissions:
                await self._submit(submission)
            output.line(_NAME, f"{len(self.jobs)} jobs are submitted; pilots come for them")
            await self._watch(output)
        finally:
            output.block(())
        self.finished = True

    async def _session(self, username: str) -> Session:
        if username not in self._sessions:
            self._sessions[username] = await Session.begin(
                host=self.host, port=self.port, username=username, password=self.passwords[username]
            )
        return self._sessions[username]

    async def _end_earlier_ones(self) -> None:
        """Kill the jobs of an interrupted demonstration."""
        watcher = await self._session(self.watcher)
        left = {"job_group": JOB_GROUP, "status": sorted(OPEN)}
        await watcher.post(f"{API_V1}jobs/bulk/", {"action": "kill", "filter": left})

    async def _submit(self, submission: DemoSubmission) -> None:
        session = await self._session(submission.owner)
        body = {**submission.body, "request_id": str(uuid4())}
        if submission.files:
            body["input_sandbox"] = [await session.upload(file) for file in submission.files]
        submitted = records_of(await session.post(f"{API_V1}jobs/", body), "jobs")
        if len(submitted) != len(submission.expected):
            raise DemoRefusedError(f"{len(submission.expected)} jobs were submitted, and {len(submitted)} accepted.")
        for job, expected in zip(map(ListedJob.read, submitted), submission.expected, strict=True):
            self.jobs[job.id] = WatchedJob(
                row=job, owner=submission.owner, expected=expected, killed_by=submission.killed_by
            )

    async def _watch(self, output: Output) -> None:
        begun = changed_at = time.monotonic()
        statuses: list[str] = []
        while True:
            with suppress(DemoUnreachableError):  # repeated in the next round
                await self._look()
                await self._fetch_outputs()
                await self._kill()
            now = time.monotonic()
            if statuses != (current := [job.row.status for job in self.jobs.values()]):
                statuses, changed_at = current, now
            await self._show(output, elapsed_s=now - begun)
            if all(job.is_settled for job in self.jobs.values()) or now - changed_at >= self.standstill_s:
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self) -> None:
        """Read the rows of all jobs, newest first, so that those of earlier demonstrations come last."""
        watcher = await self._session(self.watcher)
        missing = set(self.jobs)
        path = f"{API_V1}jobs/?{urlencode({'job_group': JOB_GROUP, 'page_size': _PAGE})}"
        while missing and path:
            page = await watcher.get(path)
            for row in map(ListedJob.read, records_of(page, "results")):
                if row.id in self.jobs:
                    self.jobs[row.id] = self.jobs[row.id].seen(row)
                    missing.discard(row.id)
            path = path_of(text_of(page, "next"))

    async def _fetch_outputs(self) -> None:
        for job in [job for job in self.jobs.values() if job.output_is_due]:
            session = await self._session(job.owner)
            self.jobs[job.row.id] = job.with_output(await session.output(job.row.id))

    async def _kill(self) -> None:
        """Kill the jobs that are to be killed, once their output shows that they run."""
        for job in list(self.jobs.values()):
            if job.killed_by is None or job.row.status != JobStatus.RUNNING:
                continue
            session = await self._session(job.killed_by)
            path = f"{API_V1}jobs/{job.row.id}"
            if text_of(await session.get(f"{path}/peek/"), "std_output"):
                with suppress(DemoRefusedError):  # it has ended by itself, which the check of the results reports
                    await session.post(f"{path}/kill/", {})

    async def _show(self, output: Output, *, elapsed_s: float) -> None:
        pilots = await asyncio.to_thread(self.count_pilots)
        progress = display.progress_of((job.row for job in self.jobs.values()), elapsed_s=elapsed_s, pilots=pilots)
        if output.is_terminal:
            output.block(display.block_of(progress))
        elif elapsed_s - self._printed_at >= _LINE_EVERY_S:
            self._printed_at = elapsed_s
            output.line(_NAME, display.line_of(progress))
