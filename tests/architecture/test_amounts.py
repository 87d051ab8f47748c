"""Each amount that jobs require has one description, and whatever has one field for each of them has all."""

from dataclasses import fields

import pytest
from django.conf import settings

from pilots.agent.pilot.offer import Resources
from pilots.agent.pilot.options import Options
from pilots.agent.server.configuration import Place
from pilots.agent.server.lease import LeasedJob
from pilots.backends.interface import BatchRequest
from resources.models import Queue
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import TaskQueue
from wms.configuration.resource_schema import QueueEntry
from wms.jobs.domain.description import JobDescription
from wms.simulation.schema import LoadEntry
from wms.wire.amounts import AMOUNT, AMOUNTS, DIVIDED, Amount, DividedAmounts, RequiredAmounts, StatedAmounts


def names(record: type) -> set[str]:
    return {field.name for field in fields(record)}


def test_the_records_have_the_amounts_of_the_table_and_their_defaults() -> None:
    assert names(DividedAmounts) == set(DIVIDED)
    assert names(StatedAmounts) == set(AMOUNT)
    assert {field.name: field.default for field in fields(RequiredAmounts)} == {
        amount.name: amount.least for amount in AMOUNTS
    }


@pytest.mark.parametrize(
    "record",
    [
        *(JobDescription, QueueDefinition, ResourceOffer, BatchRequest, QueueEntry, LoadEntry),
        *(Resources, Options, Place, LeasedJob),
    ],
)
def test_whatever_requires_or_offers_amounts_has_all_of_them(record: type) -> None:
    assert set(AMOUNT) - names(record) == set()


@pytest.mark.parametrize("amount", AMOUNTS, ids=lambda amount: amount.name)
def test_an_amount_has_columns_whose_default_requires_and_offers_nothing(amount: Amount) -> None:
    if amount.name not in {"processors", "memory_mb"}:  # columns of the first version, which a submission always fills
        assert getattr(TaskQueue(), amount.name) == amount.least
    assert getattr(Queue(), amount.name) == (amount.least if amount.is_divided else None)


@pytest.mark.parametrize("amount", AMOUNTS, ids=lambda amount: amount.name)
def test_an_amount_names_a_condition_and_a_setting_that_exist(amount: Amount) -> None:
    assert CONDITIONS[amount.condition].looks_at == (amount.name,)
    assert not amount.step_setting or getattr(settings, amount.step_setting) > 0
    # A rounded amount must still fit into PostgreSQL's integer.
    assert amount.most + getattr(settings, amount.step_setting or "_", 0) < 2**31
