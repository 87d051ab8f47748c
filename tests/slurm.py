"""Slurm clusters for tests: one node on 127.0.0.1, free ports, under the user who runs the tests.

They need neither munge nor systemd nor control groups, and several can run on one machine.
"""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.pace import wait_for
from tests.programs import needed
from wms.stack.guard import Guard

CORES = 8
MEMORY_MB = 8000
GPUS = 2
#: The longest time of the partition ``short``, in minutes; that of ``main`` is longer.
SHORT_MINUTES = 2
_CONFIGURATION = """\
ClusterName={name}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={slurmctld_port}
SlurmdPort={slurmd_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
StateSaveLocation={directory}/state
SlurmdSpoolDir={spool}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
MpiDefault=none
ReturnToService=2
KillWait=3
MessageTimeout=4
SchedulerParameters=batch_sched_delay=0,bf_interval=1
JobCompType=jobcomp/filetxt
JobCompLoc={directory}/ended_jobs
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory_mb} TmpDisk=10000 Features=el9,avx,fast \
 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime={main_time} State=UP
PartitionName=short Nodes=ALL MaxTime={short_minutes} State=UP
"""


@dataclass(kw_only=True)
class SlurmCluster:
    """A running cluster; ``options`` are those of its CE."""

    name: str
    directory: Path
    marks: dict[str, str]
    _servers: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, object]:
        return {"environment": self.environment}

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.directory / "slurm.conf")}

    def run(self, program: str, *arguments: str) -> str:
        """Return the output of one of Slurm's programs."""
        done = subprocess.run(
            [program, *arguments], env=os.environ | self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stderr or done.stdout}"
        return done.stdout

    def shown(self, batch_id: str) -> dict[str, str]:
        """Return the fields of ``scontrol show job`` for a job."""
        words = self.run("scontrol", "show", "job", "--oneliner", batch_id).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def start(self, server: str) -> None:
        """Start slurmctld or slurmd and wait until there is a node."""
        with (self.directory / f"{server}.log").open("ab") as log:
            self._servers[server] = subprocess.Popen(
                [_server(server), "-D", "-f", self.environment["SLURM_CONF"]],
                env=os.environ | self.environment | self.marks,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, server: str) -> None:
        """End slurmctld or slurmd without ending its jobs."""
        self._servers[server].terminate()
        self._servers[server].wait()

    def wait_for_end(self) -> None:
        """Wait for the servers, which have been told to end."""
        for process in self._servers.values():
            process.wait()

    def wait_until_idle(self) -> None:
        """Wait until the node accepts jobs."""
        wait_for(self._is_idle, state=lambda: f"{self.name} did not start; see {self.directory}")

    def _is_idle(self) -> bool:
        for server, process in self._servers.items():
            assert process.poll() is None, (self.directory / f"{server}.log").read_text(errors="replace")
        answer = subprocess.run(
            ["sinfo", "--noheader", "--format=%t", "--partition=main"],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return answer.stdout.strip() in {"idle", "mix", "alloc"}


@contextmanager
def slurm_cluster(name: str, directory: Path, *, main_time: str = "01:00:00") -> Iterator[SlurmCluster]:
    """Run a cluster; its jobs end with it, also when the tests are killed.

    Args:
        name: of the cluster.
        directory: for all its files; must exist.
        main_time: the longest time of the partition ``main``.
    """
    needed("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo", "sacct", "scontrol")
    slurmctld_port, slurmd_port = _free_ports()
    (directory / "state").mkdir()
    # Its sockets are in there, whose paths may have 107 bytes; a longer one ends each job before it begins.
    spool = Path(tempfile.mkdtemp(prefix="wms-slurmd-", dir="/tmp"))
    gpus = [directory / f"gpu{number}" for number in range(GPUS)]
    for file in gpus:  # where there would be devices; without any the node is not taken
        file.touch()
    (directory / "gres.conf").write_text("".join(f"Name=gpu File={file}\n" for file in gpus))
    (directory / "slurm.conf").write_text(
        _CONFIGURATION.format(
            name=name, directory=directory, spool=spool, user=getpass.getuser(), slurmctld_port=slurmctld_port,
            slurmd_port=slurmd_port, cores=CORES, memory_mb=MEMORY_MB, gpus=GPUS, short_minutes=SHORT_MINUTES,
            main_time=main_time,
        )
    )  # fmt: skip
    guard = Guard(paths=[spool])
    cluster = SlurmCluster(name=name, directory=directory, marks=guard.environment)
    try:
        cluster.start("slurmctld")
        cluster.start("slurmd")
        cluster.wait_until_idle()
        yield cluster
    finally:
        guard.finish()
        cluster.wait_for_end()


def _server(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert found is not None
    return found


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for asked in (first, second):
            asked.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]
