"""The packages of uv.lock: from one registry, with digests, under licences that this project may use."""

import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[2]
REGISTRY: Final = {"registry": "https://pypi.org/simple"}
#: As packages call them, by the expression of their metadata or its classifiers; one of several is enough.
PERMITTED: Final = frozenset(
    {
        *("Apache-2.0", "Apache 2.0", "Apache Software License"),
        *("BSD-2-Clause", "BSD-3-Clause", "BSD 3-Clause", "BSD License"),
        *("MIT", "MIT License", "MIT-0", "ISC License (ISCL)", "PSF-2.0", "Python Software Foundation License"),
        # Of whole files, or of a library that is called: neither reaches this project's own code.
        *("MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)", "LGPL-3.0-only"),
    }
)
#: What is locked for other systems than this one, where nothing can be read of it.
ELSEWHERE: Final[Mapping[str, str]] = {
    "appnope": "BSD-2-Clause",
    "async-timeout": "Apache-2.0",
    "colorama": "BSD-3-Clause",
    "tzdata": "Apache-2.0",
}

#: Of whom only the file of the licence tells it, not the metadata.
BY_THEIR_FILES: Final[Mapping[str, str]] = {"axe-playwright-python": "MIT License"}


def locked() -> list[dict[str, Any]]:
    packages: list[dict[str, Any]] = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    return [package for package in packages if package["name"] != "wms-server"]


def licences_of(about: PackageMetadata) -> list[str]:
    if "License-Expression" in about:
        return [each.strip("() ") for part in about["License-Expression"].split(" OR ") for each in part.split(" AND ")]
    if about["Name"] in BY_THEIR_FILES:
        return [BY_THEIR_FILES[about["Name"]]]
    names = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier") or [] if each.startswith("License ::")]
    return names or [part.strip() for part in about["License"].split(" OR ")]


@pytest.mark.slow  # needs all groups of packages
def test_each_package_has_a_permitted_licence(subtests: pytest.Subtests) -> None:
    for name in sorted({package["name"] for package in locked()}):
        with subtests.test(name):
            try:
                licences = licences_of(metadata(name))
            except PackageNotFoundError:
                licences = [ELSEWHERE[name]]  # a new one: say there what its licence is
            assert PERMITTED.intersection(licences), licences


def test_every_package_comes_from_one_registry_with_digests() -> None:
    for package in locked():
        assert package["source"] == REGISTRY, package["name"]
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        assert files, package["name"]
        assert all(file["hash"].startswith("sha256:") for file in files), package["name"]


def test_the_lower_bounds_are_the_versions_that_ci_tests() -> None:
    """Of what the server needs; `.ci/lowest --compile` writes the list."""
    lines = (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(re.findall(r"^([\w-]+)==([^\s;]+)", "\n".join(lines), flags=re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = {
        requirement.name: specifier.version
        for requirement in map(Requirement, project["dependencies"])
        for specifier in requirement.specifier
        if specifier.operator == ">="
    }
    assert len(bounds) == len(project["dependencies"])
    wrong = {name: tested[name] for name, bound in bounds.items() if not f"{tested[name]}.0".startswith(f"{bound}.")}
    assert wrong == {}
