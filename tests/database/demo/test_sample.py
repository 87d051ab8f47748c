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
    source, passwords = sample.configuration(machine="x86_64-debian12").encode(), sample.new_passwords()

    first = configure(source, environ=sample.variables(passwords), now=NOW, dry_run=False)
    again = configure(source, environ=sample.variables(passwords), now=NOW, dry_run=False)

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
    assert all(User.objects.get(username=name).check_password(password) for name, password in passwords.items())


@pytest.mark.django_db
def test_each_start_of_the_demonstration_ends_the_passwords_of_the_one_before() -> None:
    source, earlier = sample.configuration(machine="x86_64-debian12").encode(), sample.new_passwords()
    for passwords in (earlier, sample.new_passwords()):
        configure(source, environ=sample.variables(passwords), now=NOW, dry_run=False)

    for username, password in earlier.items():
        assert not User.objects.get(username=username).check_password(password)
        assert not User.objects.get(username=username).check_password(f"{username}-demo")
