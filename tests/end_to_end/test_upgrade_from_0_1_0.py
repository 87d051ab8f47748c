"""The upgrade of a database of version 0.1.0, and the refusal of an older one (ADR 69).

The dump is of a database that version 0.1.0 (commit 0b859e3d) filled through its REST interface, with the key for
development: waiting, held, running and ended jobs, one that was killed and whose pilot does not know yet, sandboxes,
replicas and limits. Its first lines name the pilot's token and the lease of a running job.
"""

import lzma
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connection

from tests.pace import within
from wms.stack.binaries import find_postgres

PROJECT: Final = Path(__file__).parents[2]
DUMP: Final = lzma.decompress((Path(__file__).parent / "database-0.1.0.sql.xz").read_bytes()).decode()
REFUSAL: Final = "The database is of a version before 0.1.0: upgrade with 0.1.0 first."
#: Of the pilot's token and lease; prints each status code and answer.
PILOT_GOES_ON: Final = """
import sys, uuid
import django; django.setup()
from taskqueues.services import index_changes, priorities
from tests.wsgi import FastClient
# What the scheduler does each minute: the dump has changes of another server's transactions.
index_changes.remove_old()
token, lease = sys.argv[1:]
usage = {"cpu_s": 100, "wall_s": 110, "memory_mb": 600, "disk_mb": 4}
for path, body in (
    (f"{lease}/heartbeat/", {**usage, "std_output": "event 3"}),
    (f"{lease}/status/", {"status": "Completing"}),
    (f"{lease}/finish/", {"exit_code": 0, "usage": usage}),
    ("", {"request_id": str(uuid.uuid4()), "cpu_time_s": 300000}),
):
    headers = {"Authorization": f"Bearer {token}"}
    answer = FastClient().post(f"/api/v1/matches/{path}", body, content_type="application/json", headers=headers)
    print(answer.status_code)
from wms.jobs.models import Job
print(*Job.objects.order_by("pk").values_list("status", flat=True))
priorities.recalculate(only_changed=True)  # the match may have emptied a task queue, and no scheduler runs
"""


