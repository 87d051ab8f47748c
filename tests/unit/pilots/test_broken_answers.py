"""Batch programs that print something else than usual: at most a BackendError, and intact rows keep their meaning.

The programs are scripts that print a file; its text is what Slurm, HTCondor and host.py print, then damaged.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilots.backends.commands import Here
from pilots.backends.htcondor import HTCondorBackend
from pilots.backends.interface import (
    Backend,
    BackendError,
    BatchQueue,
    BatchRequest,
    BatchState,
    CEDescription,
    ChecksQueues,
    Handle,
    PilotOrder,
    Presence,
    SubmitResult,
)
from pilots.backends.plain_host import PlainHostBackend
from pilots.backends.slurm import SlurmBackend
from pilots.services.reports import as_reason

A, B, C = (letter * 32 for letter in "abc")
HANDLES = [Handle(stamp=A, batch_id="17"), Handle(stamp=B), Handle(stamp=C)]
SLOT = BatchRequest(queue="main", memory_mb=1000, disk_mb=10, gpus=1)
ORDERS = [
    PilotOrder(stamp=stamp, secret="s", vo="lhcb", site="CERN", ce="ce01", queue="main", slot=SLOT)
    for stamp in (A, B, C)
]  # fmt: skip

#: One answer for all uses of squeue: states, waiting pilots, ids to be cancelled.
SQUEUE = f"""\
17|RUNNING|0|wms-{A}|None|
18|PENDING|0|wms-{B}|Priority|
15|COMPLETED|256|wms-{B}|None|
main|wms-{B}
18|wms-{B}
"""
SACCT = f"""\
11|FAILED|1:0|wms-{C}
12|CANCELLED by 0|0:15|wms-{B}
13|RUNNING|0:0|wms-{A}
"""
SINFO = """\
n01|main|up|idle|0/16/0/16|64000|0|1000|el9,avx|gpu:a100:4(S:0-1)|gpu:a100:0(IDX:N/A)|NO|1-00:00:00|n/a|
n02|main|up|mix|14/2/0/16|64000|60000|1000|el9,avx|(null)|gpu:0|NO|infinite|1:00:00|
n03|main|up|down*|0/0/16/16|64000|0|1000|(null)|(null)|(null)|EXCLUSIVE|2:00|n/a|
"""
SBATCH = "sbatch: warning: 3 accounts\n4711;sitea\n"
_JOB: dict[str, Any] = {"ClusterId": 7, "ProcId": 0, "JobStatus": 2, "NumJobStarts": 1}
QUEUED: list[dict[str, Any]] = [
    {**_JOB, "WmsStamp": A},
    {**_JOB, "ProcId": 1, "JobStatus": 5, "NumJobStarts": 0, "WmsStamp": B, "HoldReason": "no", "HoldReasonCode": 1},
]
PAST: list[dict[str, Any]] = [
    {**_JOB, "ProcId": 2, "JobStatus": 4, "WmsStamp": C, "ExitBySignal": True, "ExitSignal": 9},
    {**_JOB, "ProcId": 3, "JobStatus": 3, "WmsStamp": C, "ExitCode": 1, "RemoveReason": "via condor_rm"},
]
SLOTS: list[dict[str, Any]] = [
    {"Cpus": 4, "Memory": 4096, "Disk": 10**6, "GPUs": 2, "PartitionableSlot": True},
    {"Cpus": 1},
]
HOST = {
    "look": {A: {"presence": "running", "batch_id": "n:1:2"}, B: {"presence": "ended", "exit_code": -9, "reason": "x"}},
    "start": {A: {"batch_id": "n:1:2"}, B: {"error": "could not be started"}, C: {}},
    "count": {"living": 1, "processors": 8},
    "tail": "what a pilot wrote\n",
    "kill": None,
    "clean": None,
}  # fmt: skip
#: What the scripts print, by the word that only one of them has.
SLURM = {
    "sinfo": f"{SINFO}\n=\n{SQUEUE}",
    "sacct": SACCT,
    "submit()": "".join(f"{stamp} 0 {SBATCH.replace(chr(10), chr(9))}\n" for stamp in (A, B, C)),
    "squeue": SQUEUE,
}
HTCONDOR = {
    "condor_status": f"{json.dumps(SLOTS, indent=1)}\n---\n{json.dumps(QUEUED, indent=1)}",
    "condor_history": f"{json.dumps(QUEUED, indent=1)}\n---\n{json.dumps(PAST, indent=1)}",
    "condor_submit": "7.0 - 7.2\n",
    "condor_rm": "All jobs were removed\n",
    "condor_tail": "what a pilot wrote\n",
}

STRANGE = (
    "", "N/A", "(null)", "undefined", "null", "true", "{}", "[]", "[[]]", '"\\/Expr(x)\\/"', "-1", "1e999", "NaN",
    "4/0", "0x7f", "127", "0:999", "2147483648", "9" * 30, "9" * 5000, "1.5", "\u00b2", "\u0663", "\0", "\x1c", "\x85",
    "caf\u00e9", "\\ud800", "|", "\n", "\n\n", "\r\n", "\n---\n", "\n=\n", "*** Welcome ***\n", "[" * 2000,
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """Return the text with some of its words or separators replaced, perhaps cut off."""
    parts = re.split(r'([|,\n: /"{}\[\]])', text)
    for _ in range(draw(st.integers(1, 4))):
        parts[draw(st.integers(0, len(parts) - 1))] = draw(st.sampled_from(STRANGE))
    broken = "".join(parts)
    return broken[: draw(st.integers(0, len(broken)))] if draw(st.booleans()) else broken


class Programs:
    """A directory of programs, each of which prints a text."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.print(scancel="", condor_rm="", condor_tail="")

    def print(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.directory / f"{name}.text").write_text(text, encoding="utf-8", errors="replace")
            script = self.directory / name
            if not script.exists():
                script.write_text('#!/bin/sh\nexec cat "$0.text"\n')
                script.chmod(0o755)

    def slurm(self, **texts: str) -> SlurmBackend:
        self.print(**({"squeue": SQUEUE, "sacct": SACCT, "sinfo": SINFO, "sbatch": SBATCH} | texts))
        return SlurmBackend(self._description())

    def htcondor(self, **texts: str) -> HTCondorBackend:
        usual = {"condor_q": json.dumps(QUEUED, indent=1), "condor_history": json.dumps(PAST, indent=1)}
        usual |= {"condor_status": json.dumps(SLOTS, indent=1), "condor_submit": "7.0 - 7.2\n"}
        self.print(**(usual | texts))
        return HTCondorBackend(self._description())

    def host(self, text: str) -> "HostThatPrints":
        self.print(python=text)
        return HostThatPrints(
            Here(), directory="/nowhere", python=str(self.directory / "python"), max_processes=None
        )  # fmt: skip

    def _description(self) -> CEDescription:
        options = {"programs": str(self.directory), "directory": str(self.directory / "pilots")}
        queues = [BatchQueue(slot=SLOT, cpu_time_s=1000)]
        return CEDescription(
            site="CERN", ce="ce01", options=options, directory=self.directory, server_url="https://x", queues=queues
        )


