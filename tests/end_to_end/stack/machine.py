"""A machine of a test's own: systemd as process 1 in namespaces, over a copy-on-write layer of this machine's files.

It has its own files, processes, network (a loopback interface only), services and journal. Nothing that happens there
changes this machine.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pexpect
import psutil
import pytest

from tests.pace import wait_for, within
from tests.programs import needed

BOOT: Final = Path(__file__).parent / "boot.sh"
#: The Python of the tests, and its packages; every account of a machine can use both.
PYTHON: Final = sys.base_prefix
PACKAGES: Final = sysconfig.get_paths()["purelib"]
_NAMESPACES: Final = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup")
#: The mounts of boot.sh that not every kernel allows, in the directory $1.
_MOUNTS: Final = """
mount -t tmpfs tmpfs "$1"; cd "$1"; mkdir changes work root
mount -t overlay overlay -o lowerdir=/,upperdir=changes,workdir=work root
"""
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine on which systemd runs.

    Args:
        systemd: process id of its process 1, as this machine counts.
    """

    systemd: int

    def run(self, command: str, *, within_s: float = 60, fails: bool = False) -> str:
        """Run a shell command as root in /root; return what it writes. It must end with 0 unless it *fails*."""
        ended = subprocess.run(
            [*self._enter(), "sh", "-c", f"cd /root; {command}"],
            env={"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within(within_s),
            check=False,
        )
        assert (ended.returncode != 0) is fails, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def type(self, command: str, *, answers: dict[str, str], within_s: float) -> str:
        """Run a shell command at a terminal, and answer its questions, in this order; return what it writes."""
        words = [*self._enter(), "sh", "-c", f"cd /root; {command}"]
        terminal: pexpect.spawn[str] = pexpect.spawn(
            words[0],
            words[1:],
            env={"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"},
            encoding="utf-8",
            timeout=within(within_s),
        )
        output = ""
        for question, answer in answers.items():
            assert terminal.expect([question, pexpect.EOF]) == 0, output + str(terminal.before)
            output += f"{terminal.before}{question}"
            terminal.sendline(answer)
        terminal.expect(pexpect.EOF)
        output += str(terminal.before)
        terminal.close()
        assert terminal.exitstatus == 0, output
        return output

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Write a file of the machine."""
        subprocess.run(
            [*self._enter(), "sh", "-c", f"cd /root; cat > {shlex.quote(path)} && chmod {mode:o} {shlex.quote(path)}"],
            input=content.encode() if isinstance(content, str) else content,
            check=True,
            timeout=within(30),
        )

    def _enter(self) -> list[str]:
        return ["nsenter", "--target", str(self.systemd), *_NAMESPACES, "--root", "--wd"]


@contextmanager
def machine(directory: Path) -> Iterator[Machine]:
    """Boot a machine, and end it with all of its processes.

    Args:
        directory: an empty one, on which the layer is mounted.
    """
    needed("unshare", "setpriv", "nsenter", "systemctl")
    probe = ["unshare", *_NAMESPACES, "--fork", "sh", "-ec", _MOUNTS, "sh", str(directory)]
    if subprocess.run(probe, capture_output=True, timeout=within(30), check=False).returncode != 0:
        pytest.skip("this machine's kernel allows no namespaces with file systems of their own")
    group = _control_groups() / f"wms-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("control groups cannot be written here")
    # Also if the tests are killed.
    unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", *_NAMESPACES, "--fork", "--kill-child"]
    boot = subprocess.Popen(
        ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *unshare, BOOT, directory, PYTHON, PACKAGES],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        booted = Machine(systemd=_process_1(boot))
        state = "systemctl is-active basic.target || true"
        wait_for(lambda: booted.run(state).split()[:1] == ["active"], 60, state=lambda: booted.run(state))
        yield booted
    finally:
        boot.kill()
        boot.communicate()
        for each in [*sorted(group.rglob("*/"), reverse=True), group]:
            wait_for(partial(_is_removed, each), 60)


def _process_1(boot: subprocess.Popen[str]) -> int:
    """Return the id of systemd, when boot.sh has become it."""

    def found() -> list[int]:
        if boot.poll() is not None:
            raise AssertionError(f"the machine does not boot: {boot.communicate()[0]}")
        children = psutil.Process(boot.pid).children()
        return [child.pid for child in children if child.name() == "systemd"]

    wait_for(lambda: len(found()) == 1, 60)
    (systemd,) = found()
    return systemd


def _control_groups() -> Path:
    """Return where the control groups of the second version are mounted."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    places = [Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"]
    if not places:
        pytest.skip("control groups of version 2 are not mounted")
    return places[0]


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
