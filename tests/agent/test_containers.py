"""Jobs in containers, by a stand-in for apptainer that needs no privilege; the processes are real.

``container_nodes.py`` says how to run these tests with apptainer itself.
"""

import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import StartAgent
from tests.agent.container_nodes import VARIABLE, ContainerNode, apptainer_node, stand_in_node
from tests.agent.running import marker, processes_with
from tests.agent.scripted import Lease, ScriptedServer

REGISTRY = "one of a registry is written docker://alpine:3"


@pytest.fixture
def node(server: ScriptedServer, tmp_path: Path) -> Iterator[ContainerNode]:
    """Return a node that runs containers: with apptainer itself if its root directory is configured."""
    root = os.environ.get(VARIABLE)
    with apptainer_node(server.url, root) if root else stand_in_node(server.url, tmp_path) as made:
        yield made


@pytest.fixture
def bare_node(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a pilot on a node without a container runtime, whatever this machine has."""
    (tmp_path / "empty").mkdir()
    return {"PATH": str(tmp_path / "empty")}


def offer_to(server: ScriptedServer) -> dict[str, Any]:
    offer: dict[str, Any] = server.requests_to("/matches/")[0].body
    return offer


def finished(lease: Lease) -> tuple[int | None, str | None]:
    assert lease.finished is not None
    return lease.finished["exit_code"], lease.finished.get("minor_status")


@pytest.mark.parametrize(("promised", "offered"), [(True, True), (False, False), (None, True)])
def test_containers_are_offered_if_node_and_server_allow_them(
    server: ScriptedServer, node: ContainerNode, promised: bool | None, offered: bool
) -> None:
    server.configuration["place"]["container"] = promised
    node.start().wait()
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
    server: ScriptedServer, node: ContainerNode
) -> None:
    script = (
        b'#!/bin/sh\necho "$APPTAINER_CONTAINER|$PATH|$SEED|$1|$2"; pwd; echo "$HOME"\n'
        b'touch "$TMPDIR/x" || exit 8; exit 7'
    )
    sandbox = server.add_sandbox(script, file_name="run.sh")
    server.add_job(
        "run.sh",
        "'a b' c",
        container=node.image,
        input_sandboxes=[sandbox],
        environment={"SEED": "5"},
        gpus=1,
    )
    node.start().wait()
    assert finished(server.lease)[0] == 7
    line, pwd, home = server.lease.files()["std.out"].splitlines()
    assert line == f"{node.image}|{node.path}|5|a b|c"
    assert pwd == home
    if node.told is not None:
        told = node.told.read_text().splitlines()
        assert {"exec", "--nv"} <= set(told)
        assert str(Path(pwd).parent / "tmp") in told


def test_a_command_is_one_of_the_image(server: ScriptedServer, node: ContainerNode) -> None:
    server.add_job("printf", "%s hello", container=node.image)
    node.start().wait()
    assert finished(server.lease)[0] == 0
    assert server.lease.files()["std.out"] == "hello"


@pytest.mark.parametrize(("executable", "code"), [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_a_command_missing_in_the_image_fails_the_job(
    server: ScriptedServer, node: ContainerNode, executable: str, code: int
) -> None:
    server.add_job(executable, container=node.image)
    node.start().wait()
    assert finished(server.lease)[0] == code


def test_a_payload_exit_code_is_not_mistaken_for_a_runtime_failure(server: ScriptedServer, node: ContainerNode) -> None:
    server.add_job("/bin/sh", "-c 'exit 255'", container=node.image)
    node.start().wait()
    assert finished(server.lease)[0] == 255


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_that_kills_a_containerised_payload_is_reported(
    server: ScriptedServer, node: ContainerNode, number: signal.Signals
) -> None:
    server.add_job("/bin/sh", f"-c 'kill -{int(number)} $$'", container=node.image)
    node.start().wait()
    assert finished(server.lease)[0] == 128 + number


def test_a_container_that_does_not_start_hands_the_job_back_with_the_reason(
    server: ScriptedServer, node: ContainerNode
) -> None:
    server.configuration["place"]["container"] = True
    server.add_job("true", container=node.broken)
    node.start().wait()
    code, sentence = finished(server.lease)
    assert code == 222
    assert re.fullmatch(f"The container could not be started: {node.why_broken}", sentence or "")
    assert server.lease.finished is not None
    assert server.lease.finished["fault"] == "job"
    assert len(server.node_reports) == 2  # the node is looked at again
    # The job goes elsewhere first; one image that does not start tells nothing of the node.
    assert [seen.body["container"] for seen in server.requests_to("/matches/")] == [True, True]


def test_after_two_failed_images_a_node_stops_offering_containers(server: ScriptedServer, node: ContainerNode) -> None:
    server.configuration["place"]["container"] = True
    server.add_job("true", container=node.broken)
    server.add_job("true", container=f"{node.broken}-too")
    node.start().wait()
    assert [seen.body["container"] for seen in server.requests_to("/matches/")] == [True, True, False]


def test_an_image_that_the_job_brings_is_used(server: ScriptedServer, node: ContainerNode) -> None:
    sandbox = server.add_sandbox(node.own_image, file_name="own.sif")
    server.add_job("true", container="own.sif", input_sandboxes=[sandbox])
    node.start().wait()
    assert finished(server.lease)[0] == 0
    if node.told is not None:
        assert any(line.endswith("/job/own.sif") for line in node.told.read_text().splitlines())


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
def test_a_missing_image_hands_the_job_back(
    server: ScriptedServer, node: ContainerNode, image: str, ending: tuple[int | None, str]
) -> None:
    server.add_job("true", container=image)
    node.start().wait()
    assert finished(server.lease) == ending


def test_images_are_cached_where_the_site_says_or_removed_with_the_job(
    server: ScriptedServer, node: ContainerNode
) -> None:
    (node.directory / "data").mkdir()
    (node.directory / "data" / "calibration").touch()
    images, data = str(node.directory / "images"), str(node.directory / "data")
    of_site = {"APPTAINER_CACHEDIR": images, "APPTAINER_BINDPATH": data, "APPTAINER_DOCKER_PASSWORD": "secret"}
    server.add_job("/bin/sh", f"-c 'ls {data}; env'", container=node.image)
    node.start(environment=of_site).wait()
    shown = server.lease.files()["std.out"].splitlines()
    assert shown[0] == "calibration"
    assert not any("secret" in line for line in shown)
    if node.told_environment is not None:
        told = dict(line.split("=", 1) for line in node.told_environment.read_text().splitlines() if "=" in line)
        assert (told["APPTAINER_CACHEDIR"], told["APPTAINER_BINDPATH"]) == (images, data)
        # Payloads have other accounts than the pilot only where root runs it.
        assert told["SINGULARITY_CACHEDIR"].endswith("/pilot/images" if os.geteuid() == 0 else "/runtime/images")
        assert "APPTAINER_DOCKER_PASSWORD" not in told


def test_an_image_that_is_unpacked_is_not_among_the_files_of_its_job(
    server: ScriptedServer, node: ContainerNode
) -> None:
    sandbox = server.add_sandbox(node.own_image, file_name="own.sif")
    clean = 'ls -A "$TMPDIR"; rm -rf "$TMPDIR"/*; ls /bin/sh'
    server.add_job("/bin/sh", f"-c {shlex.quote(clean)}", container="own.sif", input_sandboxes=[sandbox])
    agent = node.start()
    assert agent.wait() == 0
    assert finished(server.lease) == (0, None)
    assert server.lease.files()["std.out"] == "/bin/sh\n"
    assert list(agent.work.iterdir()) == []


def test_the_reason_is_the_error_line_of_the_runtime(server: ScriptedServer, node: ContainerNode) -> None:
    sandbox = server.add_sandbox(node.image_without_shell, file_name="bare.sif")
    server.add_job("true", container="bare.sif", input_sandboxes=[sandbox])
    node.start().wait()
    sentence = "The container could not be started: FATAL: stat /bin/sh: no such file or directory"
    assert finished(server.lease) == (222, sentence)


def test_a_job_in_a_container_is_killed_with_all_its_processes(server: ScriptedServer, node: ContainerNode) -> None:
    mark = marker()
    server.add_job("/bin/sh", f"-c 'echo started; sleep {mark}; sleep {mark}'", container=node.image)
    agent = node.start("--grace-s", "0.3")
    server.wait_until(
        lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
    )
    server.order("kill", id=5)
    server.wait_until(lambda: 5 in server.lease.acknowledged)
    assert agent.wait() == 0
    assert finished(server.lease)[1] == "Killed by order"
    assert processes_with(mark) == []


@pytest.mark.parametrize(
    ("cleaning", "exit_code"),
    [
        ('rm -rf "$TMPDIR"/.[a-z]*', 0),
        ('rm -rf "$TMPDIR"/.[a-z]*; exit 3', 3),
        ('rm -rf "$TMPDIR"; exit 3', 3),
    ],
)
def test_a_payload_that_empties_its_directory_counts_as_run(
    server: ScriptedServer, node: ContainerNode, cleaning: str, exit_code: int
) -> None:
    server.add_job("/bin/sh", f"-c {shlex.quote(cleaning)}", container=node.image)
    node.start().wait()
    assert finished(server.lease) == (exit_code, None)
    assert server.flaws == []
