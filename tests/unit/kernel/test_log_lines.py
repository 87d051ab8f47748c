"""Lines of the log: one line for each event with its facts, and no secrets."""

import io
import json
import logging
import sys
from datetime import UTC, datetime
from uuid import UUID

import pytest

from wms.accounts.domain import USER_TOKEN_PREFIX
from wms.kernel.callers import current_command, current_request_id
from wms.kernel.log_lines import MASK, Ids, JsonLine, LineWithFacts, ShownAtTerminal, safe_facts, safe_text

FORMATTER = LineWithFacts("%(levelname)s %(name)s %(message)s", ours=["wms"])
JSON = JsonLine(ours=["wms"])
SECRETS = [
    USER_TOKEN_PREFIX + "uK8z1l0n_g2Qx9VtX5Rr3Yp7Wm4Jc6Hb8Df0Ks2",
    "wmsp_eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJwaWxvdCI6MX0.c2lnbmF0dXJl",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJwaWxvdCI6MX0.c2lnbmF0dXJl",
    "Bearer abcdefgh12345678",
    "gAAAAABmZ0J1c3RfYV90ZXN0X29mX2Zlcm5ldF90ZXh0",
    "argon2$argon2id$v=19$m=102400,t=2,p=8$c2FsdA$aGFzaA",
    "pbkdf2_sha256$870000$salt$hash",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
    "uK8z1l0ng2Qx9VtX5Rr3Yp7Wm4Jc6Hb8Df0Ks2Nv4Ty",
]


def line(
    message: str,
    *args: object,
    name: str = "wms.jobs",
    form: logging.Formatter = FORMATTER,
    error: Exception | None = None,
    **extra: object,
) -> str:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    return form.format(
        logging.getLogger(name).makeRecord(name, logging.INFO, "file.py", 1, message, args, exc_info, extra=extra)
    )


def test_a_line_of_json_has_the_event_and_its_facts() -> None:
    written = json.loads(line("job.matched", form=JSON, job=7, site="LCG.CERN.ch", level="of the fact", tags=["a"]))
    assert datetime.fromisoformat(written.pop("time")).tzinfo is not None
    assert written == {
        "level": "INFO",
        "logger": "wms.jobs",
        "event": "job.matched",
        "job": 7,
        "site": "LCG.CERN.ch",
        "tags": ["a"],
    }


def test_a_line_of_json_has_its_traceback_inside() -> None:
    written = line("failed", form=JSON, error=failure("bad\nnews"))
    assert "\n" not in written
    assert json.loads(written)["error"].endswith("ValueError: bad\nnews")


@pytest.mark.parametrize("form", [FORMATTER, JSON])
def test_a_long_traceback_is_cut_to_its_end(form: logging.Formatter) -> None:
    written = line("failed", form=form, error=failure("x" * 100_000 + " the end"))
    assert len(written) < 60_000
    assert "the end" in written


def test_all_ids_of_a_set_of_jobs_are_found_by_one_search() -> None:
    jobs = Ids(range(1, 501))
    words = line("job.killed", job=jobs).split(" ")
    assert words[3:] == [f"job={job}" for job in jobs]
    assert json.loads(line("job.killed", form=JSON, job=jobs))["job"] == list(jobs)


@pytest.mark.parametrize("form", [FORMATTER, JSON])
@pytest.mark.parametrize("name", ["wms.jobs", "celery.worker"])
def test_each_line_of_a_request_has_its_id(form: logging.Formatter, name: str) -> None:
    token = current_request_id.set("a-1")
    try:
        written = line("failed", form=form, name=name)
    finally:
        current_request_id.reset(token)
    assert "request=a-1" in written or json.loads(written)["request"] == "a-1"
    assert "request" not in line("failed", form=form, name=name)


def test_the_facts_follow_the_message() -> None:
    assert (
        line("pilot.registered", pilot_id=7, site="LCG.CERN.ch", reason="no room", empty="", tags=["a", "b"])
        == 'INFO wms.jobs pilot.registered pilot_id=7 site=LCG.CERN.ch reason="no room" empty="" tags=["a","b"]'
    )