class HostThatPrints(PlainHostBackend):
    def script(self, order: PilotOrder) -> str:
        return f"exec sleep {order.slot.processors}\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("broken") / "programs")


def assert_usable(backend: Backend) -> None:
    """Use the backend as a round does: it raises nothing but BackendError, and returns what can be stored."""
    uses: Sequence[Callable[[], object]] = (
        backend.capacity,
        lambda: backend.submit(ORDERS),
        lambda: backend.status(HANDLES),
        lambda: backend.kill(HANDLES),
        lambda: backend.output(HANDLES[0]),
        lambda: backend.clean(HANDLES),
        lambda: backend.shortfalls() if isinstance(backend, ChecksQueues) else (),
    )
    for use in uses:
        with suppress(BackendError):
            assert_storable(use())


def assert_storable(result: object) -> None:
    match result:
        case int():
            assert result >= 0
        case str():
            result.encode()
        case SubmitResult() | BatchState():
            assert len(result.batch_id) <= 255
            assert result.batch_id.isascii()
            assert result.batch_id.isprintable()
            if isinstance(result, BatchState):
                assert result.exit_code is None or abs(result.exit_code) < 2**63
                assert isinstance(result.reason, str)
        case Mapping():
            assert result.keys() <= {A, B, C}
            for state in result.values():
                assert_storable(state)
        case list():
            for one in result:
                assert_storable(one)
        case _:
            assert result is None or result == ()


