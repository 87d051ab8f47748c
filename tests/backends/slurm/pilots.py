"""Pilots at Slurm clusters: functions that make batch requests, submit them and wait for pilots."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from pilots.backends.interface import Backend, BatchRequest, BatchState, Handle, PilotOrder, Presence
from pilots.backends.slurm import SlurmBackend
from tests.pace import wait_for
from tests.slurm import SlurmCluster

MakeBackend = Callable[..., SlurmBackend]
SECRET = "wmsr_a-secret-that-nobody-sees"


def order(does: str = "sleep", **slot: Any) -> PilotOrder:
    asked: dict[str, Any] = {"queue": "main", "wall_time_s": 600, "memory_mb": 50} | slot
    return PilotOrder(
        stamp=uuid4().hex, secret=SECRET, vo="lhcb", site="CERN", ce="ce01", queue=does, slot=BatchRequest(**asked)
    )


def handle(wanted: PilotOrder) -> Handle:
    return Handle(stamp=wanted.stamp)


def send(backend: Backend, wanted: PilotOrder) -> str:
    """Submit one pilot, assert that it is accepted, and return its id."""
    (submission,) = backend.submit([wanted])
    assert submission.error == ""
    assert submission.batch_id.isdecimal()
    return submission.batch_id


def state_of(backend: Backend, wanted: PilotOrder) -> BatchState:
    return backend.status([handle(wanted)]).get(wanted.stamp, BatchState(presence=Presence.UNKNOWN))


def await_presence(backend: Backend, wanted: PilotOrder, presence: Presence) -> BatchState:
    wait_for(lambda: state_of(backend, wanted).presence is presence, state=lambda: f"it did not become {presence}")
    return state_of(backend, wanted)


def await_start(backend: Backend, wanted: PilotOrder, tmp_path: Path) -> Path:
    """Wait until the pilot has started; return its directory."""
    directory = tmp_path / "pilots" / wanted.stamp
    wait_for((directory / "given").exists, state=lambda: "the pilot did not begin")
    return directory


def jobs_of(cluster: SlurmCluster, wanted: PilotOrder) -> list[str]:
    return cluster.run("squeue", "--noheader", "--states=all", f"--name=wms-{wanted.stamp}", "--format=%A").split()


def wrapped(directory: Path, program: str, script: str) -> str:
    """Make a directory of Slurm's programs in which one is replaced by the script; return it."""
    directory.mkdir()
    (directory / program).write_text(f"#!/bin/sh\n{script}\n")
    (directory / program).chmod(0o755)
    return str(directory)
