"""Resources that a node has once for all of its pilots, and payloads that occupy or abuse them."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam
from uuid import uuid4

import pytest

from tests.agent.running import ORDINARY_USER, ROOT, RunningAgent
from tests.agent.scripted import ScriptedServer
from tests.attacks.payloads import MEET, PYTHON, Meeting, Start, printed, python

#: Pilots are started under several accounts.
pytestmark = pytest.mark.root

#: Prints which results and kept output of others it finds.
NEIGHBOUR = f"""import os
open("result", "w").write("mine")
{MEET}
paths = [base + "/" + name for base, _, names in os.walk("{{top}}") for name in names]
print([path for path in paths if "result" in path or "kept" in path if not os.path.samefile(path, "result")])
"""
#: Opens what would end or stop all processes of a control group.
GROUPS = """
import os
for base, _, names in os.walk("/sys/fs/cgroup"):
    for path in [base + "/" + name for name in names if name in ("cgroup.kill", "cgroup.freeze", "cgroup.procs")]:
        try:
            os.close(os.open(path, os.O_WRONLY))
            print("opened", path)
        except OSError:
            pass
"""
FILL_MEMORY = """
with open("/dev/shm/full", "wb") as file:
    for _ in range(150):
        file.write(bytes(1024**2))
"""
FILL_FILES = """
import itertools, time
try:
    for number in itertools.count():
        open(f"file-{number}", "w").close()
except OSError:
    time.sleep(600)
"""
CGROUPS = Path("/sys/fs/cgroup/unified" if Path("/sys/fs/cgroup/unified").is_dir() else "/sys/fs/cgroup")


@pytest.fixture(params=["root", "namespaces"])
def node(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory outside of /tmp, because each payload has a /tmp of its own."""
    directory = Path(tempfile.mkdtemp(prefix="wms-attack-", dir="/srv"))
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_payloads_of_two_pilots_of_one_account_are_isolated(
    server: ScriptedServer, start_as: Start, node: str, meeting: Meeting, directory: Path
) -> None:
    words = ("first", "second")
    agents = []
    for word in words:
        python(server, NEIGHBOUR.format(port=meeting.port, word=word, top=directory))
        scratch = directory / f"slot-{word}"  # as batch systems make them
        scratch.mkdir()
        shutil.chown(scratch, "root" if node == "root" else ORDINARY_USER)
        agents.append(start_as("--work-dir", str(scratch), node=node, node_processors=1, stamp=word))
        meeting.wait_for(word)
    for word in words:
        meeting.let_go(word)

    assert [agent.wait() for agent in agents] == [0, 0], [agent.log for agent in agents]
    assert [printed(lease) for lease in server.leases] == ["[]\n", "[]\n"]


def test_output_that_is_kept_while_another_payload_runs_is_not_found_by_it(
    server: ScriptedServer, start_as: Start, node: str, meeting: Meeting, directory: Path
) -> None:
    server.script("/sandboxes/", *[(413, {"code": "too_large", "detail": "no"})] * 2)
    python(server, NEIGHBOUR.format(port=meeting.port, word="neighbour", top=directory))
    server.add_job("/bin/echo", "of another")
    agent = start_as(node=node)
    meeting.wait_for("neighbour")
    server.wait_until(lambda: any(lease.finished for lease in server.leases))
    assert list(directory.glob("kept-*/*"))
    meeting.let_go("neighbour")

    assert agent.wait() == 0, agent.log
    assert printed(server.leases[0]) == "[]\n"


def test_control_groups_of_the_pilots_account_are_not_the_payloads(
    server: ScriptedServer, node: str, directory: Path
) -> None:
    group = CGROUPS / f"wms-attack-{uuid4().hex}" / "pilot"
    owner = None if node == "root" else (getpwnam(ORDINARY_USER).pw_uid, getpwnam(ORDINARY_USER).pw_gid)
    try:
        group.mkdir(parents=True)
    except OSError:
        pytest.skip("control groups cannot be made here")
    try:
        if owner is not None:  # as systemd gives one to an account
            for each in (group.parent, group.parent / "cgroup.procs", group, *group.iterdir()):
                os.chown(each, *owner)
        become = f"setpriv --reuid={owner[0]} --regid={owner[1]} --clear-groups" if owner else ""
        python(server, GROUPS)
        enter = ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec {become} "$0" "$@"')
        with RunningAgent(
            server.url, directory, packed=True, python=PYTHON, show=False, owner=owner, enter=enter
        ) as agent:
            assert agent.wait() == 0, agent.log
        assert printed(server.lease) == ""
    finally:
        for each in sorted(group.parent.glob("**/"), reverse=True):
            each.rmdir()


def test_shared_memory_ends_at_the_part_of_the_slot_of_a_job_without_a_limit(
    server: ScriptedServer, start_as: Start, node: str
) -> None:
    server.configuration["place"] |= {"processors": 4, "memory_mb": 400}
    python(server, FILL_MEMORY)

    agent = start_as(node=node)

    assert agent.wait() == 0, agent.log
    assert server.lease.finished
    assert server.lease.finished["exit_code"] == 1
    assert "No space left on device" in server.lease.files()["std.err"]


def test_a_payload_that_exhausts_inodes_is_stopped(
    server: ScriptedServer, start_as: Start, node: str, directory: Path
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=3000,size=100m,mode=777", "tmpfs", directory], check=True)
    try:
        python(server, FILL_FILES)
        agent = start_as(node=node)
        assert agent.wait() == 0, agent.log
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
    assert server.lease.finished
    assert server.lease.finished["exit_code"] is None
    assert server.lease.finished["minor_status"].startswith("The disk of the node is full: 0.0% of its inodes are free")


def test_private_files_in_dot_directories_of_the_home_are_hidden(directory: Path) -> None:
    private = [".netrc", ".globus/userkey.pem", ".config/tool/site/token"]
    public = [".globus/usercert.pem", "software/bin/tool"]
    job, script = directory / "job", directory / "script.py"
    for name in (*private, *public):
        path = directory / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content")
        path.chmod(0o600 if name in private else 0o644)
    job.mkdir()
    script.write_text(
        "import os, sys\n"
        f"print([name for name in {[*private, *public]} if os.access(f'{directory}/home/' + name, os.R_OK)\n"
        f"       and open(f'{directory}/home/' + name).read()])\n"
    )
    for path in (directory, *directory.rglob("*")):
        shutil.chown(path, ORDINARY_USER)
    lists = {"hide": [], "read": [], "own": [str(job)], "show": []}
    told = {"top": str(job), "tmp": str(job), **lists, "home": str(directory / "home"), "shared_memory_mb": 0}
    told |= {"other_user": False, "shared": ["/tmp", "/var/tmp"], "shared_memory": "/dev/shm"}
    program = (ROOT / "pilots" / "agent" / "job" / "namespaces.py").read_text()

    done = subprocess.run(
        [PYTHON, "-I", "-S", "-c", program, json.dumps(told), str(script)],
        user=ORDINARY_USER, extra_groups=[], capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip

    assert (done.stdout, done.stderr) == (f"{public}\n", "")
