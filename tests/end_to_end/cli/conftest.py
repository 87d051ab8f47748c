"""A server with a small VO, and the command ``wms`` for its users."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from resources.models import Queue, Site
from tests.factories import make_ce, make_group, make_queue, make_site, make_token, make_user, make_vo
from wms.accounts.models import VO, Group, User
from wms.client.main import main


class Stream(io.StringIO):
    """Standard output: a terminal, or a pipe."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out or self.err)

    @property
    def rows(self) -> list[list[str]]:
        """Return the tab-separated values."""
        return [line.split("\t") for line in self.out.splitlines()]


class Wms:
    """The command, run in this process as one user."""

    def __init__(self, url: str, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._url, self._token, self._monkeypatch = url, token, monkeypatch

    def __call__(
        self,
        *arguments: object,
        typed: str | None = None,
        input: str = "",  # noqa: A002 - as that of subprocess
        width: int | None = None,
        colours: bool = False,
    ) -> Ran:
        """Run it.

        Args:
            arguments: of the command line.
            typed: at a terminal, by the user; None: standard input is no terminal.
            input: standard input that is no terminal.
            width: of the terminal; None: standard output is a pipe.
            colours: whether the terminal has them.
        """
        out, err = Stream(is_terminal=width is not None), Stream(is_terminal=typed is not None)
        environment = {"WMS_SERVER_URL": self._url, "WMS_TOKEN": self._token, "COLUMNS": str(width or 80)}
        with self._monkeypatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            patched.delenv("TERM", raising=False)
            if colours:
                patched.delenv("NO_COLOR", raising=False)
            else:
                patched.setenv("NO_COLOR", "1")
            stdin = Stream(is_terminal=typed is not None)
            stdin.write(typed or input)
            stdin.seek(0)
            patched.setattr(sys, "stdin", stdin)
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            try:
                code = main([str(argument) for argument in arguments])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Ran(code=code, out=out.getvalue(), err=err.getvalue())


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """Alice owns jobs; Bob manages the VO; Olga is an operator."""

    vo: VO
    group: Group
    site: Site
    queue: Queue
    alice: User
    bob: User
    olga: User


@pytest.fixture
def sample(transactional_db: None, settings: Settings, tmp_path: Path) -> SampleData:
    directory = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path / "s")}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": directory}
    vo = make_vo(name="lhcb")
    group = make_group(name="lhcb_user", vo=vo)
    site = make_site(name="LCG.CERN.ch", vos=[vo])
    return SampleData(
        vo=vo,
        group=group,
        site=site,
        queue=make_queue(name="grid", ce=make_ce(name="ce01", site=site), tags=["gpu"]),
        alice=make_user(username="alice", groups=[group], default_group=group),
        bob=make_user(username="bob", manages=[vo]),
        olga=make_user(username="olga", operator=True),
    )


WmsOf = Callable[[User], Wms]


@pytest.fixture
def wms_of(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> WmsOf:
    return lambda user: Wms(live_server.url, str(make_token(user)), monkeypatch)


@pytest.fixture
def wms(sample: SampleData, wms_of: WmsOf) -> Wms:
    """Return Alice's command."""
    return wms_of(sample.alice)
