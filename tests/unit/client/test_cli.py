"""The command line, against a server with scripted answers."""

import io
import json
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from wms.client.main import main

ROOT = Path(__file__).resolve().parents[3]
EXPLANATION = {
    "job_id": 7,
    "status": "Waiting",
    "summary": "It fits 1 of 2 queues.",
    "task_queue": 3,
    "priority_rank": 2,
    "expected_share": 0.25,
    "conditions": [{"name": "tags", "passed_queues": 1, "failed_queues": 1, "detail": "asks for the tag \x1b[31mgpu"}],
    "queues": [
        {"site": "A", "ce": "ce", "queue": "q", "fits": True, "reasons": []},
        {"site": "B", "ce": "ce", "queue": "q", "fits": False, "reasons": ["one", "two"]},
    ],
    "limits": [],
}
PREVIEW = {
    "task_queues": [
        {
            "id": 3,
            "owner": "alice",
            "group": "lhcb",
            "cpu_time_s": 500,
            "priority": 1000.0,
            "jobs": 2,
            "chance": 0.125,
        }
    ],
    "conditions": [{"name": "owner_group", "left": 4}, {"name": "setup", "left": 1}],
}


class FakeServer:
    """A server that gives every request the same answer, and records the requests."""

    def __init__(self) -> None:
        self.status, self.body = 200, b"{}"
        self.headers: dict[str, str] = {}
        self.requests: list[tuple[str, str, str | None, Any]] = []
        self.cookies: list[str | None] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                said = json.loads(content) if content else None
                fake.requests.append((self.command, self.path, self.headers.get("Authorization"), said))
                fake.cookies.append(self.headers.get("Cookie"))
                self.send_response(fake.status)
                for name, value in fake.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(fake.body)

            do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the framework's name

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def answers(self, status: int, body: object, **headers: str) -> None:
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("WMS_SERVER_URL", "WMS_TOKEN", "WMS_INSECURE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def configured(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """Return the server, with its address and a token in the environment."""
    monkeypatch.setenv("WMS_SERVER_URL", server.url)
    monkeypatch.setenv("WMS_TOKEN", "of-the-environment")
    return server


Types = Callable[[str], None]


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Types:
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


# ---- Logging in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [["--user", "alice"], ["--token"], ["--oidc"]])
def test_no_credential_is_asked_for_or_sent_in_clear(
    way: list[str], types: Types, capsys: pytest.CaptureFixture[str]
) -> None:
    types("secret\n")
    assert main(["login", "--server", "http://wms.example.org", *way]) == 2
    said = capsys.readouterr().err
    assert "http://wms.example.org is not encrypted" in said
    assert "--insecure" in said
    assert sys.stdin.read() == "secret\n"


def test_an_address_in_clear_is_used_where_the_user_allows_it(
    server: FakeServer, home: Path, types: Types, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clear = server.url.replace("127.0.0.1", "0.0.0.0")  # this machine, but not by a loopback address
    server.answers(201, {"token": "t1", "expires_at": "2026-06-01T12:00:00Z"})
    types("secret\n")
    assert main(["login", "--server", clear, "--user", "alice", "--insecure"]) == 0
    server.answers(200, EXPLANATION)
    assert main(["explain", "7"]) == 0
    assert server.requests[-1][2] == "Bearer t1"
    # A token of the environment is another matter.
    (home / ".config" / "wms" / "login.json").unlink()
    monkeypatch.setenv("WMS_SERVER_URL", clear)
    monkeypatch.setenv("WMS_TOKEN", "t2")
    assert main(["explain", "7"]) == 2
    assert "is not encrypted" in capsys.readouterr().err
    monkeypatch.setenv("WMS_INSECURE", "1")
    assert main(["explain", "7"]) == 0
    assert server.requests[-1][2] == "Bearer t2"


def test_the_device_cookie_is_sent_at_the_next_log_in(server: FakeServer, home: Path, types: Types) -> None:
    """Wrong passwords that others send from the same address do not hold it up then."""
    cookie = "wms_device_1=known; Max-Age=1000; Path=/api/v1/auth/token/; HttpOnly; SameSite=Strict"
    server.answers(201, {"token": "new", "expires_at": "2026-08-01T00:00:00Z"}, Set_Cookie=cookie)
    for _ in range(2):
        types("secret\n")
        assert main(["login", "--server", server.url, "--user", "alice"]) == 0
    assert server.cookies == [None, "wms_device_1=known"]
    assert (home / ".config" / "wms" / "devices").stat().st_mode & 0o777 == 0o600


def test_a_log_in_prompts_and_stores_the_token_privately(
    server: FakeServer, home: Path, types: Types, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".config" / "wms" / "login.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"server": "http://old", "token": "old"}')
    file.chmod(0o644)
    types(f"{server.url}/\nalice\nsecret\n")
    server.answers(201, {"token": "t1", "expires_at": "2026-06-02T12:00:00.123456Z"})
    assert main(["login"]) == 0
    assert server.requests == [("POST", "/api/v1/auth/token/", None, {"username": "alice", "password": "secret"})]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"server": server.url, "token": "t1"}
    assert list(file.parent.iterdir()) == [file]
    said = capsys.readouterr()
    assert said.out == f"Logged in at {server.url} as alice until 2026-06-02 12:00 UTC.\n"
    assert "Server [http://old]: User: " in said.err
    assert "t1" not in said.out + said.err

    server.answers(200, EXPLANATION)
    assert main(["explain", "7"]) == 0
    assert server.requests[-1] == ("GET", "/api/v1/jobs/7/explain/", "Bearer t1", None)


def test_a_refused_log_in_stores_nothing(server: FakeServer, home: Path, types: Types) -> None:
    types("wrong\n")
    server.answers(401, {"code": "not_authenticated", "detail": "Wrong user name or password."})
    assert main(["login", "--server", server.url, "--user", "alice"]) == 1
    assert not (home / ".config").exists()


def test_the_environment_overrides_what_is_stored(
    configured: FakeServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured.answers(200, EXPLANATION)
    assert main(["explain", "7"]) == 0
    assert configured.requests[-1][2] == "Bearer of-the-environment"


def test_a_stored_token_is_shown_to_no_other_server(
    server: FakeServer, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".config" / "wms" / "login.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"server": "http://elsewhere", "token": "t1"}')
    monkeypatch.setenv("WMS_SERVER_URL", server.url)
    assert main(["explain", "7"]) == 1
    assert server.requests == []
    assert "run `wms login` first" in capsys.readouterr().err


def test_a_redirection_is_not_followed(configured: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    configured.answers(302, {}, Location="http://127.0.0.1:1/")
    assert main(["explain", "7"]) == 3
    assert len(configured.requests) == 1
    assert "redirects (status 302)" in capsys.readouterr().err


# ---- Asking ----------------------------------------------------------------------------------------------------------


def test_an_explanation_is_printed_without_control_characters(
    configured: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    configured.answers(200, EXPLANATION)
    assert main(["explain", "7", "--site", "A & B"]) == 0
    assert configured.requests[-1][1] == "/api/v1/jobs/7/explain/?site=A+%26+B"
    assert capsys.readouterr().out.splitlines() == [
        "Job 7, Waiting: It fits 1 of 2 queues.",
        "Task queue 3, rank 2, expected share 25.0%",
        "",
        "tags\t1\t1\tasks for the tag \\x1b[31mgpu",
        "",
        "A / ce / q\tyes\t",
        "B / ce / q\tno\tone. two",
    ]


EVIL = "\x1b]0;evil\x07"
BAN, LIMIT = ["admin", "ban", "A", "--because", "x"], ["admin", "limit", "7", "--running", "5"]
BOUNDS: dict[str, object] = dict.fromkeys(["running", "waiting", "cpu_s_per_day", "delay_s", "burst"])
PRIORITY = ["admin", "priority", "g", "5", "--because", "x"]
KILL = ["admin", "pilots", "kill", "5", "--because", "x"]


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (BAN, {"place": EVIL, "state": EVIL, "until": EVIL, "consequence": EVIL}),
        (LIMIT, {**BOUNDS, "id": EVIL, "scope": EVIL, "room": EVIL}),
        (["admin", "limit", "7", "--delete"], {"id": EVIL, "scope": EVIL}),
        (["admin", "ce", "A/B"], {"results": [{"site": "A", EVIL: EVIL}]}),
        (["admin", "black-hole", "7"], {"results": [{"id": 7, EVIL: [EVIL], f"{EVIL}_at": EVIL}]}),
        ([*KILL, "--dry-run"], {"matched": EVIL, "done": 0}),
        (["admin", "suspend", "u"], {"username": EVIL, "waiting_jobs": EVIL, "killed_jobs": EVIL}),
        (["admin", "restore", "u"], {"suspended": True, "username": EVIL, "waiting_jobs": EVIL}),
        (["admin", "member", "g", "u"], {"username": EVIL, "status": EVIL}),
    ],
)
def test_a_server_writes_no_control_characters(
    configured: FakeServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    answer: dict[str, object],
    is_terminal: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    configured.answers(200, answer)
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "\\x1b]0;evil\\x07" in shown
    assert shown.replace("\n", "").replace("\t", "").isprintable()


def test_an_error_of_several_lines_is_shown_as_lines(
    configured: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    configured.answers(400, {"code": "bad_configuration", "detail": f"line 2: A is missing.\nline 3: {EVIL}"})
    assert main(["admin", "limit", "7", "--delete"]) == 1
    assert capsys.readouterr().err == "wms: line 2: A is missing.\nline 3: \\x1b]0;evil\\x07\n"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (PRIORITY, {"groups": [], "group": "g", "priority": "evil"}),
        (PRIORITY, {"groups": [], "group": "g", "priority": 10**400}),
        (PRIORITY[:3], {"groups": 5}),
        (KILL, {"matched": 5, "done": "…"}),
        (KILL, {"matched": 5}),
        (BAN, {"place": "", "state": "banned", "until": None, "consequence": ""}),
        (LIMIT, {"room": "5 of 5"}),
        (["admin", "history"], {"results": [{"at": 1, "who": 1, "target": 1, "facts": "x"}]}),
        (["admin", "member", "g"], {"results": [1], "invitations": None}),
        (["admin", "throttle", "A"], {"when_expired": 1}),
    ],
)
def test_an_answer_of_other_types_is_reported_in_a_sentence(
    configured: FakeServer, capsys: pytest.CaptureFixture[str], arguments: list[str], answer: dict[str, object]
) -> None:
    configured.answers(200, answer)
    assert main(arguments) == 3
    assert capsys.readouterr().err == f"wms: {configured.url} is not a server of this system; check the address.\n"


@pytest.mark.parametrize("errors", [None, {}, {"confirmed": 5, "x": None}])
def test_what_is_to_be_confirmed_may_be_missing(
    configured: FakeServer, capsys: pytest.CaptureFixture[str], errors: object
) -> None:
    configured.answers(409, {"code": "confirmation_needed", "detail": "It stops.", "errors": errors})
    assert main([*PRIORITY, "--confirm"]) == 1
    assert capsys.readouterr().err == "wms: It stops.\n"
    assert configured.requests[-1][3]["confirmed"] == []


def test_a_tried_end_of_a_pause_asks_the_server(configured: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    configured.answers(404, {"code": "not_found", "detail": "There is no such VO."})
    assert main(["admin", "pause", "nosuchvo", "--end", "--dry-run"]) == 1
    assert [request[:2] for request in configured.requests] == [("DELETE", "/api/v1/vos/nosuchvo/pause/?dry_run=true")]
    assert capsys.readouterr().err == "wms: There is no such VO.\n"


def test_a_site_names_at_a_terminal_the_queues_whose_pilots_it_starts(
    configured: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    level = {"state": "active", "state_reason": "", "state_until": None}
    offer = {"cpu_time_s": 7200, "processors": 1, "memory_mb": 2000, "platforms": [], "tags": []}
    queues = [
        {**level, **offer, "name": name, "max_waiting_pilots": most} for name, most in (("grid", 10), ("local", 0))
    ]
    site = {**level, "name": "A", "vos": ["lhcb"], "ces": [{**level, "name": "ce", "queues": queues}]}
    configured.answers(200, {"count": 1, "next": None, "previous": None, "results": [site]})
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["sites", "A"]) == 0
    assert "The site itself starts the pilots of queue local of ce." in capsys.readouterr().out.splitlines()[-1]


def test_a_job_that_no_queue_fits_is_shown_without_rank(
    configured: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    configured.answers(200, {**EXPLANATION, "priority_rank": None, "expected_share": 0.0})
    assert main(["explain", "7"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "Task queue 3, in no draw, expected share 0.0%"


def test_a_job_that_does_not_wait_is_one_line(configured: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    nothing: dict[str, object] = {
        "task_queue": None,
        "priority_rank": None,
        "expected_share": None,
        "conditions": [],
        "queues": [],
    }
    configured.answers(200, {**EXPLANATION, **nothing, "status": "Done", "summary": "It is Done at A."})
    assert main(["explain", "7"]) == 0
    assert capsys.readouterr().out == "Job 7, Done: It is Done at A.\n"


def test_a_dry_run_explains_why_each_condition_excludes_queues(
    configured: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    excluded = {"closed": "", "memory": "requires 8000 MB"}
    exclusions = [{"condition": name, "queues": 1, "detail": detail} for name, detail in excluded.items()]
    fit = {"queues": 4, "fitting": 1, "closed": 1, "sites": ["A"], "exclusions": exclusions, "never": ""}
    kind = {"jobs": 1, "first": 0, "fit": fit}
    dry_run = ["submit", "--executable", "/bin/true", "--dry-run"]
    configured.answers(200, {"jobs": 1, "kinds": [kind], "warnings": [], "uncompared": 0})

    assert main(dry_run) == 0  # a server of version 0.1.0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "It can use 1 of 4 queues.",
        "closed\t1\t",
        "memory\t1\trequires 8000 MB",
    ]

    for exclusion, why in zip(exclusions, ("banned at present", "requires 8000 MB"), strict=True):
        exclusion["why"] = why
    kind["summary"] = "fits 1 of 4 queues, at A"
    configured.answers(200, {"jobs": 1, "kinds": [kind], "warnings": [], "uncompared": 0})

    assert main(dry_run) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "It fits 1 of 4 queues, at A.",
        "closed\t1\tbanned at present",
        "memory\t1\trequires 8000 MB",
    ]


def test_an_offer_is_sent_as_far_as_it_is_given(configured: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    configured.answers(200, PREVIEW)
    given = "--cpu-time-s 600 --site A --platform el8 --platform el9 --tag gpu --processors 4 --group g --owner o"
    given += " --wall-time-s 60 --gpus 0 --disk-mb 5 --container"
    assert main(["match-test", *given.split()]) == 0
    method, path, _, body = configured.requests[-1]
    assert (method, path) == ("POST", "/api/v1/matches/preview/")
    assert body == {
        "cpu_time_s": 600,
        "site": "A",
        "platforms": ["el8", "el9"],
        "tags": ["gpu"],
        "processors": 4,
        "wall_time_s": 60,
        "gpus": 0,
        "disk_mb": 5,
        "container": True,
        "group": "g",
        "owner": "o",
    }
    assert capsys.readouterr().out.splitlines() == [
        "3\talice\tlhcb\t500\t1000\t2\t12.5%",
        "",
        "owner_group\t4",
        "setup\t1",
    ]
    configured.answers(200, {**PREVIEW, "task_queues": []})
    main(["match-test", "--cpu-time-s", "1"])
    assert capsys.readouterr().out.startswith("This offer would get nothing.\n")


@pytest.mark.parametrize(
    ("command", "answer"),
    [(["explain", "7"], EXPLANATION), (["match-test", "--cpu-time-s", "1"], PREVIEW)],
)
def test_json_is_the_answer_as_it_is(
    configured: FakeServer, capsys: pytest.CaptureFixture[str], command: list[str], answer: object
) -> None:
    configured.answers(200, answer)
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer


# ---- When it does not work -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "code", "sentence"),
    [
        (
            404,
            {"code": "not_found", "detail": "There is no such object."},
            1,
            "There is no job 7, or you may not see it; an ended job may have been removed.",
        ),
        (429, {"code": "too_many", "detail": "Wait."}, 1, "Wait."),
        (500, b"<html>", 3, "failed (status 500)"),
        (503, {"code": "x", "detail": "y"}, 3, "failed (status 503)"),
        (200, b"<html>", 3, "is not a server of this system"),
        (404, b"<html>", 3, "is not a server of this system"),
        (200, b"[]", 3, "is not a server of this system"),
        (200, b"{}", 3, "is not a server of this system"),
    ],
)
def test_exit_codes_distinguish_refusals_and_unreachable_servers(
    configured: FakeServer, capsys: pytest.CaptureFixture[str], status: int, body: object, code: int, sentence: str
) -> None:
    configured.answers(status, body, Retry_After="86400")  # longer than any command waits
    assert main(["explain", "7"]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err


def test_a_refusal_as_json_is_the_answer_of_the_server(
    configured: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = {"code": "unknown_place", "detail": "No site.", "errors": {"site": ["No site."]}}
    configured.answers(400, refusal)
    assert main(["explain", "7", "--site", "x", "--json"]) == 1
    assert json.loads(capsys.readouterr().err) == refusal


def test_an_unreachable_server_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WMS_SERVER_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("WMS_TOKEN", "t")
    assert main(["explain", "7"]) == 3
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["edit"],
        ["explain", "x"],
        ["match-test"],
        ["submt"],
        ["explain", "-1"],
        ["explain", "9-5"],
        ["list", "-q"],
    ],
)
def test_an_invalid_command_line_is_reported(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["explain", "abc"], "'abc' is not the id of a job; give its number, such as 69."),
        (["explain", "1_0"], "'1_0' is not the id of a job; give its number, such as 69."),
        (["admin", "priority", "g", "nan"], "'nan' is not a number; give one such as 1000."),
        (["admin", "limit", "7", "--delay", "1e999"], "'1e999' is not a number; give one such as 1000."),
        (["match-test", "--cpu-time-s", "1h"], "'1h' is not a whole number; give one such as 86400."),
        (["match-test", "--cpu-time-s", "1", "--gpus", "x"], "'x' is not a whole number; give one such as 86400."),
    ],
)
def test_a_wrong_value_is_reported_without_internal_terms(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    said = capsys.readouterr().err
    assert sentence in said
    assert "invalid" not in said


@pytest.mark.parametrize(
    "url", ["wms.example.org", "ftp://a", "https://", "https://u:p@a", "https://a?b", "https://a:b"]
)
def test_an_invalid_server_url_is_reported(url: str, types: Types) -> None:
    types("secret\n")
    assert main(["login", "--server", url, "--user", "alice"]) == 2


def test_a_token_that_is_there_gets_no_scope(
    server: FakeServer, types: Types, capsys: pytest.CaptureFixture[str]
) -> None:
    types("a-token\n")
    assert main(["login", "--server", server.url, "--token", "--scope", "administer"]) == 2
    assert "leave out --scope, or --token." in capsys.readouterr().err
    assert server.requests == []


def test_a_log_in_without_a_password(types: Types) -> None:
    types("")
    assert main(["login", "--server", "https://a", "--user", "alice"]) == 2


@pytest.mark.parametrize("command", [["-m", "wms.client"], ["wms/client/wms"]])
def test_the_command_needs_no_installed_packages(command: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-S", *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "usage: wms" in ran.stdout
