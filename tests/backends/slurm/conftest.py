"""Two Slurm clusters, and a stand-in for the server from which pilots download the agent."""

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from pilots.backends.interface import BatchQueue, CEDescription
from pilots.backends.slurm import SlurmBackend
from tests.backends.slurm.pilots import MakeBackend
from tests.serving import LoopbackServer
from tests.slurm import SlurmCluster, slurm_cluster

#: Stands in for the agent: takes its secret, keeps what it was given, then does what its queue is called.
PROGRAM = """
import os, signal, sys, time
token_file = sys.argv[sys.argv.index("--token-file") + 1]
what = sys.argv[sys.argv.index("--queue") + 1]
with open(token_file) as file:
    secret = file.read()
os.unlink(token_file)
def leave(*_):
    print("was told to leave", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, signal.SIG_IGN if what == "stubborn" else leave)
print("a pilot writes", flush=True)
with open("told", "w") as file:
    file.write("\\n".join([str(os.getpid()), secret.strip(), os.getcwd(), " ".join(sys.argv)]))
os.rename("told", "given")
if what.startswith("exit"):
    sys.exit(int(what[4:]))
if what == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
"""


class _AgentHandler(BaseHTTPRequestHandler):
    """A handler that serves the agent as the server does."""

    def do_GET(self) -> None:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("__main__.py", PROGRAM)
        self.send_response(200)
        self.send_header("X-Agent-SHA256", hashlib.sha256(content.getvalue()).hexdigest())
        self.end_headers()
        self.wfile.write(content.getvalue())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with LoopbackServer(_AgentHandler) as server:
        yield server.url


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SlurmCluster, SlurmCluster]]:
    """Run two clusters; they cost CPU time while they run, so that only tests that need them start them."""
    with ExitStack() as stack:
        sitea, siteb = (
            stack.enter_context(slurm_cluster(name, tmp_path_factory.mktemp(name))) for name in ("sitea", "siteb")
        )
        yield sitea, siteb


@pytest.fixture
def cluster(clusters: tuple[SlurmCluster, SlurmCluster]) -> Iterator[SlurmCluster]:
    """Return one of the clusters; its jobs end with the test."""
    cluster, _ = clusters
    yield cluster
    cluster.run("scancel", "--me")


@pytest.fixture
def make(cluster: SlurmCluster, server_url: str, tmp_path: Path) -> MakeBackend:
    """Return a function that makes a backend, as each round does."""

    def make(of: SlurmCluster = cluster, *, queues: Sequence[BatchQueue] = (), **options: object) -> SlurmBackend:
        (tmp_path / "server").mkdir(exist_ok=True)
        shared = {"directory": str(tmp_path / "pilots")}
        return SlurmBackend(
            CEDescription(
                site="CERN",
                ce="ce01",
                options=of.options | shared | options,
                directory=tmp_path / "server",
                server_url=server_url,
                queues=queues,
            )
        )

    return make
