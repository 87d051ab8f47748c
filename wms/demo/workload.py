"""The jobs of the demonstration, with their owners and expected results."""

import gzip
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.node.site_environment import closed_to_others
from wms.demo.expectations import ExpectedJob
from wms.demo.rest import Record, Upload
from wms.jobs.domain.lifecycle import JobStatus
from wms.wire.archives import END, Member, MemberKind, blocks_of

_PAYLOADS = Path(__file__).parent / "payloads"
#: Label of all jobs of the demonstration.
JOB_GROUP = "demonstration"
PI_JOBS = 40
_POINTS = 100_000

#: Expected files of a job without further output; standard error is empty.
_SILENT = {"std.err": r"\A\Z"}
_X86 = frozenset({"LCG.CERN.ch", "LCG.GRIDKA.de", "LCG.RAL.uk"})
#: Without the banned one.
_CES = frozenset({"ce01.cern.ch", "arc01.gridka.de", "ce01.cnaf.it", "arc01.ral.uk"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSubmission:
    """One request to submit jobs.

    Args:
        owner: the submitting user.
        body: of the request.
        expected: result of each job, in order.
        files: to be uploaded first; they become the jobs' input sandbox.
        killed_by: the user who kills each job once it has written its first line.
    """

    owner: str
    body: Record
    expected: Sequence[ExpectedJob]
    files: Sequence[Upload] = ()
    killed_by: str | None = None


def open_python() -> str:
    """Return a Python for payloads, which as root run under other accounts that may not reach the server's Python.

    On a grid this would be python3; on this machine the command may be missing.
    """
    places = os.environ.get("PATH", os.defpath).split(":")
    others = filter(None, (shutil.which("python3", path=place) for place in (*places, "/usr/local/bin", "/usr/bin")))
    candidates = [sys.executable, *others]
    if os.geteuid() != 0:
        return sys.executable
    return next((each for each in candidates if closed_to_others(Path(each)) is None), sys.executable)


def submissions() -> Sequence[DemoSubmission]:
    """Return all submissions, in order."""
    return (_pi(), _simulation(), *_placed(), *_ended(), _two_files(), _jdl(), _list_with_a_priority())


def _pi() -> DemoSubmission:
    """Return a parametric Monte Carlo; each job has a seed of its own."""
    return DemoSubmission(
        owner="alice",
        files=[_upload("pi.py")],
        body=_job(
            "pi-%n",
            executable=open_python(),
            arguments=["-I", "-S", "pi.py", "%s", str(_POINTS)],
            cpu_time_s=3000,
            parameters={"count": PI_JOBS, "start": 1},
        ),
        expected=[_expected(r"\Api = 3\.1[2-6]\d+\n\Z")] * PI_JOBS,
    )


def _simulation() -> DemoSubmission:
    """Return ten production jobs with two named parameters; their CPU time is the default of a day."""
    return DemoSubmission(
        owner="charlie",
        body=_job(
            "simulation-%(run)s",
            **_shell('echo "run %(run)s with $EVENTS events at $WMS_SITE"'),
            job_type="MCSimulation",
            platforms=["x86_64-el8"],
            requirements={"SoftwareTag": ["Gauss-v56"]},
            environment={"EVENTS": "%(events)s"},
            parameters={"run": {"count": 10, "start": 1001}, "events": {"count": 10, "start": 500, "step": 250}},
        ),
        expected=[
            _expected(rf"\Arun {1001 + number} with {500 + 250 * number} events at LCG", "LCG.CERN.ch", "LCG.GRIDKA.de")
            for number in range(10)
        ],
    )


def _placed() -> Sequence[DemoSubmission]:
    """Return jobs that require or avoid places, each in another way."""
    where = _shell('echo "at $WMS_SITE, $WMS_CE"')
    return (
        DemoSubmission(
            owner="bob",
            body=_job("pinned", **where, sites=["LCG.GRIDKA.de"], group="lhcb_prod"),
            expected=[_expected("at LCG.GRIDKA.de", "LCG.GRIDKA.de")],
        ),
        DemoSubmission(
            owner="bob",
            body=_job("elsewhere", **where, banned_sites=["LCG.CERN.ch", "LCG.GRIDKA.de"], cpu_time_s=20000),
            expected=[_expected("at LCG", "LCG.RAL.uk", "LCG.CNAF.it")],
        ),
        DemoSubmission(
            owner="charlie",
            body=_job("for-arm", **where, platforms=["aarch64-el9"], cpu_time_s=20000),
            expected=[_expected("at LCG.CNAF.it", "LCG.CNAF.it")],
        ),
        DemoSubmission(
            owner="alice",
            body=_job("for-gpu", **where, tags=["gpu"], group="lhcb_calib"),
            expected=[_expected("at LCG.RAL.uk, arc01", "LCG.RAL.uk")],
        ),
        DemoSubmission(
            owner="alice",
            body=_job("two-cores", **_shell('echo "with $WMS_PROCESSORS cores"'), processors=2, group="lhcb_calib"),
            expected=[_expected("with 2 cores", "LCG.CERN.ch")],
        ),
        DemoSubmission(
            owner="alice",
            body=_job("much-memory", **where, requirements={"Memory": 8000}),
            expected=[_expected("at LCG.RAL.uk", "LCG.RAL.uk")],
        ),
    )


def _ended() -> Sequence[DemoSubmission]:
    """Return a job that fails, and one that a member of its owner's group kills."""
    return (
        DemoSubmission(
            owner="charlie",
            killed_by="bob",
            body=_job("killed", **_shell("echo begun; sleep 900; echo never")),
            expected=[_expected(r"\Abegun\n\Z", status=JobStatus.KILLED, exit_code=None)],
        ),
        DemoSubmission(
            owner="alice",
            body=_job("fails", **_shell("echo 'the third step went wrong'; exit 3")),
            expected=[_expected("third step", *_X86, status=JobStatus.FAILED, exit_code=3)],
        ),
    )


def _two_files() -> DemoSubmission:
    return DemoSubmission(
        owner="alice",
        files=[Upload(file_name="input.tar.gz", content=_archive("sort.sh", "numbers.txt"))],
        body=_job("two-files", executable="sort.sh", output_sandbox=["sorted-*.txt"], cpu_time_s=400),
        expected=[
            _expected(
                r"\Anumbers\.txt\nsort\.sh\n\Z",
                files={"sorted-up.txt": r"\A1\n2\n3\n5\n8\n13\n\Z", "sorted-down.txt": r"\A13\n8\n5\n3\n2\n1\n\Z"},
            )
        ],
    )


def _jdl() -> DemoSubmission:
    jdl = f"""
        JobName = "jdl";  // the same attributes, spelt as DIRAC does
        JobGroup = "{JOB_GROUP}";
        Executable = "/bin/sh";
        Arguments = "-c 'echo written in JDL; echo of old >&2'";
        StdError = "warnings.txt";
        CPUTime = 60 * 60;
        BannedSites = {{ "LCG.GRIDKA.de" }};
        Requirements = [ SoftwareTag = {{ "DaVinci-v64", "DaVinci-v65" }}; Memory = 4000 ];
        OwnerGroup = "lhcb_prod";
    """
    written = {"std.out": "written in JDL", "warnings.txt": "of old"}
    sites = frozenset({"LCG.CERN.ch", "LCG.RAL.uk"})
    return DemoSubmission(owner="bob", body={"jdl": jdl}, expected=[ExpectedJob(sites=sites, ces=_CES, output=written)])


def _list_with_a_priority() -> DemoSubmission:
    """Return a list of equal jobs, except that the last one has the highest user priority."""
    many = 8
    names = [*(f"one-of-{many}-{number}" for number in range(1, many)), "urgent"]
    jobs = [
        _job(name, **_shell('echo "$WMS_JOB_NAME"'), cpu_time_s=3000, priority=10 if name == "urgent" else 1)
        for name in names
    ]
    return DemoSubmission(
        owner="bob", body={"jobs": jobs, "group": "lhcb_user"}, expected=[_expected(rf"\A{name}\n\Z") for name in names]
    )


def _job(name: str, **fields: object) -> dict[str, object]:
    return {"job_name": name, "job_group": JOB_GROUP, **fields}


def _shell(script: str) -> dict[str, object]:
    return {"executable": "/bin/sh", "arguments": ["-c", script]}


def _expected(
    std_output: str,
    *sites: str,
    status: JobStatus = JobStatus.DONE,
    exit_code: int | None = 0,
    files: Mapping[str, str] | None = None,
) -> ExpectedJob:
    output = {"std.out": std_output, **_SILENT, **(files or {})}
    return ExpectedJob(status=status, exit_code=exit_code, sites=frozenset(sites), ces=_CES, output=output)


def _upload(name: str) -> Upload:
    return Upload(file_name=name, content=(_PAYLOADS / name).read_bytes())


def _archive(*names: str) -> bytes:
    packed = bytearray()
    for name in names:
        content = (_PAYLOADS / name).read_bytes()
        packed += b"".join(blocks_of(Member(name, MemberKind.FILE, size_bytes=len(content)), [content]))
    return gzip.compress(packed + END)
