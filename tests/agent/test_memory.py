"""The part of its slot's memory that a pilot keeps for itself."""

from pathlib import Path

import pytest

from tests.agent.running import INTERPRETERS, RunningAgent
from tests.agent.scripted import ScriptedTLSServer

LIMIT_MB = 30
SYSTEM = Path("/etc/ssl/certs/ca-certificates.crt")


@pytest.mark.parametrize("python", INTERPRETERS)
def test_a_pilot_takes_less_than_30_mb(tmp_path: Path, python: str) -> None:
    """As sites run it: the packed file, over TLS, after the benchmark and a job with sandboxes."""
    with ScriptedTLSServer(tmp_path) as server:
        sandbox = server.add_sandbox(b"#!/bin/sh\nhead -c 3000000 /dev/urandom >out\n", file_name="run.sh")
        server.add_job("run.sh", input_sandboxes=[sandbox], output_sandbox=["out"])
        server.configuration["match_retry_after_s"] = 100
        trusted = tmp_path / "trusted.pem"  # what a system trusts is about a megabyte in memory
        trusted.write_bytes(server.certificate.read_bytes() + (SYSTEM.read_bytes() if SYSTEM.exists() else b""))
        options = ("--ca", str(trusted), "--max-idle-s", "1000")
        with RunningAgent(server.url, tmp_path, *options, python=python, packed=True, measured=True) as agent:
            server.wait_until(lambda: len(server.requests_to("/matches/")) == 2)
            status = Path(f"/proc/{agent.process.pid}/status").read_text()

    (peak_kb,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    peak_mb = peak_kb / 1024
    assert peak_mb < LIMIT_MB
