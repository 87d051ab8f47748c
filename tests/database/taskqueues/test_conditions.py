"""Each condition of a match by itself (TQM; docs/architecture.md, Matching)."""

from typing import Any

import pytest

from taskqueues.domain.conditions import CONDITIONS, fitting
from taskqueues.domain.offer import DowntimeAhead, ResourceOffer
from taskqueues.models import TaskQueue
from taskqueues.services.index.shared import index
from tests.factories import NOW, make_group, make_task_queue, make_user, make_vo
from tests.reference import conditions as reference
from wms.wire.amounts import AMOUNTS

pytestmark = pytest.mark.django_db

ORDER = [
    *("owner_group", "setup", "cpu_time", "pilot_type", "site", "banned_site", "ce", "platform", "submit_pool"),
    *("software", "tags", "required_tags", "job_type", *(amount.condition for amount in AMOUNTS)),
    *("container", "downtime", "throttle", "limit"),
]


def offer(vo_id: int = 1, **said: Any) -> ResourceOffer:
    nothing_named: dict[str, Any] = {"site": None, "ce": None, "platforms": None, "submit_pools": None}
    return ResourceOffer(**{"vo_id": vo_id, "setup": "S", "cpu_time_s": 300_000, **nothing_named, **said})


def ahead(*, wall_time_s: int, cpu_time_s: int) -> DowntimeAhead:
    return DowntimeAhead(begins_at=NOW, words="a downtime", wall_time_s=wall_time_s, cpu_time_s=cpu_time_s)


def passes(name: str, queue: TaskQueue, offered: ResourceOffer) -> bool:
    """Return whether the index accepts the offer, asserting that the reference agrees."""
    snapshot = index.renewed()
    mask = CONDITIONS[name].accepts(snapshot.columns, offered)
    accepted = mask is None or bool(mask[snapshot.row_of.get(queue.pk)])
    assert TaskQueue.objects.filter(reference.CONDITIONS[name](offered), pk=queue.pk).exists() is accepted
    return accepted


def test_the_conditions_have_their_documented_names_and_order() -> None:
    assert list(CONDITIONS) == list(reference.CONDITIONS) == ORDER


#: Condition, requirements of the task queue, offer, and whether they fit.
CASES: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("setup", {"setup": "S"}, {"setup": "S"}, True),
    ("setup", {"setup": "S"}, {"setup": "T"}, False),
    ("setup", {"setup": "S"}, {"setup": None}, True),
    ("cpu_time", {"cpu_time_s": 5000}, {"cpu_time_s": 5000}, True),
    ("cpu_time", {"cpu_time_s": 5000}, {"cpu_time_s": 4999}, False),
    ("pilot_type", {}, {}, True),
    ("pilot_type", {"pilot_types": ["generic", "private"]}, {}, True),
    ("pilot_type", {"pilot_types": ["generic"]}, {}, True),
    ("pilot_type", {"pilot_types": ["private"]}, {}, False),
    ("pilot_type", {"pilot_types": ["private"]}, {"group_id": 1}, True),
    ("pilot_type", {"pilot_types": ["generic"]}, {"group_id": 1}, False),
    ("site", {}, {"site": "A"}, True),
    ("site", {"sites": ["A", "B"]}, {"site": "A"}, True),
    ("site", {"sites": ["B"]}, {"site": "A"}, False),
    ("site", {"sites": ["B"]}, {"site": None}, True),
    ("site", {}, {"site": "A", "accepting": False}, False),
    ("site", {}, {"site": None, "accepting": False}, False),
    ("banned_site", {"banned_sites": ["A"]}, {"site": "A"}, False),
    ("banned_site", {"banned_sites": ["A"]}, {"site": "B"}, True),
    ("banned_site", {"banned_sites": ["A"]}, {"site": None}, True),
    ("ce", {}, {"ce": "ce1"}, True),
    ("ce", {"grid_ces": ["ce1"]}, {"ce": "ce1"}, True),
    ("ce", {"grid_ces": ["ce1"]}, {"ce": "ce2"}, False),
    ("ce", {"grid_ces": ["ce1"]}, {"ce": None}, True),
    ("platform", {}, {"platforms": ()}, True),
    ("platform", {"platforms": ["el9"]}, {"platforms": ("el8", "el9")}, True),
    ("platform", {"platforms": ["el9"]}, {"platforms": ("el8",)}, False),
    ("platform", {"platforms": ["el9"]}, {"platforms": ()}, False),
    ("platform", {"platforms": ["el9"]}, {"platforms": None}, True),
    ("submit_pool", {}, {"submit_pools": ()}, True),
    ("submit_pool", {"submit_pools": ["p"]}, {"submit_pools": ("p", "q")}, True),
    ("submit_pool", {"submit_pools": ["p"]}, {"submit_pools": ("q",)}, False),
    ("submit_pool", {"submit_pools": ["p"]}, {"submit_pools": ()}, False),
    ("submit_pool", {"submit_pools": ["p"]}, {"submit_pools": None}, True),
    ("software", {}, {"lacking_software": frozenset({"root6"})}, True),
    ("software", {"software": ["root6"]}, {}, True),
    ("software", {"software": ["root6"]}, {"lacking_software": frozenset({"geant4"})}, True),
    ("software", {"software": ["geant4", "root6"]}, {"lacking_software": frozenset({"root6"})}, False),
    ("tags", {}, {"tags": ("gpu",)}, True),
    ("tags", {"tags": ["gpu"]}, {"tags": ("gpu", "avx")}, True),
    ("tags", {"tags": ["gpu", "avx"]}, {"tags": ("gpu",)}, False),
    ("tags", {"tags": ["gpu"]}, {"tags": ()}, False),
    ("required_tags", {"tags": ["gpu"]}, {"tags": ("gpu",), "required_tags": ("gpu",)}, True),
    ("required_tags", {}, {"tags": ("gpu",), "required_tags": ("gpu",)}, False),
    ("required_tags", {"tags": ["gpu"]}, {"tags": ("gpu",)}, True),
    ("job_type", {"job_type": "User"}, {}, True),
    ("job_type", {"job_type": "User"}, {"job_types": ("User", "MC")}, True),
    ("job_type", {"job_type": "User"}, {"job_types": ("MC",)}, False),
    ("processors", {"processors": 4}, {"processors": 4}, True),
    ("processors", {"processors": 4}, {"processors": 3}, False),
    ("memory", {"memory_mb": 0}, {"memory_mb": 0}, True),
    ("memory", {"memory_mb": 2000}, {"memory_mb": 2000}, True),
    ("memory", {"memory_mb": 2000}, {"memory_mb": 1999}, False),
    ("wall_time", {"wall_time_s": 0}, {"wall_time_s": 0}, True),
    ("wall_time", {"wall_time_s": 3600}, {"wall_time_s": 3600}, True),
    ("wall_time", {"wall_time_s": 3600}, {"wall_time_s": 3599}, False),
    ("wall_time", {"wall_time_s": 3600}, {"wall_time_s": 0}, False),
    ("wall_time", {"wall_time_s": 3600}, {"wall_time_s": None}, True),
    ("wall_time", {"wall_time_s": 3600}, {}, True),
    ("gpus", {}, {}, True),
    ("gpus", {}, {"gpus": 2}, True),
    ("gpus", {"gpus": 2}, {"gpus": 2}, True),
    ("gpus", {"gpus": 2}, {"gpus": 1}, False),
    ("gpus", {"gpus": 1}, {}, False),
    ("disk", {"disk_mb": 0}, {"disk_mb": 0}, True),
    ("disk", {"disk_mb": 2000}, {"disk_mb": 2000}, True),
    ("disk", {"disk_mb": 2000}, {"disk_mb": 1999}, False),
    ("disk", {"disk_mb": 2000}, {}, False),
    ("container", {}, {}, True),
    ("container", {}, {"container": True}, True),
    ("container", {"container": True}, {"container": True}, True),
    ("container", {"container": True}, {}, False),
    ("downtime", {}, {}, True),
    ("downtime", {"cpu_time_s": 600}, {"downtime": ahead(wall_time_s=600, cpu_time_s=1200)}, True),
    ("downtime", {"cpu_time_s": 86400}, {"downtime": ahead(wall_time_s=600, cpu_time_s=1200)}, False),
    ("downtime", {"wall_time_s": 600, "cpu_time_s": 86400}, {"downtime": ahead(wall_time_s=600, cpu_time_s=9)}, True),
    ("downtime", {"wall_time_s": 3600}, {"downtime": ahead(wall_time_s=600, cpu_time_s=86400)}, False),
    ("throttle", {}, {}, True),
    ("limit", {}, {}, True),
]


