"""Executables that cannot work, and files that would have one place, are warned of."""

import pytest

from wms.jobs.domain.description import as_json, parse
from wms.jobs.domain.executable_warnings import SandboxFile, program_findings
from wms.jobs.domain.submission_warnings import CheckedJob, Surroundings, findings_about

SURROUNDINGS = Surroundings(
    middlewares=frozenset(),
    longest_segment_s=10**6,
    stores_output=True,
    elements=frozenset(),
    job_types=frozenset({"User"}),
)


def warning_of(executable: str, *names: str, lfn: str = "") -> str:
    description = {"executable": executable, "input_data": [], "input_sandbox": [f"LFN:{lfn}"] if lfn else []}
    files = [SandboxFile(name, name.endswith(".tgz")) for name in names]
    return " ".join(finding.text for finding in program_findings(description, files=files))


@pytest.mark.parametrize(
    ("executable", "words"),
    [
        ("$HOME/run.sh", "no shell expands ~ or $"),
        ("/cvmfs/$RELEASE/run", "no shell expands ~ or $"),
        ("~/run.sh", "no shell expands ~ or $"),
        ("python run.py", "arguments belong into Arguments"),
        ("/bin/echo hello", "arguments belong into Arguments"),
        ("file:///bin/date", 'write "/bin/date"'),
        ("bin/run.sh", "neither the input sandbox nor the input data contains it"),
        ("Run.sh", 'Did you mean "run.sh"?'),
        ("rum.sh", 'Did you mean "run.sh"?'),
        ("MySim", 'Did you mean "mysim"?'),
        ("simulate.sh", "nor a program of nodes"),
    ],
)
def test_an_executable_that_cannot_work_is_warned_of(executable: str, words: str) -> None:
    assert words in warning_of(executable, "run.sh", "mysim")


@pytest.mark.parametrize(
    ("executable", "name"),
    [
        ("a b.sh", "a b.sh"), ("$x.sh", "$x.sh"), ("./run.sh", "run.sh"), ("run.sh", "run.sh"), ("root", "root.C"),
        ("python", "python.py"), ("run_%n.sh", "run_1.sh"), ("bin/run.sh", "all.tgz"), ("Run.sh", "all.tgz"),
        ("my app/run.sh", "all.tgz"),
    ],
)  # fmt: skip
def test_what_may_work_is_not_warned_of(executable: str, name: str) -> None:
    assert warning_of(executable, name) == ""
    assert warning_of(executable, lfn=f"/vo/{name}") == ""


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"input_data": ["/vo/a/x", "/vo/b/x"]}, ["x"]),
        ({"input_data": ["/vo/x"], "input_sandbox": ["LFN:/vo/y/x"]}, ["x"]),
        ({"input_data": ["/vo/run.sh", "/vo/all.tgz"]}, ["run.sh"]),
        ({"input_data": ["/vo/a/x", "/vo/b/x"], "input_data_policy": "in_place"}, []),
        ({"input_data": ["/vo/a", "/vo/a"]}, []),
        ({"input_data": ["/vo/a", "/vo/b"], "input_sandbox": ["LFN:/vo/c"]}, []),
    ],
)
def test_files_of_one_name_are_warned_of(changes: dict[str, object], names: list[str]) -> None:
    files = [SandboxFile("run.sh", is_archive=False), SandboxFile("all.tgz", is_archive=True)]
    job = CheckedJob({**as_json(parse({"executable": "run.sh"})), **changes}, files)
    assert [finding.file for finding in findings_about([job], SURROUNDINGS)] == names
