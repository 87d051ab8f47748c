"""Slurm on hosts whose programs print additional text, and the files that years of pilots leave on their disks."""

import os
import time
from pathlib import Path
from uuid import uuid4

import pytest

from pilots.backends import host
from pilots.backends.interface import Presence, SubmitResult
from tests.backends.slurm.pilots import MakeBackend, await_presence, handle, jobs_of, order, send, state_of, wrapped
from tests.slurm import SlurmCluster
from tests.ssh import ssh_host

REAL = 'told=$(/usr/bin/sbatch "$@") || exit'


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(f'{REAL}; echo "sbatch: warning: 3 accounts" >&2; echo "$told"', id="a warning first"),
        pytest.param(f'{REAL}; echo 2026; echo "$told"', id="a number first"),
        pytest.param(f'{REAL}; echo "$told;sitea"; echo; echo "sbatch: lua: welcome"', id="a cluster, and words after"),
        pytest.param(f"{REAL}; printf 'be\\vwa\\fre\\x1c\\n\\302\\205\\n'; echo \"$told\"", id="strange ends of lines"),
        pytest.param(f"{REAL}; printf 'caf\\351\\r\\n'; echo \"$told\"", id="no UTF-8"),
    ],
)  # fmt: skip
def test_the_id_is_found_whatever_else_sbatch_says(
    make: MakeBackend, cluster: SlurmCluster, tmp_path: Path, script: str
) -> None:
    orders = [order(), order()]
    submissions = make(programs=wrapped(tmp_path / "bin", "sbatch", script)).submit(orders)
    assert [one.batch_id for one in submissions] == [jobs_of(cluster, one)[0] for one in orders]


def test_an_sbatch_without_an_id_counts_as_submitted(make: MakeBackend, tmp_path: Path) -> None:
    wanted = order()
    programs = wrapped(tmp_path / "bin", "sbatch", f"{REAL}; echo thank you")
    assert list(make(programs=programs).submit([wanted])) == [SubmitResult(stamp=wanted.stamp)]
    assert state_of(make(), wanted).batch_id == send(make(), wanted)


def test_similar_names_and_jobs_of_others_are_no_pilots(make: MakeBackend, cluster: SlurmCluster) -> None:
    wanted = order()
    for name in (f"wms-{wanted.stamp}0", f"wms-{wanted.stamp[:-1]}", f"my|wms-{wanted.stamp}", "wms-", "a|b wms"):
        cluster.run("sbatch", f"--job-name={name}", "--output=/dev/null", "--wrap=sleep 60")
    cluster.run("sbatch", f"--job-name=wms-{uuid4().hex}", "--array=1-3", "--output=/dev/null", "--wrap=sleep 60")
    assert make().status([handle(wanted)]) == {}
    batch_id = send(make(), wanted)
    make().kill([handle(wanted)])
    await_presence(make(), wanted, Presence.ENDED)
    assert state_of(make(), wanted).batch_id == batch_id
    assert len(cluster.run("squeue", "--noheader", "--array", "--states=pending,running").splitlines()) == 8


def test_a_pilot_that_was_requeued_waits(make: MakeBackend, cluster: SlurmCluster, tmp_path: Path) -> None:
    wanted = order()
    batch_id = send(make(), wanted)
    await_presence(make(), wanted, Presence.RUNNING)
    cluster.run("scontrol", "update", f"jobid={batch_id}", "requeue=1")
    cluster.run("scontrol", "requeuehold", batch_id)
    state = await_presence(make(), wanted, Presence.WAITING)
    assert state.batch_id == batch_id
    make().kill([handle(wanted)])
    await_presence(make(), wanted, Presence.ENDED)


@pytest.mark.parametrize("through_ssh", [False, True])
def test_thousands_of_pilots_are_queried_and_killed_together(
    make: MakeBackend, tmp_path: Path, through_ssh: bool
) -> None:
    (tmp_path / "sshd").mkdir()
    with ssh_host(tmp_path / "sshd") as there:
        backend = make(**there.options) if through_ssh else make()
        wanted = order()
        batch_id = send(backend, wanted)
        handles = [handle(order()) for _ in range(5000)]
        handles.insert(4000, handle(wanted))
        states = backend.status(handles)
        assert {stamp: state.batch_id for stamp, state in states.items()} == {wanted.stamp: batch_id}
        backend.kill(handles)
        await_presence(backend, wanted, Presence.ENDED)
        backend.clean(handles)


def test_old_logs_are_removed(make: MakeBackend, tmp_path: Path) -> None:
    now, old = time.time(), time.time() - host.KEEP_LOGS_S - 60
    place = tmp_path / "pilots"

    def left(name: str, *, log: float, directory: float, file: str = "pilot.log") -> Path:
        own = place / name
        own.mkdir(parents=True)
        (own / file).write_text("what a pilot wrote")
        os.utime(own / file, (log, log))
        os.utime(own, (directory, directory))
        return own

    gone = [left(uuid4().hex, log=old, directory=old), left(uuid4().hex, log=old, directory=old, file="left")]
    stays = [
        left(uuid4().hex, log=old, directory=now), left(uuid4().hex, log=now, directory=old),
        left("thesis", log=old, directory=old), left(f"{uuid4().hex}.bak", log=old, directory=old),
    ]  # fmt: skip
    (place / uuid4().hex).symlink_to(stays[2])
    (place / uuid4().hex).write_text("a file")
    make().clean([handle(order())])
    assert [path for path in (*gone, *stays) if path.exists()] == stays
    assert len(list(place.iterdir())) == len(stays) + 2


def test_output_may_be_bytes_of_any_kind(make: MakeBackend, tmp_path: Path) -> None:
    wanted = order()
    (tmp_path / "pilots" / wanted.stamp).mkdir(parents=True)
    (tmp_path / "pilots" / wanted.stamp / "pilot.log").write_bytes(bytes(range(256)) + b"\xed\xa0\x80 the end")
    output = make().output(handle(wanted))
    assert output.startswith("\0\1\2")
    assert output.endswith(" the end")
    output.encode()  # no half of a pair
