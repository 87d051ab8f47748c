"""The demonstration's VO on a running system with real pilots, and those who answer for it."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, expect, sync_playwright

from pilots.agent.node.inspection import detected_platform
from tests.end_to_end.administration.people import WIDTH, InBrowser, Person, WithWms
from tests.end_to_end.pilots.grid import OFTEN, Record, System, running_system, until
from tests.pace import within
from tests.programs import directory_of_agents, needed
from tests.screenshots.pages import ARGUMENTS, HEIGHT
from wms.demo import sample

#: Whom the demonstration lacks: the administrator of a site.
SALLY = "sally"
HER_SITE = "LCG.RAL.uk"
#: A job that was given back waits no longer than it must.
SETTINGS = {**OFTEN, "WMS_RESCHEDULE_DELAY_S": "1", "WMS_RESCHEDULE_DELAY_MAX_S": "2"}
IN_A_BROWSER, BY_WMS = "in a browser", "by wms admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoVO:
    """The VO and the sites of the demonstration, with passwords of the tests."""

    directory: Path

    def configuration(self) -> Record:
        """Return the sample's configuration, and the administrator of a site."""
        configuration = yaml.safe_load(sample.configuration(machine=detected_platform()))
        configuration["users"].append({"username": SALLY})
        for user in configuration["users"]:
            user["password"] = f"{user['username']}-of-the-tests"
        for site in configuration["sites"]:
            site["administrators"] = [SALLY] if site["name"] == HER_SITE else []
        return dict(configuration)


@pytest.fixture(scope="module")
def running() -> Iterator[System]:
    """Run the system for all tests of a module."""
    with directory_of_agents() as directory, running_system(DemoVO(directory=directory), SETTINGS) as system:
        yield system
        system.stop()


@pytest.fixture
def system(running: System) -> Iterator[System]:
    """Return the system, on which no job is left at the end."""
    yield running
    running.log_in_anew()  # tokens of who was suspended are revoked
    running.kill_all_jobs(by="olga")
    until(lambda: not running.rows("SELECT 1 FROM matching_match WHERE ended_at IS NULL"))


@pytest.fixture
def browser() -> Iterator[Browser]:
    needed("chromium")
    expect.set_options(timeout=1000 * within(30))
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture(params=[IN_A_BROWSER, BY_WMS])
def mary(request: pytest.FixtureRequest) -> Iterator[Person]:
    """Return the manager of the VO, by each of the two ways."""
    yield from _person("mary", request)


@pytest.fixture(params=[IN_A_BROWSER, BY_WMS])
def sally(request: pytest.FixtureRequest) -> Iterator[Person]:
    """Return the administrator of one site, by each of the two ways."""
    yield from _person(SALLY, request)


def _person(name: str, request: pytest.FixtureRequest) -> Iterator[Person]:
    system: System = request.getfixturevalue("system")
    if request.param == BY_WMS:
        by_wms = WithWms(system=system, name=name, home=request.getfixturevalue("tmp_path"))
        by_wms.log_in()
        yield by_wms
        return
    browser: Browser = request.getfixturevalue("browser")
    window = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
    in_a_browser = InBrowser(page=window.new_page(), system=system, name=name)
    in_a_browser.log_in()
    yield in_a_browser
    assert in_a_browser.wrong == []


@pytest.fixture
def olga(system: System, tmp_path: Path) -> WithWms:
    """Return the operator, by `wms`."""
    home = tmp_path / "olga"
    home.mkdir()
    operator = WithWms(system=system, name="olga", home=home)
    operator.log_in()
    return operator
