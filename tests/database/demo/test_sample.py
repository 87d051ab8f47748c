"""The sample VO of the demonstration, applied to a database."""

from datetime import UTC, datetime

import pytest

from resources.models import ComputingElement, Platform, Queue, Site
from wms.accounts.models import VO, Group, User
from wms.configuration.configure import configure
from wms.demo import sample

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.django_db
def test_the_sample_is_accepted_without_a_warning_and_twice_changes_nothing() -> None:
    source = sample.configuration(machine="x86_64-debian12").encode()

    first = configure(source, environ={}, now=NOW, dry_run=False)
    again = configure(source, environ={}, now=NOW, dry_run=False)

    assert not first.warnings
    assert not again.differences
    assert Platform.objects.get(name="x86_64-debian12").runs == [
        *("aarch64-el9", "x86_64-debian12", "x86_64-el8", "x86_64-el9"),
    ]
    counted = [model.objects.count() for model in (VO, Group, User, Site)]
    assert counted == [1, 3, 5, 4]
    assert [group.name for group in Group.objects.all() if group.shares_jobs] == ["lhcb_prod"]
    assert Queue.objects.filter(cpu_time_s__gte=300_000).count() >= 2
    assert ComputingElement.objects.get(state="banned").name == "arc02.ral.uk"
    assert all(User.objects.get(username=user.username).check_password(user.password) for user in sample.log_ins())