@pytest.mark.parametrize(
    ("logger", "level", "command", "is_terminal", "is_shown"),
    [
        ("wms.accounts.security_log", logging.INFO, "configure", True, False),
        ("wms.accounts.security_log", logging.WARNING, "configure", True, True),
        ("wms.accounts.security_log", logging.INFO, "configure", False, True),
        ("wms.accounts.security_log", logging.INFO, "", True, True),
        ("wms.jobs.services", logging.INFO, "configure", True, True),
    ],
)
def test_a_command_at_a_terminal_leaves_out_the_changes_of_the_security_log(
    monkeypatch: pytest.MonkeyPatch, logger: str, level: int, command: str, *, is_terminal: bool, is_shown: bool
) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.setattr(sys, "stderr", Stream())
    record = logging.getLogger(logger).makeRecord(logger, level, "file.py", 1, "security.user.added", (), None)
    token = current_command.set(command)
    try:
        assert ShownAtTerminal().filter(record) is is_shown
    finally:
        current_command.reset(token)


def test_facts_of_other_packages_are_left_out() -> None:
    assert line("Not Found: %s", "/x", name="django.request", status_code=404, request=object()) == (
        "INFO django.request Not Found: /x"
    )


def test_line_breaks_and_control_characters_are_escaped() -> None:
    forged = "a\n2026-11-23 INFO wms forged\x1b[2J\u202e\u2028\x00"
    for written in (line("job.named", job_name=forged), line("job.named: %s", forged)):
        assert written.isprintable()
        assert r"\x1b[2J" in written.replace("\\\\", "\\")


def fail(sentence: str) -> None:
    raise ValueError(sentence)


def failure(sentence: str) -> Exception:
    try:
        fail(sentence)
    except ValueError as error:
        return error
    raise AssertionError


def test_no_line_of_a_traceback_looks_like_a_record() -> None:
    try:
        fail("bad\n2026-11-23 INFO wms forged\x1b[2J")
    except ValueError:
        record = logging.LogRecord("wms", logging.ERROR, "f", 1, "failed", (), sys.exc_info())
    first, *others = FORMATTER.format(record).split("\n")
    assert first == "ERROR wms failed"
    assert others
    assert all(each.startswith("    ") and each.isprintable() for each in others)


@pytest.mark.parametrize("form", [FORMATTER, JSON])
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("place", ["fact", "nested fact", "message", "argument", "foreign message", "error"])
def test_secrets_are_masked_anywhere_in_a_line(form: logging.Formatter, secret: str, place: str) -> None:
    sentence = f"refused {secret} here"
    written = {
        "fact": lambda: line("failed", form=form, reason=sentence),
        "nested fact": lambda: line("failed", form=form, nested={"of": [sentence]}),
        "message": lambda: line(sentence, form=form),
        "argument": lambda: line("failed: %s", sentence, form=form),
        "foreign message": lambda: line(sentence, form=form, name="celery.worker"),
        "error": lambda: line("failed", form=form, error=failure(sentence)),
    }[place]()
    for part in secret.replace("\n", " ").split(" "):
        assert len(part) < 8 or part not in written
    assert MASK in written


def test_functions_of_the_database_are_no_secrets() -> None:
    assert "wms_report_status" in line("failed", error=failure("function wms_report_status() does not exist"))


def test_texts_under_names_of_secrets_are_masked_and_their_numbers_are_not() -> None:
    assert safe_facts(
        {"password": "hunter2", "token": "x", "token_id": 7, "api_key": ["a"], "options": {"credential": "c"}}
    ) == {"password": MASK, "token": MASK, "token_id": 7, "api_key": [MASK], "options": {"credential": MASK}}


def test_the_password_of_an_address_is_masked() -> None:
    assert safe_text("postgres://wms:hunter2@db.example.org/wms") == f"postgres://{MASK}@db.example.org/wms"


def test_names_and_ids_are_left_as_they_are() -> None:
    facts = {
        "sandbox": "sha256:" + "0123456789abcdef" * 4,
        "job_group": UUID(int=5),
        "site": "LCG.Karlsruhe-Institute-of-Technology.de",
        "ce": "ce01.example.org",
        "until": datetime(2026, 6, 1, tzinfo=UTC),
        "options": ["identity_file", "host"],
    }
    assert MASK not in str(safe_facts(facts))


def test_invalid_names_are_masked_and_long_values_cut() -> None:
    assert safe_facts({"request": object(), "body": b"bytes"}) == {"request": MASK, "body": MASK}
    assert len(safe_text("a" * 10_000)) == 200
