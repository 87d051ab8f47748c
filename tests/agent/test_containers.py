"""Jobs in containers, by a runtime that does as apptainer does without needing any privilege: real processes."""

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import StartAgent
from tests.agent.scripted import Lease, ScriptedServer

#: Takes "exec", options and an image; then runs what is left in an environment where only the image's PATH is other.
RUNTIME = """#!/bin/sh
[ "$1" != --version ] || {{ echo "apptainer version 1.3.0"; exit; }}
printf '%s\\n' "$@" > "{told}"
shift
bound=
while [ "${{1#-}}" != "$1" ]; do
    case "$1" in
        --nv) shift ;;
        --pwd) cd "$2"; shift 2 ;;
        --home) HOME=$2; export HOME; shift 2 ;;
        --bind) bound="$bound $2"; shift 2 ;;
        *) echo "unknown option $1" >&2; exit 255 ;;
    esac
done
image=$1
shift
case "$image" in
    docker://broken*) echo "INFO: pulling" >&2; echo "FATAL: no such manifest" >&2; echo >&2; exit 255 ;;
esac
PATH=/usr/local/bin:/usr/bin:/bin IMAGE=$image BOUND=$bound exec "$@"
"""


REGISTRY = "one of a registry is written docker://alpine:3"


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Return the file where the runtime writes its arguments."""
    return tmp_path / "told"


@pytest.fixture
def node(tmp_path: Path, told: Path) -> dict[str, str]:
    """Return the environment of a pilot on a node that has a runtime."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "apptainer"
    program.write_text(RUNTIME.format(told=told))
    program.chmod(0o755)
    return {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture
def bare_node(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a pilot on a node that has none, whatever this machine has."""
    (tmp_path / "empty").mkdir()
    return {"PATH": str(tmp_path / "empty")}


def offer_to(server: ScriptedServer) -> dict[str, Any]:
    offer: dict[str, Any] = server.requests_to("/matches/")[0].body
    return offer


def finished(lease: Lease) -> tuple[int | None, str | None]:
    assert lease.finished is not None
    return lease.finished["exit_code"], lease.finished.get("minor_status")


@pytest.mark.parametrize(("promised", "offered"), [(True, True), (False, False), (None, True)])
def test_containers_are_offered_where_the_node_can_and_the_server_does_not_say_no(
    server: ScriptedServer, start: StartAgent, node: dict[str, str], promised: bool | None, offered: bool
) -> None:
    server.configuration["place"]["container"] = promised
    start(environment=node).wait()
    assert offer_to(server)["container"] is offered
    assert server.node_reports[0]["node"]["container_runtime"].endswith("/apptainer")


def test_a_node_without_a_runtime_offers_none_and_hands_such_a_job_back(
    server: ScriptedServer, start: StartAgent, bare_node: dict[str, str]
) -> None:
    server.configuration["place"]["container"] = None
    server.add_job("true", container="docker://alpine")
    start(environment=bare_node).wait()
    assert offer_to(server)["container"] is False
    assert finished(server.lease) == (222, "The node has no container runtime (apptainer or singularity)")
    assert server.lease.statuses == []


def test_a_job_runs_in_its_image_with_its_own_files_and_its_environment(
    server: ScriptedServer, start: StartAgent, node: dict[str, str], told: Path
) -> None:
    script = (
        b'#!/bin/sh\necho "$IMAGE|$PATH|$SEED|$1|$2"; pwd; echo "$HOME"; touch "$TMPDIR/x" && echo "$BOUND"; exit 7'
    )
    given = server.add_sandbox(script, file_name="run.sh")
    server.add_job(
        "run.sh",
        "'a b' c",
        container="docker://registry.org/os:9",
        input_sandboxes=[given],
        environment={"SEED": "5"},
        gpus=1,
    )
    start(environment=node).wait()
    assert finished(server.lease)[0] == 7
    line, pwd, home, bound = server.lease.files()["std.out"].splitlines()
    assert line == "docker://registry.org/os:9|/usr/local/bin:/usr/bin:/bin|5|a b|c"
    assert pwd == home
    assert str(Path(pwd).parent / "tmp") in bound.split()
    assert {"exec", "--nv"} <= set(told.read_text().splitlines())


def test_a_command_is_one_of_the_image(server: ScriptedServer, start: StartAgent, node: dict[str, str]) -> None:
    server.add_job("printf", "%s hello", container="docker://alpine")
    start(environment=node).wait()
    assert finished(server.lease)[0] == 0
    assert server.lease.files()["std.out"] == "hello"


@pytest.mark.parametrize(("executable", "code"), [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_what_the_image_does_not_have_fails_the_job_as_ever(
    server: ScriptedServer, start: StartAgent, node: dict[str, str], executable: str, code: int
) -> None:
    server.add_job(executable, container="docker://alpine")
    start(environment=node).wait()
    assert finished(server.lease)[0] == code


def test_a_payload_that_ends_as_a_runtime_does_that_fails_is_not_taken_for_one(
    server: ScriptedServer, start: StartAgent, node: dict[str, str]
) -> None:
    server.add_job("/bin/sh", "-c 'exit 255'", container="docker://alpine")
    start(environment=node).wait()
    assert finished(server.lease)[0] == 255


def test_a_job_whose_container_does_not_start_goes_elsewhere_and_its_owner_reads_why(
    server: ScriptedServer, start: StartAgent, node: dict[str, str]
) -> None:
    server.configuration["place"]["container"] = True
    server.add_job("true", container="docker://broken")
    start(environment=node).wait()
    assert finished(server.lease) == (222, "The container could not be started: FATAL: no such manifest")
    assert len(server.node_reports) == 2  # the node is looked at again
    # The same job would come back at once.
    assert [seen.body["container"] for seen in server.requests_to("/matches/")] == [True, False]


def test_an_image_that_the_job_brings_is_used(
    server: ScriptedServer, start: StartAgent, node: dict[str, str], told: Path
) -> None:
    given = server.add_sandbox(b"image", file_name="own.sif")
    server.add_job("true", container="own.sif", input_sandboxes=[given])
    start(environment=node).wait()
    assert finished(server.lease)[0] == 0
    assert any(line.endswith("/job/own.sif") for line in told.read_text().splitlines())


@pytest.mark.parametrize(
    ("image", "ending"),
    [
        (
            "alpine:3",
            (None, f"There is no container image alpine:3 among the job's files; {REGISTRY}"),
        ),
        ("/no/such/image.sif", (222, "The container image is missing on the node: /no/such/image.sif")),
    ],
)
def test_an_image_that_is_not_there(
    server: ScriptedServer, start: StartAgent, node: dict[str, str], image: str, ending: tuple[int | None, str]
) -> None:
    server.add_job("true", container=image)
    start(environment=node).wait()
    assert finished(server.lease) == ending


def test_a_site_says_where_images_are_kept_else_they_go_with_the_job(
    server: ScriptedServer, start: StartAgent, node: dict[str, str]
) -> None:
    variables = ("APPTAINER_CACHEDIR", "APPTAINER_BINDPATH", "SINGULARITY_CACHEDIR", "APPTAINER_DOCKER_PASSWORD")
    show = " ".join(f'"${name}"' for name in variables)
    server.add_job("/bin/sh", f"-c 'printf \"%s\\n\" {show}'", container="docker://alpine")
    of_site = {"APPTAINER_CACHEDIR": "/images", "APPTAINER_BINDPATH": "/data", "APPTAINER_DOCKER_PASSWORD": "secret"}
    start(environment={**node, **of_site}).wait()
    cache, bound, other_cache, password = server.lease.files()["std.out"].split("\n")[:4]
    assert (cache, bound, password) == ("/images", "/data", "")
    assert other_cache.endswith("/pilot/images")


def test_a_job_in_a_container_is_killed_with_all_its_processes(
    server: ScriptedServer, start: StartAgent, node: dict[str, str]
) -> None:
    server.add_job("/bin/sh", "-c 'echo started; sleep 1000; sleep 1000'", container="docker://alpine")
    agent = start("--grace-s", "0.3", environment=node)
    server.wait_until(
        lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
    )
    server.order("kill", id=5)
    server.wait_until(lambda: 5 in server.lease.acknowledged)
    assert agent.wait() == 0
    assert finished(server.lease)[1] == "Killed by order"


@pytest.mark.parametrize(("cleaning", "exit_code"), [('rm -rf "$TMPDIR"/.[a-z]*', 0), ('rm -rf "$TMPDIR"; exit 3', 3)])
def test_a_payload_that_cleans_up_after_itself_has_run_all_the_same(
    server: ScriptedServer, start: StartAgent, node: dict[str, str], cleaning: str, exit_code: int
) -> None:
    server.add_job("/bin/sh", f"-c {shlex.quote(cleaning)}", container="docker://os:9")
    start(environment=node).wait()
    assert finished(server.lease) == (exit_code, None)
    assert server.flaws == []
