"""Vendored files have the listed checksums and licences."""

import hashlib
import re
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "wms/portal/static/portal/vendor"


def test_every_file_of_others_is_listed_with_its_checksum_and_licence() -> None:
    table = (VENDOR / "README.md").read_text()
    listed = dict(re.findall(r"^\| (\S+\.(?:js|css|svg)) \|.*\| ([0-9a-f]{64}) \|$", table, re.MULTILINE))
    files = [file for file in VENDOR.rglob("*") if file.is_file() and file.name not in {"README.md", "LICENSE"}]
    found = {str(file.relative_to(VENDOR)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert found == listed
    assert all((file.parent / "LICENSE").is_file() for file in files)
