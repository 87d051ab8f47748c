"""Nodes whose pilots can run containers: by a stand-in for apptainer, or by apptainer itself.

``tests/agent/apptainer/build.sh DIRECTORY && WMS_TESTS_APPTAINER=DIRECTORY pytest tests/agent/test_containers.py`` runs
the tests with the real one.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.agent.running import ROOT, RunningAgent

#: Names the root directory that holds apptainer.
VARIABLE = "WMS_TESTS_APPTAINER"
_USER = "pilots"
_ENTER = Path(__file__).parent / "apptainer" / "enter.sh"
#: Takes "exec", options and an image; then runs what is left in an environment where only the image's PATH is other.
_STAND_IN = """#!/bin/sh
[ "$1" != --version ] || {{ echo "apptainer version 1.3.0"; exit; }}
printf '%s\\n' "$@" > "{told}"
env > "{told_environment}"
shift
while [ "${{1#-}}" != "$1" ]; do
    case "$1" in
        --nv|--rocm) shift ;;
        --pwd) cd "$2"; shift 2 ;;
        --home) HOME=$2; export HOME; shift 2 ;;
        --bind) shift 2 ;;
        *) echo "unknown option $1" >&2; exit 255 ;;
    esac
done
image=$1
shift
case "$image" in
    */bare.sif)
        echo "INFO:    Converting SIF file to temporary sandbox..." >&2
        echo "FATAL:   stat /bin/sh: no such file or directory" >&2
        echo "INFO:    Cleaning up image..." >&2
        exit 255 ;;
    *.sif) mkdir "${{APPTAINER_TMPDIR:-${{TMPDIR:-/tmp}}}}/rootfs-1" || exit 255 ;;
    docker://broken*) echo "INFO: pulling" >&2; echo "FATAL: no such manifest" >&2; echo >&2; exit 255 ;;
esac
for name in $(env | sed -n 's/^\\(\\(APPTAINER\\|SINGULARITY\\)_[A-Z_]*\\)=.*/\\1/p'); do unset "$name"; done
PATH=/usr/local/bin:/usr/bin:/bin APPTAINER_CONTAINER=$image exec "$@"
"""
#: Programs of the image, all of them busybox.
_PROGRAMS = ("sh", "cat", "echo", "env", "false", "ls", "printf", "ps", "pwd", "rm", "sleep", "touch", "true")


@dataclass(frozen=True)
class ContainerNode:
    """A node for one test.

    Args:
        start: starts a pilot there.
        image: of a job, one that runs.
        broken: of a job, one that cannot be started.
        why_broken: pattern of what the owner of such a job reads.
        own_image: content of an image file that a job may bring.
        path: of the image.
        directory: of the node, which its pilots may read.
        image_without_shell: content of another image file.
        told: file of the arguments of the newest call; None: apptainer itself writes none.
        told_environment: file of its environment; None likewise.
    """

    start: Callable[..., RunningAgent]
    image: str
    broken: str
    why_broken: str
    own_image: bytes
    image_without_shell: bytes
    path: str
    directory: Path
    told: Path | None
    told_environment: Path | None


@contextmanager
def stand_in_node(url: str, directory: Path) -> Iterator[ContainerNode]:
    """Yield a node whose container runtime imitates apptainer without needing privileges."""
    (directory / "bin").mkdir()
    program = directory / "bin" / "apptainer"
    told, told_environment = directory / "told", directory / "told_environment"
    program.write_text(_STAND_IN.format(told=told, told_environment=told_environment))
    program.chmod(0o755)
    with ExitStack() as stack:

        def start(*options: str, environment: Mapping[str, str] | None = None) -> RunningAgent:
            own = {"PATH": f"{program.parent}:{os.environ['PATH']}", **(environment or {})}
            return stack.enter_context(RunningAgent(url, directory, *options, environment=own))

        yield ContainerNode(
            start=start,
            image="docker://registry.org/os:9",
            broken="docker://broken",
            why_broken="FATAL: no such manifest",
            own_image=b"image",
            image_without_shell=b"image",
            path="/usr/local/bin:/usr/bin:/bin",
            directory=directory,
            told=told,
            told_environment=told_environment,
        )


@contextmanager
def apptainer_node(url: str, root: str) -> Iterator[ContainerNode]:
    """Yield a node with apptainer itself, in the root directory *root*; its pilots run as an ordinary user."""
    # Not in the test's own directory, which nobody but root may enter.
    directory = Path(tempfile.mkdtemp(prefix="wms-apptainer-", dir="/tmp"))
    directory.chmod(0o755)
    enter = ["unshare", "--mount", "sh", str(_ENTER), root, str(ROOT)]
    image, without_shell = directory / "image", directory / "without-shell"
    try:
        _make_image(image, busybox=Path(root, "usr/bin/busybox"))
        (without_shell / "bin").mkdir(parents=True)
        with ExitStack() as stack:

            def start(*options: str, environment: Mapping[str, str] | None = None) -> RunningAgent:
                agent = RunningAgent(
                    url, directory, *options, enter=enter, owner=_owner(root), python="/usr/bin/python3",
                    environment=dict(environment or {}),
                )  # fmt: skip
                return stack.enter_context(agent)

            yield ContainerNode(
                start=start,
                image=str(image),
                broken="docker://127.0.0.1:9/broken",
                why_broken="FATAL: .*127.0.0.1:9.*",
                own_image=_image_file(enter, image),
                image_without_shell=_image_file(enter, without_shell),
                path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                directory=directory,
                told=None,
                told_environment=None,
            )
    finally:
        shutil.rmtree(directory)


def _make_image(directory: Path, *, busybox: Path) -> None:
    """Make a directory that holds the smallest system that runs shell scripts."""
    for name in ("bin", "dev", "etc", "home", "proc", "sys", "tmp", "usr/bin", "var/tmp"):
        (directory / name).mkdir(parents=True)
    (directory / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (directory / "etc" / "group").write_text("root:x:0:\n")
    shutil.copy(busybox, directory / "bin" / "busybox")
    for name in _PROGRAMS:
        (directory / "bin" / name).symlink_to("busybox")


def _image_file(enter: Sequence[str], image: Path) -> bytes:
    """Return the same image as one file, the form in which users bring images."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o777)
        file = Path(made, "own.sif")
        subprocess.run(
            [*enter, "apptainer", "build", str(file), str(image)], check=True, capture_output=True, env=_HOME
        )
        return file.read_bytes()


_HOME = {"HOME": f"/home/{_USER}", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def _owner(root: str) -> tuple[int, int]:
    line = next(
        line for line in Path(root, "etc/passwd").read_text(encoding="utf-8").splitlines() if line.startswith(_USER)
    )
    user, group = line.split(":")[2:4]
    return int(user), int(group)