def test_each_condition_compares_requirement_and_offer(subtests: pytest.Subtests) -> None:
    for name, asked, offered, fits in CASES:
        with subtests.test(name, asked=asked, offered=offered):
            assert passes(name, make_task_queue(**{"setup": "S", **asked}), offer(**offered)) is fits


def test_grid_middleware_is_recorded_and_never_compared() -> None:
    queue = make_task_queue(setup="S", grid_middlewares=["ARC"])
    columns = index.renewed().columns
    assert columns.task_queue_id[fitting(columns, offer(vo_id=queue.vo_id))].tolist() == [queue.pk]


class TestOwnerGroup:
    def test_a_generic_pilot_serves_every_group_of_its_vo_and_no_other_vo(self) -> None:
        vo = make_vo()
        queues = [make_task_queue(group=make_group(vo=vo)) for _ in range(2)]
        elsewhere = make_task_queue()
        assert all(passes("owner_group", queue, offer(vo_id=vo.pk)) for queue in queues)
        assert not passes("owner_group", elsewhere, offer(vo_id=vo.pk))

    def test_a_private_pilot_serves_its_owner_in_its_group_only(self) -> None:
        group = make_group()
        alice, bob = make_user(groups=[group]), make_user(groups=[group])
        hers, his = make_task_queue(group=group, owner=alice), make_task_queue(group=group, owner=bob)
        hers_elsewhere = make_task_queue(group=make_group(vo=group.vo), owner=alice)
        private = offer(vo_id=group.vo_id, group_id=group.pk, owner_id=alice.pk)
        assert passes("owner_group", hers, private)
        assert not passes("owner_group", his, private)
        assert not passes("owner_group", hers_elsewhere, private)

    def test_a_private_pilot_of_a_sharing_group_serves_all_of_it(self) -> None:
        group = make_group(shares_jobs=True)
        queues = [make_task_queue(group=group) for _ in range(2)]
        other = make_task_queue(group=make_group(vo=group.vo))
        private = offer(vo_id=group.vo_id, group_id=group.pk)
        assert all(passes("owner_group", queue, private) for queue in queues)
        assert not passes("owner_group", other, private)

    def test_jobs_of_a_suspended_owner_wait(self) -> None:
        group = make_group()
        queue = make_task_queue(group=group, owner=make_user(groups=[group], suspended=True))
        assert not passes("owner_group", queue, offer(vo_id=group.vo_id))
