"""The backend of HTCondor 9 or newer: runs its programs on the host of a schedd, this machine or one behind SSH.

No directory is shared with the nodes: HTCondor transfers the script and the secret there, and the output back when the
pilot has ended. Until then ``condor_tail`` reads the output; that of a killed or evicted pilot is lost, but pilots
upload their log themselves.

Pilots are found by the attribute ``WmsStamp`` of their jobs, because the reply with the job's number may be lost. If a
pilot is submitted twice all the same, by a condor_submit that finished after its timeout, the first to start uses the
single-use secret, and the other one ends without it.
"""

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby
from typing import Any, TypeVar

import msgspec

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
    by_stamp,
)
from pilots.backends.options import words_of_node
from pilots.backends.script import SECRET_FILE, pilot_script

T = TypeVar("T")

#: Stamps in one command line, which may have 128 kB.
_STAMPS_AT_ONCE = 1000
#: Ended jobs in the history that are read; more than end between two rounds.
_HISTORY_SCANNED = 20_000
_OUTPUT_BYTES = 2**20
#: Characters of an answer that an error quotes.
_SHOWN = 100
#: Numbers beyond it are not those of a job or a slot.
_LARGEST = 2**63
_BY_SIGNAL = "it was ended by a signal that HTCondor does not name"
_ATTRIBUTES = (
    "WmsStamp", "ClusterId", "ProcId", "JobStatus", "NumJobStarts", "HoldReason", "HoldReasonCode",
    "LastRejMatchReason", "RemoveReason", "ExitBySignal", "ExitSignal", "ExitCode",
)  # fmt: skip
#: Jobs that left the queue are read from the history. The history is a file on this host; the first ``exit`` makes sure
#: that pilots do not seem ended while the schedd is down.
_LOOK = """\
queued=$(condor_q -json -constraint {constraint} -attributes {attributes}) || exit
printf '%s\\n---\\n' "$queued"
left=$(({count} - $(printf '%s\\n' "$queued" | grep -c '"WmsStamp"')))
[ "$left" -le 0 ] ||
    condor_history -json -constraint {constraint} -attributes {attributes} -limit "$left" -scanlimit {scanned}
"""
_COUNT = """\
condor_status -json -constraint {unclaimed} -attributes Cpus,Memory,Disk,GPUs,PartitionableSlot || exit
printf '\\n---\\n'
condor_q -json -constraint {waiting} -attributes ClusterId
"""
#: Between two lists of ads; a line of its own.
_NEXT = "\n---\n"
_SUBMITTED = re.compile(r"^(\d{1,18})\.(\d{1,18}) - \1\.(\d{1,18})$", re.MULTILINE)
_TARGET = re.compile(r"\bTARGET\.", re.IGNORECASE)
#: Values of JobStatus; with all others the pilot runs: running, transferring output, suspended.
_IDLE, _REMOVED, _COMPLETED, _HELD = 1, 3, 4, 5

_Ad = Mapping[str, Any]


