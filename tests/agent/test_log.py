"""The upload of the pilot's log: complete, once, without secrets, and without delaying jobs."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pilots.agent.base import linux
from pilots.agent.base import log as agent_log
from pilots.agent.base.log import Journal
from pilots.agent.pilot.log_upload import LogUpload
from pilots.agent.server.api import Server
from pilots.agent.server.http import Client
from tests.agent.conftest import StartAgent
from tests.agent.running import ROOT
from tests.agent.scripted import DROP, LOSE, PILOT_TOKEN, ScriptedServer
from wms.wire.protocol import MAX_LOG_CHUNK

JOURNAL_BYTES = 64 * 1024


@pytest.fixture
def journal() -> Iterator[Journal]:
    journal = Journal(max_bytes=JOURNAL_BYTES)
    yield journal
    if journal.descriptor is not None:
        os.close(journal.descriptor)


@pytest.fixture
def api(server: ScriptedServer) -> Iterator[Server]:
    """Return the pilot's client of the server."""
    api = Server(Client(server.url, timeout_s=5), token=PILOT_TOKEN)
    yield api
    api.close()


@pytest.fixture
def upload(api: Server, journal: Journal) -> LogUpload:
    return LogUpload(api, lines=journal)


# ---- a whole pilot ---------------------------------------------------------------------------------------------------


