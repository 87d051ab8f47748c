"""The periodic import of GOCDB's downtimes: from a file, from an address, and when it fails."""

from datetime import timedelta
from http.client import HTTPMessage
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest
from django.utils import timezone

from resources.models import Downtime
from resources.services import gocdb_feed
from resources.services.gocdb_feed import FeedError, SameHost
from resources.tasks import import_downtimes
from tests.api.credentials.sample import GOCDB
from tests.factories import make_ce, make_downtime, make_site
from wms.accounts.models import SecurityEvent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def feed(tmp_path: Path, settings: Any) -> Path:
    make_ce(name="ce01.cern.ch", site=make_site(name="CERN"))
    path = tmp_path / "gocdb.xml"
    path.write_text(GOCDB.format(site="CERN", host="ce01.cern.ch"))
    settings.WMS_GOCDB_URL = str(path)
    return path


def test_the_task_imports_the_feed_and_removes_old_downtimes(feed: Path) -> None:
    old = make_downtime(make_site(), begins_at=timezone.now() - timedelta(days=91))
    recent = make_downtime(make_site(), begins_at=timezone.now() - timedelta(days=89))
    import_downtimes()
    import_downtimes()
    assert not Downtime.objects.filter(pk=old.pk).exists()
    assert [(row.external_id, row.ce and row.ce.name) for row in Downtime.objects.exclude(pk=recent.pk)] == [
        ("1", "ce01.cern.ch")
    ]
    assert {event.actor_name for event in SecurityEvent.objects.all()} == {"GOCDB import"}
    feed.unlink()
    with pytest.raises(FeedError, match="could not be read: FileNotFoundError"):
        import_downtimes()
    assert Downtime.objects.filter(source="gocdb").exists()


def test_without_an_address_nothing_is_read() -> None:
    assert gocdb_feed.import_feed(now=timezone.now()) is None


@pytest.mark.parametrize("address", ["http://goc.example/", "ftp://goc.example/", "gocdb.xml", "file:///etc/passwd"])
def test_an_address_that_is_neither_https_nor_a_path_is_refused(address: str, settings: Any) -> None:
    settings.WMS_GOCDB_URL = address
    with pytest.raises(FeedError, match="neither an https address nor an absolute path"):
        gocdb_feed.import_feed(now=timezone.now())


@pytest.mark.parametrize(
    "address", ["https://evil.example/a", "http://goc.example/a", "https://goc.example:8443/a", "file:///etc/passwd"]
)
def test_the_feed_follows_no_redirect_to_another_host(address: str) -> None:
    asked = Request("https://goc.example/a")
    with pytest.raises(FeedError, match="redirects to another host"):
        SameHost().redirect_request(asked, BytesIO(), 302, "Found", HTTPMessage(), address)
    followed = SameHost().redirect_request(asked, BytesIO(), 302, "Found", HTTPMessage(), "https://goc.example/b")
    assert followed is not None
    assert followed.full_url == "https://goc.example/b"