class HTCondorBackend:
    """Backend of the pilots of one CE in one schedd."""

    def __init__(self, description: CEDescription) -> None:
        """Take the description; see ``Backend``."""
        self._commands, others = commands_of(description.options, directory=description.directory)
        self._options = parse_options(others)
        self._server_url = description.server_url
        #: Slots that the pilots request; without queues: one core.
        self._slots = [queue.slot for queue in description.queues] or [BatchRequest(queue="")]
        self._place = f"{description.site}/{description.ce}"
        directory = self._options.directory
        #: Relative to the home directory on the host, not to the working directory of this process.
        self._directory = directory if directory.startswith(("/", "~")) else f"~/{directory}"

    def capacity(self) -> int:
        """Return the free slots and ``max_pending`` less the pilots that wait; see ``Backend``."""
        unclaimed = 'State == "Unclaimed"'
        if self._options.requirements:
            # The expression is evaluated for the slot itself, not as the target of a job, so TARGET. is removed.
            unclaimed += f" && ({_TARGET.sub('', self._options.requirements)})"
        waiting = f"(JobStatus == {_IDLE} || JobStatus == {_HELD}) && WmsCE == {quoted(self._place)}"
        script = _COUNT.format(unclaimed=shlex.quote(unclaimed), waiting=shlex.quote(waiting))
        slots, pilots = _two_lists(self._shell(script))
        free = sum(max(_fitting(slot, wanted) for wanted in self._slots) for slot in slots)
        return max(0, free + self._options.max_pending - len(pilots))

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Submit the pilots; those with equal slots in one call; see ``Backend``."""
        earlier = self.status([Handle(stamp=order.stamp) for order in orders])
        batch_ids = {stamp: state.batch_id for stamp, state in earlier.items()}
        refused: Mapping[str, str] = {}
        if new := [order for order in orders if order.stamp not in earlier]:
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
        """Return the states of the pilots; see ``Backend``."""
        states: dict[str, BatchState] = {}
        for stamps in _portions(handles):
            script = _LOOK.format(
                constraint=shlex.quote(_among(stamps)),
                attributes=",".join(_ATTRIBUTES),
                count=len(stamps),
                scanned=_HISTORY_SCANNED,
            )
            queued, past = _two_lists(self._shell(script))
            jobs = chain(((job, _ended(job)) for job in past), ((job, _present(job)) for job in queued))
            found = by_stamp((_text(job, "WmsStamp"), state) for job, state in jobs)
            states |= {stamp: found[stamp] for stamp in stamps if stamp in found}
        return states

    def kill(self, handles: Collection[Handle]) -> None:
        """Remove the pilots' jobs; running ones are killed; see ``Backend``."""
        for stamps in _portions(handles):
            try:
                self._commands.run(["condor_rm", "-constraint", _among(stamps)])
            except BatchCommandFailedError:
                # It also fails if there is nothing to remove, with messages that differ between versions.
                still = f"JobStatus != {_REMOVED} && {_among(stamps)}"
                answer = self._commands.run(["condor_q", "-json", "-constraint", still, "-attributes", "ClusterId"])
                if _ads_of(answer):
                    raise

    def output(self, handle: Handle) -> str:
        """Return the output of the pilot; see ``Backend``."""
        path = f"{self._directory}/{handle.stamp}/pilot.log"
        written = self._ask_host(str, do="tail", path=path, size=_OUTPUT_BYTES)
        if written or not handle.batch_id:
            return written
        try:
            return self._commands.run(["condor_tail", "-maxbytes", str(_OUTPUT_BYTES), handle.batch_id])
        except BatchCommandFailedError:
            return ""  # it does not run, or its machine denies access

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove the pilots' scripts and secrets; see ``Backend``."""
        self._ask_host(type(None), do="forget", directory=self._directory, stamps=[handle.stamp for handle in handles])

    def _write(self, orders: Sequence[PilotOrder]) -> str:
        """Write the files that the pilots need; return the real path of the directory."""
        files = {
            f"{order.stamp}/{name}": content
            for order in orders
            for name, content in (
                ("pilot.sh", self._script(order)),
                (SECRET_FILE, f"{order.secret}\n"),
            )
        }
        return self._ask_host(str, do="write", directory=self._directory, files=files)

    def _script(self, order: PilotOrder) -> str:
        """Return the pilot's script; it runs in the directory that HTCondor creates, accounts for and removes."""
        limit = ("--wall-time-s", str(order.slot.wall_time_s)) if order.slot.wall_time_s else ()
        life = (
            "--work-dir",
            ".",
            "--max-idle-s",
            str(self._options.max_idle_s),
            *words_of_node(self._options.node_processors),
            *limit,
        )
        return pilot_script(
            order, server_url=self._server_url, secret_file=SECRET_FILE, more=life, proxy=self._options.proxy
        )

    def _submit_alike(self, orders: Sequence[PilotOrder], *, directory: str) -> Mapping[str, str]:
        """Submit pilots with equal slots; return {stamp: batch id}, empty if HTCondor did not report the ids."""
        stamps = [order.stamp for order in orders]
        description = self._options.description_for(
            orders[0].slot, place=self._place, directory=directory, stamps=stamps
        )
        ids = _SUBMITTED.search(self._commands.run(["condor_submit", "-terse"], stdin=description))
        if ids is None or int(ids[3]) - int(ids[2]) != len(stamps) - 1:
            return {}
        return {stamp: f"{ids[1]}.{int(ids[2]) + number}" for number, stamp in enumerate(stamps)}

    def _settle(
        self, stamps: Collection[str], *, refused: Mapping[str, str], batch_ids: dict[str, str]
    ) -> Mapping[str, str]:
        """Find out which of the pilots were submitted; add their ids, and return known errors of the others."""
        try:
            there = self.status([Handle(stamp=stamp) for stamp in stamps])
        except BackendError:
            return {}
        batch_ids |= {stamp: state.batch_id for stamp, state in there.items()}
        refused = {stamp: why for stamp, why in refused.items() if stamp not in there}
        with suppress(BackendError):  # else the ids of the other pilots would be lost
            self.clean([Handle(stamp=stamp) for stamp in refused])
        return refused

    def _shell(self, script: str) -> str:
        return self._commands.run(["sh", "-s"], stdin=script)

    def _ask_host(self, answers: type[T], **request: object) -> T:
        return ask_host(self._commands, request, answers, python=self._options.python)