class Printing:
    """Commands whose answers are given by the word that only their command line or script has."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0) -> str:
        if "-I" in argv:
            return self._texts[json.loads(stdin.split("\n")[1])["do"]]
        script = " ".join(argv) + stdin
        return next(text for word, text in self._texts.items() if word in script)


def fuzz(kind: str, texts: Mapping[str, str], broken: str, *, programs: Programs) -> None:
    """Use a backend of this kind again and again, with the answer to one of its commands damaged."""
    usual = {"write": '"/home/wms/pilots"', "tail": '"what a pilot wrote"', "forget": "null", **texts}
    make: Callable[[], Backend] = programs.slurm if kind == "slurm" else programs.htcondor

    @given(damaged(usual[broken]))
    def round_of(text: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            commands = Printing(usual | {broken: text})
            patch.setattr(f"pilots.backends.{kind}.commands_of", lambda *_, **__: (commands, {}))
            assert_usable(make())

    round_of()


@pytest.mark.parametrize("broken", [*SLURM, "write"])
def test_whatever_slurm_prints_is_a_backend_error_at_most(programs: Programs, broken: str) -> None:
    fuzz("slurm", SLURM, broken, programs=programs)


@pytest.mark.parametrize("broken", [*HTCONDOR, "tail"])
def test_whatever_htcondor_prints_is_a_backend_error_at_most(programs: Programs, broken: str) -> None:
    fuzz("htcondor", HTCONDOR, broken, programs=programs)


@pytest.mark.parametrize("broken", HOST)
def test_whatever_a_plain_host_prints_is_a_backend_error_at_most(broken: str) -> None:
    usual = {name: json.dumps(answer) for name, answer in HOST.items()}

    @given(damaged(usual[broken]))
    def round_of(text: str) -> None:
        commands = Printing(usual | {broken: text})
        assert_usable(HostThatPrints(commands, directory="/nowhere", python="python3", max_processes=None))

    round_of()


@pytest.mark.parametrize("text", ["[]", '{"living": 1}', '{"living": "1", "processors": 2}', "[" * 100_000, "x\0y"])
def test_an_answer_of_the_host_that_is_something_else_is_quoted(programs: Programs, text: str) -> None:
    with pytest.raises(BackendError, match=r"^The answer of the host cannot be read: '"):
        programs.host(text).capacity()


@pytest.mark.parametrize("text", ["welcome", "{}", "17", "[1]", '"x"', "[" * 100_000])
def test_an_answer_of_htcondor_that_is_something_else_is_quoted(programs: Programs, text: str) -> None:
    backend = programs.htcondor(condor_q=text)
    for use in (lambda: backend.status(HANDLES), backend.capacity):
        with pytest.raises(BackendError, match=r"^The answer of HTCondor cannot be read: "):
            use()


# ---- Slurm


def test_a_pilot_that_failed_and_runs_again_by_the_same_name_has_not_ended(programs: Programs) -> None:
    """As in sacct: the submission was repeated, or a job was requeued."""
    rows = [f"11|FAILED|1:0|wms-{C}", f"12|RUNNING|0:0|wms-{C}"]
    for ordered in (rows, rows[::-1]):
        assert C not in programs.slurm(sacct="\n".join(ordered) + "\n").status(HANDLES)
    two_ends = programs.slurm(sacct=f"{rows[0]}\n12|COMPLETED|0:0|wms-{C}\n").status(HANDLES)
    assert two_ends[C].presence is Presence.ENDED


@pytest.mark.parametrize("state", ["NODE_FAIL", "RUN?ING", "?", "SOMETHING_NEW"])
def test_a_pilot_with_an_unknown_state_in_the_accounting_has_not_ended(programs: Programs, state: str) -> None:
    sacct = f"11|FAILED|1:0|wms-{C}\n12|{state}|0:0|wms-{C}\n"
    assert C not in programs.slurm(sacct=sacct).status(HANDLES)


@pytest.mark.parametrize("code", ["127", "2147483648", "99999999999", "x", "0:x", ""])
def test_an_exit_code_that_is_none_is_unknown(programs: Programs, code: str) -> None:
    states = programs.slurm(squeue=f"17|FAILED|{code}|wms-{A}|None|\n18|FAILED|256|wms-{B}|None|\n").status(HANDLES)
    assert (states[A].presence, states[A].exit_code) == (Presence.ENDED, None)
    assert states[B].exit_code == 1


@pytest.mark.parametrize("code", ["x", "", "\u00b2", "9999", "-1"])
def test_a_garbled_line_of_a_submission_costs_no_other_pilot_its_result(programs: Programs, code: str) -> None:
    """The line's own program is the shell, so its ``printf`` is replaced for one stamp."""
    printf = f'printf() {{ case $2 in {A}) echo "$2 {code} 1";; *) command printf "$@";; esac; }}\n'
    backend = programs.slurm(squeue="", sacct="", sbatch="4711\n")
    (programs.directory / "sh").write_text(f'#!/bin/sh\n{{ cat <<"END"\n{printf}END\ncat; }} | exec /bin/sh "$@"\n')
    (programs.directory / "sh").chmod(0o755)
    try:
        results = backend.submit(ORDERS)
    finally:
        (programs.directory / "sh").unlink()
    assert results == [SubmitResult(stamp=A), *(SubmitResult(stamp=stamp, batch_id="4711") for stamp in (B, C))]