@contextmanager
def database(name: str, *, template: str = "template0") -> Iterator[str]:
    """Make a database on the server of the tests; yield its URL."""
    own = f"{name}_{os.getpid()}"
    server = os.environ["WMS_DATABASE_URL"]
    with psycopg.connect(urlsplit(server)._replace(path="/postgres").geturl(), autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{own}" TEMPLATE "{template}"')
        yield urlsplit(server)._replace(path=f"/{own}").geturl()
        admin.execute(f'DROP DATABASE "{own}"')


#: Values of the columns that tables have got since.
NEW_COLUMNS: Final = {
    "accounts_securityevent": ", '', '', NULL",
    "accounts_vo": ", NULL, NULL, NULL, NULL, '', NULL, '', NULL, false",
    "jobs_outputtail": ", '', ''",
    "jobs_sandboxupload": ", NULL",
    "jobs_storeddescription": ", NULL",
    "kernel_pulse": ", '{}'",
    "matching_match": ", 0, 0",
    "pilots_director": ", '', ''",
    "pilots_pilot": ", '', ''",
    "resources_computingelement": ", ''",
    "resources_queue": ", ''",
    "resources_sitetoken": ", ''",
}


def name_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def execute(url: str, statements: str) -> None:
    with psycopg.connect(url) as session:
        session.execute(statements)


def run(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with the settings of the project for a database."""
    variables = {
        "DJANGO_SETTINGS_MODULE": "wms.settings",
        "WMS_ALLOWED_HOSTS": "testserver",
        "WMS_DATABASE_URL": url,
        "WMS_EMBEDDED": "1",
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=PROJECT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=within(120),
    )


def manage(url: str, *arguments: str) -> str:
    done = run(url, "manage.py", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dump_of(url: str, *options: str) -> str:
    program = str(find_postgres().directory / "pg_dump")
    command = [program, "--no-owner", "--no-privileges", *options, url]
    written = subprocess.run(command, capture_output=True, text=True, check=True, timeout=within(120)).stdout
    return re.sub(r"^\\(un)?restrict .*\n", "", written, flags=re.MULTILINE)


def tables_of(url: str) -> str:
    """Return the schema without parentheses and casts of texts, which PostgreSQL moves when it reads its own dump."""
    return re.sub(r"[()]|::(text|character varying)\b(\[\])?", "", dump_of(url, "--schema-only"))


def rows_of(url: str) -> list[str]:
    """Return all rows and sequences but the names of applied migrations, sorted: an UPDATE moves a row."""
    left_out = [f"--exclude-table-data=public.django_migrations{end}" for end in ("", "_id_seq")]
    return sorted(dump_of(url, "--data-only", "--inserts", *left_out).splitlines())


def as_upgraded(row: str) -> str:
    """Return a row of a dump with what the migrations change: a word, and new columns."""
    found = re.match(r"INSERT INTO public\.(\w+) .*\);$", row)
    added = NEW_COLUMNS.get(found.group(1), "") if found else ""
    return (f"{row.removesuffix(');')}{added});" if added else row).replace("pulse", "liveness")


@pytest.fixture(scope="module")
def former() -> Iterator[str]:
    with database("former") as url:
        execute(url, DUMP)
        yield url


@pytest.fixture(scope="module")
def upgraded(former: str) -> Iterator[str]:
    with database("upgraded", template=name_of(former)) as url:
        manage(url, "migrate")
        yield url


@pytest.fixture(scope="module")
def new(django_db_setup: None) -> str:
    """Return the URL of the worker's own database, whose tables the migrations have made.

    It exists if a test that is run is marked ``django_db``, as those that use this are.
    """
    return urlsplit(os.environ["WMS_DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()


@pytest.mark.django_db
def test_an_upgraded_database_has_the_tables_of_a_new_one_and_all_its_rows(
    former: str, upgraded: str, new: str
) -> None:
    # Django's content types and permissions of a model that was renamed, and of new ones; rows of what is counted now.
    names = (
        "outputname|output name|madetoday|made today|usersession|user session|storedbytes|stored bytes|"
        "archivefile|archive file|removalpermit|removal permit|removalsweep|removal sweep|"
        "storedmeasurements|stored measurements|configurationchange|idmark|id mark|lastbackup|last backup|"
        "directordecision|director decision|siteadministrator|site administrator|downtime|jobretry|job retry|"
        "submissioncanary|submission canary"
    )
    counted = re.compile(rf"--|$|.*({names}|auth_permission_id_seq|django_content_type_id_seq)")
    rows = [row for row in rows_of(upgraded) if not counted.match(row)]
    assert rows == sorted(as_upgraded(row) for row in rows_of(former) if not counted.match(row))
    assert tables_of(upgraded) == tables_of(new)
    manage(upgraded, "migrate", "--check")


@pytest.mark.django_db
def test_a_migration_that_was_interrupted_goes_on(new: str) -> None:
    with database("interrupted") as url:
        manage(url, "migrate", "resources")
        manage(url, "migrate")
        assert tables_of(url) == tables_of(new)


def verify(url: str) -> None:
    """Check that nothing is wrong but that the dump came without the file of its sandbox."""
    done = run(url, "manage.py", "verify")
    assert re.fullmatch(r"The file of sandbox sha256:\w{64} is missing.\n", done.stdout), done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "CommandError: 1 violations of invariants."


def test_pilots_go_on_after_the_upgrade(upgraded: str) -> None:
    token, lease = re.findall(r"^-- (?:Pilot token|Lease): ([\w.-]+)", DUMP, re.MULTILINE)
    with database("going_on", template=name_of(upgraded)) as url:
        verify(url)
        done = run(url, "-c", PILOT_GOES_ON, token, lease)
        assert done.stdout.splitlines()[:4] == ["200", "200", "200", "201"], done.stdout + done.stderr
        statuses = done.stdout.splitlines()[4].split()
        assert statuses[:5] == ["Done", "Failed", "Killed", "Done", "Running"]
        assert statuses.count("Matched") == 1
        verify(url)


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param("app = 'taskqueues' AND name LIKE '0019_%'", id="the last one"),
        pytest.param("app IN ('jobs', 'matching') AND name > '001'", id="many of two apps"),
        pytest.param("app <> 'contenttypes' AND name NOT LIKE '0001_%'", id="all but the first"),
    ],
)
def test_a_database_that_has_a_part_of_the_migrations_of_0_1_0_is_refused(
    former: str, missing: str, tmp_path: Path
) -> None:
    (tmp_path / "wms.yaml").write_text("vos: []\n")
    with database("part", template=name_of(former)) as url:
        execute(url, f"DELETE FROM public.django_migrations WHERE {missing}")
        before = dump_of(url)
        # The commands that `up` runs first.
        for command in (["migrate"], ["configure", str(tmp_path / "wms.yaml"), "--migrate"]):
            done = run(url, "manage.py", *command)
            assert done.returncode == 1
            assert done.stderr.splitlines()[-1] == f"CommandError: {REFUSAL}"
        assert dump_of(url) == before