def _by_slot(orders: Sequence[PilotOrder]) -> Iterator[list[PilotOrder]]:
    for _, alike in groupby(sorted(orders, key=lambda order: repr(order.slot)), key=lambda order: order.slot):
        yield list(alike)


def _portions(handles: Iterable[Handle]) -> Iterator[list[str]]:
    """Yield the stamps in portions for one command line."""
    stamps = sorted({handle.stamp for handle in handles})
    for start in range(0, len(stamps), _STAMPS_AT_ONCE):
        yield stamps[start : start + _STAMPS_AT_ONCE]


def _among(stamps: Iterable[str]) -> str:
    return f"stringListMember(WmsStamp, {quoted(','.join(stamps))})"


def _fitting(free: _Ad, wanted: BatchRequest) -> int:
    """Return how many pilots with such a slot could start in the free resources of a slot of HTCondor."""
    needs = (
        ("Cpus", wanted.processors),
        ("Memory", wanted.memory_mb),
        ("Disk", wanted.disk_mb * 1024),  # kB
        ("GPUs", wanted.gpus),
    )
    fitting = max(0, min((_whole(free, name) or 0) // needed for name, needed in needs if needed))
    return fitting if free.get("PartitionableSlot") is True else min(fitting, 1)


def _ads_of(answer: str) -> Sequence[_Ad]:
    """Return the ClassAds in the output of one of HTCondor's programs; some versions print nothing for none.

    Raises:
        BackendError: the output is something else.
    """
    try:
        return msgspec.convert(json.loads(answer.strip() or "[]", strict=False), list[dict[str, Any]])
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise BackendError(f"The answer of HTCondor cannot be read: {answer[:_SHOWN]!r}.") from error


def _two_lists(answer: str) -> tuple[Sequence[_Ad], Sequence[_Ad]]:
    """Return the ClassAds before and after the line between them.

    Raises:
        BackendError: the output is something else.
    """
    first, between, second = f"\n{answer}".partition(_NEXT)
    if not between:
        raise BackendError(f"The answer of HTCondor cannot be read: {answer[:_SHOWN]!r}.")
    return _ads_of(first), _ads_of(second)


def _whole(ad: _Ad, name: str) -> int | None:
    """Return an attribute as a whole number; None: it is something else, such as an expression."""
    value = ad.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        return None
    return int(value)


def _text(ad: _Ad, name: str) -> str:
    value = ad.get(name)
    return value if isinstance(value, str) else ""


def _present(job: _Ad) -> BatchState:
    status, started = _whole(job, "JobStatus"), (_whole(job, "NumJobStarts") or 0) > 0
    held = f"held: {_text(job, 'HoldReason') or 'HTCondor gives no reason'}"
    if status == _COMPLETED:
        return _ended(job)
    if started and status in {_IDLE, _HELD}:
        # Its pilot starts only once, and the schedd removes the job at its next check.
        return _ended(job, reason=held if status == _HELD else "it was evicted, and pilots start once")
    if status == _HELD:
        by_hand = _whole(job, "HoldReasonCode") == HELD_BY_A_PERSON
        return _state(Presence.WAITING, job, reason=held if by_hand else f"{held} (HTCondor removes it)")
    if status == _IDLE:
        return _state(Presence.WAITING, job, reason=_text(job, "LastRejMatchReason").strip())
    if status == _REMOVED and not started:
        return _ended(job)
    return _state(Presence.UNKNOWN if status is None else Presence.RUNNING, job)


def _ended(job: _Ad, *, reason: str = "") -> BatchState:
    reason = reason or _text(job, "RemoveReason")
    killed = job.get("ExitBySignal") is True
    number = _whole(job, "ExitSignal" if killed else "ExitCode")
    return _state(
        Presence.ENDED,
        job,
        reason=reason or (_BY_SIGNAL if killed and number is None else ""),
        exit_code=-number if killed and number is not None else number,
        by_system=bool(reason),
    )


def _state(
    presence: Presence, job: _Ad, *, reason: str = "", exit_code: int | None = None, by_system: bool = False
) -> BatchState:
    cluster, process = _whole(job, "ClusterId"), _whole(job, "ProcId")
    batch_id = "" if cluster is None or process is None else f"{cluster}.{process}"
    return BatchState(presence=presence, batch_id=batch_id, reason=reason, exit_code=exit_code, by_system=by_system)
