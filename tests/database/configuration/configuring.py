"""A configuration file, applied to the database of a test."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pilots.models import Director
from resources.models import (
    ComputingElement,
    Platform,
    Queue,
    RequirementDefinition,
    Site,
    SiteToken,
    StorageElement,
)
from taskqueues.models import Limit
from tests.factories import NOW
from wms.accounts.models import VO, Group, User
from wms.configuration.configure import ConfigurationResult, configure
from wms.configuration.problems import ConfigurationError

EXAMPLE = (Path(__file__).parents[3] / "docs" / "configuration.example.yaml").read_text()
ENVIRON = {
    "ALICE_PASSWORD": "alice-knows",
    "CERN_DST": "key of the store",
    "CERN_REGISTER": "register-me",
    "CERN_ADVERTISE": "advertise-me",
}


def apply(
    text: str, *, dry_run: bool = False, confirmed: bool = False, environ: Mapping[str, str] = ENVIRON
) -> ConfigurationResult:
    """Apply a configuration file."""
    return configure(text.encode(), environ=environ, now=NOW, dry_run=dry_run, confirmed=confirmed)


def problems_of(text: str, *, dry_run: bool = False) -> list[str]:
    """Return the problems of a configuration file."""
    with pytest.raises(ConfigurationError) as refusal:
        apply(text, dry_run=dry_run)
    return list(map(str, refusal.value.problems))


def counts() -> list[int]:
    """Return the number of rows of each kind."""
    models = (VO, Group, User, RequirementDefinition, Platform, StorageElement, Site, ComputingElement, Queue)
    return [model.objects.count() for model in (*models, SiteToken, Director, Limit)]
