"""The log of a real pilot against the live server: a director's secret, a job, and every line on the server."""

import socket
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from pilots.models import Pilot
from pilots.queries import stored_log
from resources.domain.enums import SiteTokenPurpose
from resources.services.site_tokens import issue_site_token
from tests import factories
from tests.agent.running import RunningAgent


@pytest.mark.django_db(transaction=True)
def test_every_line_of_a_pilot_is_on_the_server_when_it_has_left(live_server: LiveServer, tmp_path: Path) -> None:
    vo = factories.make_vo()
    queue = factories.make_queue()
    token = issue_site_token(queue.ce.site, purpose=SiteTokenPurpose.REGISTER, now=timezone.now())
    place = [f"--vo={vo.name}", f"--site={queue.ce.site.name}", f"--ce={queue.ce.name}", f"--queue={queue.name}"]

    with RunningAgent(live_server.url, tmp_path, *place, token=token) as agent:
        assert agent.wait() == 0, agent.log

    log = stored_log(Pilot.objects.get(host_name=socket.gethostname()))
    assert log.text == agent.log
    assert log.received == len(agent.log)
    assert "pilot.registered" in log.text
    assert 'pilot.leaving reason="no job for me"' in log.text
    assert token not in log.text
