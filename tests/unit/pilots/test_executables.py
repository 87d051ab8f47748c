"""Reasons why the kernel does not execute a file, compared with the kernel's own refusals."""

import errno
import os
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilots.agent.job import executables, payload_supervisor
from pilots.agent.node import site_environment
from wms.wire.executables import Flaw, flaw_of_head

_MACHINE = os.uname().machine


def _elf(machine: int, *, order: str = "<", loader: bytes = b"") -> bytes:
    """Return the headers of a 64-bit program, with its loader as the only segment if there is one."""
    identity = b"\x7fELF" + bytes([2, 1 if order == "<" else 2, 1]) + bytes(9)
    sizes = (64, 56, 1 if loader else 0, 0, 0, 0)
    header = identity + struct.pack(f"{order}HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, *sizes)
    if not loader:
        return header
    return (
        header + struct.pack(f"{order}IIQQQQQQ", 3, 4, 120, 0, 0, len(loader) + 1, len(loader) + 1, 1) + loader + b"\0"
    )


def _refusal(directory: Path, content: bytes) -> str:
    """Return the sentence for a file that the kernel refuses to execute."""
    path = directory / "run.sh"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(OSError) as refusal:  # noqa: PT011 - any error number
        subprocess.run([str(path)], cwd=directory, check=False, capture_output=True)
    return executables.why_not_executed(refusal.value.errno or 0, path, name="run.sh", directory=directory)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "The executable run.sh is empty"),
        (
            b"#!/bin/sh\r\n",
            "The first line of run.sh ends with a Windows line ending (CR): save it with Unix line endings",
        ),
        (b"#!/no/such/python -u\n", "The interpreter of run.sh, /no/such/python, is not on the node"),
        (b"#! \t no-such\n", "The interpreter of run.sh, no-such, is not on the node"),
        (b"#!./inner\n", "The interpreter of ./inner, /no/such, is not on the node"),
        (b"#!/etc/passwd\n", "The interpreter of run.sh, /etc/passwd, may not be executed on the node"),
        (b"#!/bin\n", "The interpreter of run.sh, /bin, may not be executed on the node"),
        (b"MZ\x90\0\3\0\0\0", "Exec format error: run.sh is for Windows"),
        (b"\xcf\xfa\xed\xfe\x07\0\0\x01", "Exec format error: run.sh is for macOS"),
        (b"\x1f\x8b\x08\0", "Exec format error: run.sh"),
        (_elf(22, order=">"), f"Exec format error: run.sh is for s390x, the node is {_MACHINE}"),
        (_elf(21, order=">"), f"Exec format error: run.sh is for ppc64, the node is {_MACHINE}"),
        (_elf(999), f"Exec format error: run.sh is for machine 999, the node is {_MACHINE}"),
    ],
)
def test_the_reason_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "inner").write_bytes(b"#!/no/such\n")
    (tmp_path / "inner").chmod(0o755)
    assert _refusal(tmp_path, content) == sentence


def test_a_missing_loader_is_named(tmp_path: Path) -> None:
    number = {"x86_64": 62, "aarch64": 183, "riscv64": 243}.get(_MACHINE)
    if number is None:
        pytest.skip(f"the test has no program for {_MACHINE}")
    content = _elf(number, loader=b"/lib/ld-no-such.so.1")
    assert _refusal(tmp_path, content) == "The loader of run.sh, /lib/ld-no-such.so.1, is not on the node"


def test_a_file_that_only_the_pilot_sees_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh\n")
    sentence = executables.why_not_executed(errno.ENOENT, tmp_path / "run.sh", name="run.sh", directory=tmp_path)
    assert sentence.endswith("is on the node, but payloads cannot reach it")


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("#!/usr/bin/env no-such", "no-such"),
        ("#! /bin/env\tno-such", "no-such"),
        ("#!/usr/bin/env sh -e", "sh -e"),
        ("#!/usr/bin/env -S A=1 no-such -u", "no-such"),
        ("#!/usr/bin/env -Sno-such", "no-such"),
        ("#!/usr/bin/env -S sh -e", None),
        ("#!/usr/bin/env -i no-such", None),
        ("#!/usr/bin/env", None),
        ("#!/usr/bin/env sh", None),
        ("#!/no/such", None),
        ("echo", None),
    ],
)
def test_a_program_that_env_would_not_find_is_named(tmp_path: Path, line: str, program: str | None) -> None:
    (tmp_path / "run.sh").write_text(f"{line}\n")
    expected = None if program is None else Flaw(127, f"The interpreter of run.sh, {program}, is not on the node")
    assert executables.flaw_of(tmp_path, "run.sh", search_path="/usr/bin:/bin") == expected
    assert executables.flaw_of(tmp_path, "run.sh", search_path=None) is None


@pytest.mark.parametrize(
    ("line", "search_path"),
    [
        ("#!/usr/bin/env ./bin/interp", "/usr/bin"),
        ("#!/usr/bin/env -S bin/interp -u", "/usr/bin"),
        ("#!/usr/bin/env interp", "/usr/bin:bin"),
    ],
)
def test_a_program_that_env_finds_in_the_jobs_directory_is_no_flaw(tmp_path: Path, line: str, search_path: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/interp").write_text("#!/bin/sh\n")
    (tmp_path / "bin/interp").chmod(0o755)
    (tmp_path / "run.sh").write_text(f"{line}\n")
    assert executables.flaw_of(tmp_path, "run.sh", search_path=search_path) is None
    (tmp_path / "bin/interp").unlink()
    assert executables.flaw_of(tmp_path, "run.sh", search_path=search_path) is not None


def test_a_directory_that_the_payload_may_not_enter_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "above/closed").mkdir(parents=True)
    (tmp_path / "above").chmod(0)
    (tmp_path / "also").mkdir(mode=0)
    closed = [str(tmp_path / "above/closed"), str(tmp_path / "also")]
    found = site_environment.payload_path(":".join([*closed, "/usr/bin"]), open_to_all=False)
    may_enter = os.access(closed[0], os.X_OK)  # as root
    assert (closed[0] in found, closed[1] in found, "/usr/bin" in found) == (may_enter, may_enter, True)


@given(
    st.binary(max_size=300)
    | st.tuples(
        st.sampled_from([b"#!", b"\x7fELF\2\1", b"\x7fELF\1\2", b"#!/usr/bin/env -S '"]), st.binary(max_size=300)
    ).map(b"".join),
    st.sampled_from([errno.ENOEXEC, errno.ENOENT, errno.EACCES, errno.ELOOP]),
)
def test_any_content_gives_one_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes, number: int) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    assert executables.why_not_executed(number, path, name="any", directory=path.parent)
    flaw = executables.flaw_of(path.parent, path.name, search_path="/bin")
    assert flaw is None or flaw.exit_code in {126, 127}


@pytest.mark.parametrize(
    ("content", "is_script"),
    [
        (b"echo", True), (b"# \xc3\xa9\n:", True), (b"#!\necho", True), (b"", False), (b"\x7fELF\2\0", False),
        (b"MZ\0", False), (b"#!/bin/sh", False), (b"#! /bin/sh", False),
    ],
)  # fmt: skip
def test_only_scripts_without_an_interpreter_are_for_the_shell(
    tmp_path: Path, content: bytes, *, is_script: bool
) -> None:
    (tmp_path / "run.sh").write_bytes(content)
    assert payload_supervisor._is_script(str(tmp_path / "run.sh")) is is_script


def test_only_the_first_line_counts() -> None:
    assert flaw_of_head("run.sh", b"#!/bin/sh\necho a\r\n") is None