def test_every_line_arrives_in_order_and_once(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("true")
    agent = start()
    assert agent.wait() == 0
    assert server.log == agent.log
    names = [line.split()[1] for line in server.log.splitlines()]
    assert (names[0], names[-1]) == ("pilot.started", "pilot.leaving")
    assert {"node.check", "job.leased", "job.finished"} <= set(names)


def test_an_unfit_node_reports_the_reason(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    agent = start("--work-dir", str(tmp_path / "absent"))
    assert agent.wait() == 1
    assert server.log == agent.log
    assert "node.check check=work_directory ok=False" in server.log


def test_a_server_that_refuses_logs_loses_no_job(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("true")
    server.script("/pilots/log/", *[503, DROP] * 20)
    agent = start()
    assert agent.wait() == 0
    assert server.lease.finished is not None
    assert server.log == ""
    assert "log." not in agent.log


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_refused_log_upload_is_not_repeated(server: ScriptedServer, start: StartAgent, status: int) -> None:
    server.add_job("true")
    server.script("/pilots/log/", *[status] * 20)
    agent = start()
    assert agent.wait() == 0
    assert server.lease.finished is not None
    assert len(server.log_requests) == 1
    assert agent.log.count("log.not_shipped") == 1


def test_an_unregistered_pilot_sends_no_log(server: ScriptedServer, start: StartAgent) -> None:
    server.script("/register/", 403)
    place = [f"--{name}=x" for name in ("vo", "site", "ce", "queue")]
    assert start(*place, token="wmsr_secret").wait() == 1
    assert server.log_requests == []


def test_no_token_gets_into_the_log_even_if_the_server_repeats_it(server: ScriptedServer, start: StartAgent) -> None:
    secret, job = "wmsr_c2VjcmV0.x-y_z", server.add_job("true")
    server.configuration["place"] |= {"site": "x", "ce": "x", "queue": "x"}
    server.script("/matches/", (400, {"code": "odd", "detail": f"not {PILOT_TOKEN}, nor wmsj_abc.def"}))
    place = [f"--{name}=x" for name in ("vo", "site", "ce", "queue")]
    agent = start(*place, token=secret)
    assert agent.wait() == 1
    assert job in server.waiting
    for text in (agent.log, server.log):
        assert "not wmsp_\\u2026, nor wmsj_\\u2026" in text
        assert not re.search(r"wms[a-z]_\w", text)


# ---- the journal -----------------------------------------------------------------------------------------------------


def test_processes_forked_later_write_to_the_same_journal() -> None:
    program = """
import os
from pilots.agent.base.log import journal
journal.append("parent")
for number in range(3):
    if not os.fork():
        journal.append(f"child {number}")
        os._exit(0)
    os.wait()
journal.append("parent again")
print(journal.read(0, most=1000), end="")
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "parent\nchild 0\nchild 1\nchild 2\nparent again\n"


def test_lines_of_threads_are_not_mixed(journal: Journal) -> None:
    def write(letter: str) -> None:
        for _ in range(100):
            journal.append(letter * 70)

    threads = [threading.Thread(target=partial(write, letter)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = journal.read(0, most=JOURNAL_BYTES).splitlines()
    assert sorted(lines) == sorted(letter * 70 for letter in "abcd" for _ in range(100))


def test_a_full_journal_counts_lost_lines_and_continues_with_free_space(
    journal: Journal, server: ScriptedServer, upload: LogUpload
) -> None:
    for number in range(2000):
        journal.append(f"{number:0100}")
    upload.send_rest()
    kept = server.log.count("\n")
    assert JOURNAL_BYTES - 8192 < 101 * kept < JOURNAL_BYTES + 8192
    journal.append("after")
    upload.send_rest()
    *_, last = server.log.splitlines()
    assert last == "after"
    assert f"[{2000 - kept} lines lost: they could not be uploaded in time]" in server.log


def test_sent_log_lines_free_their_space(journal: Journal, server: ScriptedServer, upload: LogUpload) -> None:
    line = "x" * 1000
    for _ in range(20):
        for _ in range(30):
            journal.append(line)
        upload.send_rest()
    assert server.log == f"{line}\n" * 600
    assert journal.descriptor is not None
    assert os.fstat(journal.descriptor).st_blocks * 512 <= 8192


def test_a_very_long_line_is_cut(journal: Journal) -> None:
    journal.append("x" * 10**6)
    assert len(journal.read(0, most=10**6)) < 20_000


def test_without_memfd_an_unlinked_file_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    journal = Journal()
    journal.append("one")
    journal.append("two")
    assert journal.read(4, most=100) == "two\n"
    assert journal.descriptor is not None
    linux.give_back(journal.descriptor, before=4)
    assert journal.read(4, most=100) == "two\n"
    os.close(journal.descriptor)


def test_without_any_storage_the_log_goes_to_standard_error_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.TemporaryFile", _no_file)
    journal = Journal()
    monkeypatch.setattr(agent_log, "journal", journal)
    agent_log.event("it.happened", what="a b")
    assert journal.read(0, most=100) == ""
    assert capsys.readouterr().err.endswith(' it.happened what="a b"\n')


def _no_file() -> None:
    raise OSError("no space left on device")


# ---- upload --------------------------------------------------------------------------------------------------------


def test_long_logs_go_in_chunks(journal: Journal, server: ScriptedServer, upload: LogUpload) -> None:
    text = ""
    for number in range(600):
        journal.append(f"{number:0100}")
        text += f"{number:0100}\n"
    upload.send_rest()
    assert server.log == text
    assert [len(seen.body["text"]) for seen in server.log_requests] == [0, min(MAX_LOG_CHUNK, len(text))]


def test_no_request_is_sent_without_new_lines(journal: Journal, server: ScriptedServer, upload: LogUpload) -> None:
    upload.send_rest()
    assert server.log_requests == []
    journal.append("one")
    upload.send_if_due()
    journal.append("two")
    upload.send_if_due()  # not yet
    assert server.log == "one\n"
    upload.send_rest()
    assert server.log == "one\ntwo\n"


def test_a_log_upload_is_due_after_its_period(journal: Journal, server: ScriptedServer, api: Server) -> None:
    upload = LogUpload(api, lines=journal, period_s=0)
    for word in ("one", "two"):
        journal.append(word)
        upload.send_if_due()
    assert server.log == "one\ntwo\n"


def test_lost_answers_repeat_no_line(journal: Journal, server: ScriptedServer, upload: LogUpload) -> None:
    server.script("/pilots/log/", LOSE, None, LOSE, LOSE, LOSE)
    for word in ("one", "two", "three", "four", "five"):
        journal.append(word)
        upload.send_rest()
    assert server.log == "one\ntwo\nthree\nfour\nfive\n"


def test_after_an_outage_all_lines_are_sent(journal: Journal, server: ScriptedServer, upload: LogUpload) -> None:
    server.script("/pilots/log/", 503, 503)
    for word in ("one", "two", "three"):
        journal.append(word)
        upload.send_rest()
    assert server.log == "one\ntwo\nthree\n"


def test_a_second_pilot_with_the_same_token_appends_to_the_log(
    journal: Journal, server: ScriptedServer, upload: LogUpload
) -> None:
    server.log = "of the first\n"
    journal.append("of the second")
    upload.send_rest()
    assert server.log == "of the first\nof the second\n"
