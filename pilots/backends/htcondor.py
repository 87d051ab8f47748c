"""HTCondor 9 or newer, by its own programs, on the host of a schedd: this machine, or one that is reached through SSH.

No directory has to be shared with the nodes: HTCondor carries the script and the secret there, and the output back when
the pilot has ended. Until then ``condor_tail`` looks at it; that of a pilot that was killed or evicted is lost, which
matters little, for pilots ship their log themselves.

Pilots are known by an attribute of their jobs, ``WmsStamp``, for an answer with the job's number may be lost. Should
one be submitted twice all the same, by a condor_submit that came to its end after its time was over, then the first to
start takes the secret, which is single-use, and the other ends for want of it.
"""

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from pilots.backends.commands import BatchCommandFailedError, CommandLostError, ask_host, commands_of
from pilots.backends.htcondor_options import HELD_BY_A_PERSON, parse_options, quoted
from pilots.backends.interface import (
    BackendError,
    BatchRequest,
    BatchState,
    CEDescription,
    Handle,
    PilotOrder,
    Presence,
    SubmitResult,
)
from pilots.backends.options import words_of_node
from pilots.backends.script import SECRET_FILE, pilot_script

#: On one command line; a line may have 128 kB.
_STAMPS_AT_ONCE = 1000
#: So many of the jobs that left the schedd last are looked at; more than leave between two rounds.
_HISTORY_SCANNED = 20_000
_OUTPUT_BYTES = 2**20
_ATTRIBUTES = (
    "WmsStamp", "ClusterId", "ProcId", "JobStatus", "NumJobStarts", "HoldReason", "HoldReasonCode",
    "LastRejMatchReason", "RemoveReason", "ExitBySignal", "ExitSignal", "ExitCode",
)  # fmt: skip
#: Those that are not in the queue any more are looked for in the history, when there are some. The file of the history
#: is read on this host: a schedd that is down must not let it look as if all had ended, hence the first ``exit``.
_LOOK = """\
queued=$(condor_q -json -constraint {constraint} -attributes {attributes}) || exit
printf '%s\\n---\\n' "$queued"
left=$(({count} - $(printf '%s\\n' "$queued" | grep -c '"WmsStamp"')))
[ "$left" -le 0 ] ||
    condor_history -json -constraint {constraint} -attributes {attributes} -limit "$left" -scanlimit {scanned}
"""
_COUNT = """\
condor_status -json -constraint {unclaimed} -attributes Cpus,Memory,Disk,GPUs,PartitionableSlot || exit
echo ---
condor_q -json -constraint {waiting} -attributes ClusterId
"""
_SUBMITTED = re.compile(r"^(\d+)\.(\d+) - \d+\.\d+$", re.MULTILINE)
_TARGET = re.compile(r"\bTARGET\.", re.IGNORECASE)
#: Values of JobStatus; with the others a pilot runs: running, transferring output, suspended.
_IDLE, _REMOVED, _COMPLETED, _HELD = 1, 3, 4, 5

_Ad = Mapping[str, Any]


