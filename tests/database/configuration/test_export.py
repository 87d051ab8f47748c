"""The exported configuration file: applied again it changes nothing, and it contains no secrets."""

from datetime import UTC, datetime

import pytest

from pilots.models import Director
from resources.domain.enums import ResourceState
from resources.models import (
    Platform,
    RequirementDefinition,
    Site,
    StorageElement,
)
from taskqueues.models import Limit
from tests.database.configuration.configuring import ENVIRON, EXAMPLE, apply
from tests.factories import make_ce, make_queue, make_site, make_vo
from wms.accounts.models import VO, Group, User
from wms.configuration.export import export

pytestmark = pytest.mark.django_db


def test_the_export_changes_nothing_and_contains_no_secret() -> None:
    apply(EXAMPLE)
    exported = export()
    outcome = apply(exported, environ={})
    assert outcome.differences == ()
    for secret in ENVIRON.values():
        assert secret not in exported
    assert "password" not in exported.partition("\n")[2]


def test_the_export_makes_the_same_configuration_elsewhere() -> None:
    apply(EXAMPLE)
    exported = export()
    for rows in (
        Limit.objects.all(),
        Director.objects.all(),
        Site.objects.all(),
        Platform.objects.all(),
        RequirementDefinition.objects.all(),
        StorageElement.objects.all(),
        User.objects.all(),
        Group.objects.all(),
        VO.objects.all(),
    ):
        rows.delete()
    apply(exported, environ={})
    assert export() == exported


def test_setups_and_requirements_of_directors_survive_export() -> None:
    make_vo(setup="Production", setups=["Devel"])
    queue = make_queue(setup="Devel")
    queue.ce.setup = "Production"
    queue.ce.save()
    Director.objects.create(name="farm", kind="taskqueue", setup="Devel", requirements='GPUs > 0 && VO != "x: y"\n')
    exported = export()
    assert apply(exported).differences == ()
    assert exported.count("setup: Devel") == 2
    for rows in (Director.objects.all(), Site.objects.all()):
        rows.delete()
    apply(exported)
    assert export() == exported


def test_odd_texts_survive_export() -> None:
    site = make_site(
        name="1e3", parameters={"Odd": ["no", "007", "1e3", "~", "2026-01-01", "${HOME}", "$${X}", "a: b #c"]}
    )
    site.parameters |= {"Flag": True, "One": 1, "Half": 0.5, "Big": 1e16, "Text": "true", "é\n": "line\nbreak\ttab"}
    site.state, site.state_reason, site.state_until = ResourceState.BANNED, "= off", datetime(2030, 1, 1, tzinfo=UTC)
    site.save()
    make_ce(name="0x1f", site=site, options={"host": "${HOME}", "list": [1, {"deep": None}], "yes": False})
    assert apply(export()).differences == ()