def test_only_ids_of_pilots_are_cancelled(programs: Programs) -> None:
    backend = programs.slurm(squeue=f"2026\n*\nWelcome, 3 users\n18|wms-{B}\n19|mine\n")
    (programs.directory / "scancel").write_text('#!/bin/sh\necho "$@" > "$0.told"\n')
    backend.kill(HANDLES)
    assert (programs.directory / "scancel.told").read_text() == "--quiet 18\n"


def test_a_banner_does_not_hide_nodes(programs: Programs) -> None:
    banner = "==========\n= Slurm =\n=\n"
    assert programs.slurm(sinfo=f"{banner[:-2]}{SINFO}").capacity() == programs.slurm().capacity() > 0


# ---- HTCondor


def states_in(
    programs: Programs, *, past: Sequence[dict[str, Any]] = (), queued: Sequence[dict[str, Any]] = ()
) -> list[BatchState]:
    """Return the states of the pilots of these ads, in their order."""
    stamps = dict.fromkeys(ad["WmsStamp"] for ad in (*past, *queued) if isinstance(ad.get("WmsStamp"), str))
    backend = programs.htcondor(condor_q=json.dumps(queued), condor_history=json.dumps(past))
    states = backend.status([*HANDLES, *(Handle(stamp=stamp) for stamp in stamps)])
    return [states[stamp] for stamp in stamps]


def test_an_end_that_htcondor_describes_in_part_is_an_end(programs: Programs) -> None:
    unnamed = "it was ended by a signal that HTCondor does not name"
    cases: list[tuple[dict[str, object], int | None, str]] = [
        ({"ExitBySignal": True, "ExitSignal": 9}, -9, ""),
        ({"ExitBySignal": True}, None, unnamed),
        ({"ExitBySignal": True, "ExitSignal": "undefined"}, None, unnamed),
        ({"ExitCode": "undefined"}, None, ""),
        ({"ExitCode": 1e300}, None, ""),
        ({"ExitCode": True}, None, ""),
        ({"ExitCode": 3, "RemoveReason": 5}, 3, ""),
    ]
    past = [{**_JOB, "WmsStamp": str(number), **ad} for number, (ad, _, _) in enumerate(cases)]
    states = states_in(programs, past=past)
    assert [(state.presence, state.exit_code, state.reason) for state in states] == [
        (Presence.ENDED, exit_code, reason) for _, exit_code, reason in cases
    ]
    assert not any(state.by_system for state in states)


@pytest.mark.parametrize("name", ["ClusterId", "ProcId", "JobStatus", "NumJobStarts", "HoldReason", "HoldReasonCode"])
def test_an_attribute_that_cannot_be_read_affects_no_other_pilot(programs: Programs, name: str) -> None:
    odd: list[Any] = ["undefined", "\\/Expr(x)\\/", None, [], {}, True, -1, 1e300, 10**400]
    queued = [{**QUEUED[1], "WmsStamp": str(number), name: value} for number, value in enumerate(odd)]
    states = states_in(programs, queued=[{"WmsStamp": odd}, {}, *queued, {**QUEUED[0], "WmsStamp": "intact"}])
    assert len(states) == len(odd) + 1
    assert not any(state.presence is Presence.ENDED for state in states)
    assert states[-1] == BatchState(presence=Presence.RUNNING, batch_id="7.0")


def test_of_two_jobs_of_one_pilot_in_htcondor_the_one_that_runs_counts(programs: Programs) -> None:
    runs, ended = {**_JOB, "WmsStamp": A}, {**_JOB, "WmsStamp": A, "ProcId": 1, "JobStatus": 4, "ExitCode": 1}
    for queued in ([runs, ended], [ended, runs]):
        (state,) = states_in(programs, queued=queued, past=[ended])
        assert (state.presence, state.batch_id) == (Presence.RUNNING, "7.0")


def test_slots_whose_amounts_cannot_be_read_are_not_counted(programs: Programs) -> None:
    odd: list[Any] = ["undefined", None, [], True, -1e18, 1e300]
    slots = json.dumps([*({**SLOTS[0], "Memory": value} for value in odd), *SLOTS, {}])
    assert programs.htcondor(condor_status=slots).capacity() == programs.htcondor().capacity()


@pytest.mark.parametrize("answer", ["7.0 - 7.1\n", "7.0 - 8.2\n", "7.2 - 7.0\n", f"{'9' * 5000}.0 - 7.2\n", "", "ok\n"])
def test_ids_that_are_not_those_of_the_submission_are_not_taken(programs: Programs, answer: str) -> None:
    backend = programs.htcondor(condor_q="[]", condor_history="[]", condor_submit=answer)
    assert backend.submit(ORDERS) == [SubmitResult(stamp=stamp) for stamp in (A, B, C)]


def test_a_reason_is_stored_without_what_the_database_refuses() -> None:
    assert as_reason("held: \ud800 \0 no") == "held: ? \N{REPLACEMENT CHARACTER} no"