class HTCondorBackend:
    """The pilots of one CE in one schedd."""

    def __init__(self, description: CEDescription) -> None:
        """Take the description; see ``Backend``."""
        self._commands, others = commands_of(description.options, directory=description.directory)
        self._options = parse_options(others)
        self._server_url = description.server_url
        #: That pilots ask for; none is known: one core.
        self._slots = [queue.slot for queue in description.queues] or [BatchRequest(queue="")]
        self._place = f"{description.site}/{description.ce}"
        wanted = self._options.directory
        #: Relative to the home directory there, not to wherever this process is.
        self._directory = wanted if wanted.startswith(("/", "~")) else f"~/{wanted}"

    def capacity(self) -> int:
        """Return the free slots and ``max_pending`` less the pilots that wait; see ``Backend``."""
        unclaimed = 'State == "Unclaimed"'
        if self._options.requirements:
            # The slot is asked by itself here, not as the target of a job; what names the job is true of none.
            unclaimed += f" && ({_TARGET.sub('', self._options.requirements)})"
        waiting = f"(JobStatus == {_IDLE} || JobStatus == {_HELD}) && WmsCE == {quoted(self._place)}"
        script = _COUNT.format(unclaimed=shlex.quote(unclaimed), waiting=shlex.quote(waiting))
        slots, pilots = map(_ads_of, self._shell(script).split("---\n"))
        free = sum(max(_fitting(slot, wanted) for wanted in self._slots) for slot in slots)
        return max(0, free + self._options.max_pending - len(pilots))

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Submit the pilots, those for slots of one kind together; see ``Backend``."""
        known = self.status([Handle(stamp=order.stamp) for order in orders])
        batch_ids = {stamp: state.batch_id for stamp, state in known.items()}
        refused: Mapping[str, str] = {}
        if new := [order for order in orders if order.stamp not in known]:
            directory = self._write(new)
            for alike in _by_slot(new):
                try:
                    batch_ids.update(self._submit_alike(alike, directory=directory))
                except BatchCommandFailedError as error:
                    refused = {**refused, **{order.stamp: str(error) for order in alike}}
                except CommandLostError:
                    continue
        if missing := [order.stamp for order in new if order.stamp not in batch_ids]:
            refused = self._settle(missing, refused=refused, batch_ids=batch_ids)
        return [
            SubmitResult(stamp=order.stamp, batch_id=batch_ids.get(order.stamp, ""), error=refused.get(order.stamp, ""))
            for order in orders
        ]

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        """Return where the pilots are; see ``Backend``."""
        states: dict[str, BatchState] = {}
        for stamps in _portions(handles):
            script = _LOOK.format(
                constraint=shlex.quote(_among(stamps)),
                attributes=",".join(_ATTRIBUTES),
                count=len(stamps),
                scanned=_HISTORY_SCANNED,
            )
            queued, _, past = self._shell(script).partition("---\n")
            states |= {job["WmsStamp"]: _ended(job) for job in _ads_of(past)}
            states |= {job["WmsStamp"]: _present(job) for job in _ads_of(queued)}
        return states

    def kill(self, handles: Collection[Handle]) -> None:
        """Remove the pilots' jobs, of which those that run are killed; see ``Backend``."""
        for stamps in _portions(handles):
            try:
                self._commands.run(["condor_rm", "-constraint", _among(stamps)])
            except BatchCommandFailedError:
                # It fails also when there is nothing to be removed, with words that change from version to version.
                still = f"JobStatus != {_REMOVED} && {_among(stamps)}"
                answer = self._commands.run(["condor_q", "-json", "-constraint", still, "-attributes", "ClusterId"])
                if _ads_of(answer):
                    raise

    def output(self, handle: Handle) -> str:
        """Return what the pilot wrote; see ``Backend``."""
        path = f"{self._directory}/{handle.stamp}/pilot.log"
        written = str(self._ask_host(do="tail", path=path, size=_OUTPUT_BYTES))
        if written or not handle.batch_id:
            return written
        try:
            return self._commands.run(["condor_tail", "-maxbytes", str(_OUTPUT_BYTES), handle.batch_id])
        except BatchCommandFailedError:
            return ""  # it does not run, or its machine does not let it be looked at

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove the pilots' scripts and secrets; see ``Backend``."""
        self._ask_host(do="forget", directory=self._directory, stamps=[handle.stamp for handle in handles])

    def _write(self, orders: Sequence[PilotOrder]) -> str:
        """Write what the pilots need; return the real path of the directory."""
        files = {
            f"{order.stamp}/{name}": content
            for order in orders
            for name, content in (
                ("pilot.sh", self._script(order)),
                (SECRET_FILE, f"{order.secret}\n"),
            )
        }
        return str(self._ask_host(do="write", directory=self._directory, files=files))

    def _script(self, order: PilotOrder) -> str:
        """Return the pilot's script: its place is the directory that HTCondor made, counts, and removes."""
        limit = ("--wall-time-s", str(order.slot.wall_time_s)) if order.slot.wall_time_s else ()
        life = (
            "--work-dir",
            ".",
            "--max-idle-s",
            str(self._options.max_idle_s),
            *words_of_node(self._options.node_processors),
            *limit,
        )
        return pilot_script(order, server_url=self._server_url, secret_file=SECRET_FILE, more=life)

    def _submit_alike(self, orders: Sequence[PilotOrder], *, directory: str) -> Mapping[str, str]:
        """Submit pilots for slots of one kind; return {stamp: id}, of none if HTCondor did not tell."""
        stamps = [order.stamp for order in orders]
        description = self._options.description_for(
            orders[0].slot, place=self._place, directory=directory, stamps=stamps
        )
        told = _SUBMITTED.search(self._commands.run(["condor_submit", "-terse"], stdin=description))
        if told is None:
            return {}
        return {stamp: f"{told[1]}.{int(told[2]) + number}" for number, stamp in enumerate(stamps)}

    def _settle(
        self, stamps: Collection[str], *, refused: Mapping[str, str], batch_ids: dict[str, str]
    ) -> Mapping[str, str]:
        """Look which pilots are there after all; add their ids and return why the others are not, if that is known."""
        try:
            there = self.status([Handle(stamp=stamp) for stamp in stamps])
        except BackendError:
            return {}
        batch_ids |= {stamp: state.batch_id for stamp, state in there.items()}
        refused = {stamp: why for stamp, why in refused.items() if stamp not in there}
        with suppress(BackendError):  # or the others' ids would be lost for it
            self.clean([Handle(stamp=stamp) for stamp in refused])
        return refused

    def _shell(self, script: str) -> str:
        return self._commands.run(["sh", "-s"], stdin=script)

    def _ask_host(self, **request: object) -> object:
        return ask_host(self._commands, request, python=self._options.python)


def _by_slot(orders: Sequence[PilotOrder]) -> Iterator[list[PilotOrder]]:
    """Yield the orders for slots of one kind together."""
    for _, alike in groupby(sorted(orders, key=lambda order: repr(order.slot)), key=lambda order: order.slot):
        yield list(alike)


def _portions(handles: Iterable[Handle]) -> Iterator[list[str]]:
    """Yield the stamps, as many at once as a command line may have."""
    stamps = sorted({handle.stamp for handle in handles})
    for start in range(0, len(stamps), _STAMPS_AT_ONCE):
        yield stamps[start : start + _STAMPS_AT_ONCE]


def _among(stamps: Iterable[str]) -> str:
    return f"stringListMember(WmsStamp, {quoted(','.join(stamps))})"


def _fitting(free: _Ad, wanted: BatchRequest) -> int:
    """Return how many pilots with such a slot could start in what is free of a machine now."""
    asked = (
        (free.get("Cpus"), wanted.processors),
        (free.get("Memory"), wanted.memory_mb),
        (free.get("Disk"), wanted.disk_mb * 1024),  # kB
        (free.get("GPUs"), wanted.gpus),
    )
    fitting = min(int(there or 0) // needed for there, needed in asked if needed)
    return fitting if free.get("PartitionableSlot") is True else min(fitting, 1)


def _ads_of(answer: str) -> list[_Ad]:
    """Return the ClassAds that one of HTCondor's programs wrote; some versions write nothing for none.

    Raises:
        BackendError: it wrote something else.
    """
    try:
        ads: list[_Ad] = json.loads(answer.strip() or "[]")
    except ValueError as error:
        raise BackendError(f"HTCondor answered what cannot be read: {answer[:100]!r}.") from error
    return ads


def _present(job: _Ad) -> BatchState:
    """Return the state of a job in the queue."""
    status, started = job.get("JobStatus"), bool(job.get("NumJobStarts"))
    held = f"held: {job.get('HoldReason', 'HTCondor gives no reason')}"
    if status == _COMPLETED:
        return _ended(job)
    if started and status in {_IDLE, _HELD}:
        # It will not start again, and the schedd removes it when it looks at its jobs next.
        return _ended(job, reason=held if status == _HELD else "it was evicted, and pilots start once")
    if status == _HELD:
        by_hand = job.get("HoldReasonCode") == HELD_BY_A_PERSON
        return _state(Presence.WAITING, job, reason=held if by_hand else f"{held} (HTCondor removes it)")
    if status == _IDLE:
        return _state(Presence.WAITING, job, reason=str(job.get("LastRejMatchReason", "")).strip())
    if status == _REMOVED and not started:
        return _ended(job)
    return _state(Presence.RUNNING, job)


def _ended(job: _Ad, *, reason: str = "") -> BatchState:
    exit_code = -int(job["ExitSignal"]) if job.get("ExitBySignal") is True else job.get("ExitCode")
    reason = reason or str(job.get("RemoveReason", ""))
    return _state(Presence.ENDED, job, reason=reason, exit_code=exit_code, by_system=bool(reason))


def _state(
    presence: Presence, job: _Ad, *, reason: str = "", exit_code: int | None = None, by_system: bool = False
) -> BatchState:
    batch_id = f"{job['ClusterId']}.{job['ProcId']}"
    return BatchState(presence=presence, batch_id=batch_id, reason=reason, exit_code=exit_code, by_system=by_system)
