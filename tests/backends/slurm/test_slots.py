"""Free slots of a real Slurm cluster for pilots of a shape, and limits of its batch queues."""

from typing import Any

import pytest

from pilots.backends.interface import BackendError, BatchQueue, BatchRequest, Presence
from tests.backends.slurm.pilots import MakeBackend, await_presence, order, send
from tests.pace import wait_for
from tests.slurm import CORES, GPUS, MEMORY_MB, SHORT_MINUTES, SlurmCluster


def queue(name: str = "main", *, cpu_time_s: int = 60, **slot: Any) -> BatchQueue:
    return BatchQueue(slot=BatchRequest(queue=name, **slot), cpu_time_s=cpu_time_s)


#: What a pilot asks for, and how many such slots are free beside a pilot that leaves two cores, 2000 MB and a GPU.
FREE: list[tuple[dict[str, Any], int]] = [
    ({}, 2),
    ({"processors": 2}, 1),
    ({"processors": 8}, 0),
    ({"processors": 3}, 0),
    ({"memory_mb": 2000}, 1),
    ({"memory_mb": 2001}, 0),
    ({"gpus": 1}, 1),
    ({"gpus": 2}, 0),
    ({"disk_mb": 10_001}, 0),
    ({"platforms": ("x86_64-el9",)}, 2),
    ({"platforms": ("x86_64-el8", "x86_64-el9")}, 2),
    ({"platforms": ("x86_64-el8",)}, 0),
    ({"tags": ("quick", "unknown")}, 2),
]


def test_free_slots_are_counted_by_pilot_requests(make: MakeBackend) -> None:
    send(make(), order(processors=CORES - 2, memory_mb=MEMORY_MB - 2000, gpus=GPUS - 1))
    features = {"x86_64-el9": "el9", "x86_64-el8": "el8", "quick": "fast"}
    wait_for(lambda: make(max_pending=0).capacity() == 2)
    for slot, free in FREE:
        queues = [queue(**slot)]
        assert make(queues=queues, features=features, max_pending=0).capacity() == free, slot
        assert make(queues=queues, features=features, max_pending=3).capacity() == free + 3, slot  # these may wait


def test_where_each_pilot_gets_a_whole_node_only_such_nodes_are_free(make: MakeBackend) -> None:
    exclusive = make(queues=[queue()], max_pending=0, submit_arguments=["--exclusive"])
    wait_for(lambda: exclusive.capacity() == 1)
    wanted = order()
    send(make(), wanted)
    await_presence(make(), wanted, Presence.RUNNING)
    assert exclusive.capacity() == 0


def test_a_node_that_queues_share_is_counted_once_and_for_the_one_that_it_fits_best(make: MakeBackend) -> None:
    wide, narrow = queue(processors=8), queue("short", processors=2)
    wait_for(lambda: make(queues=[wide], max_pending=0).capacity() == 1)
    assert make(queues=[wide, narrow], max_pending=0).capacity() == 4


def test_a_partition_that_is_down_has_nothing_free(make: MakeBackend, cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "partitionname=short", "state=down")
    try:
        assert make(queues=[queue("short")], max_pending=0).capacity() == 0
        assert make(queues=[queue()], max_pending=0).capacity() == CORES
    finally:
        cluster.run("scontrol", "update", "partitionname=short", "state=up")


def test_only_pilots_that_wait_for_the_same_partitions_count_as_waiting(make: MakeBackend) -> None:
    make().submit([order(queue="short", wall_time_s=3600) for _ in range(2)])
    wait_for(lambda: make(queues=[queue("short", processors=5)], max_pending=3).capacity() == 1 + 3 - 2)
    assert make(queues=[queue(processors=5)], max_pending=3).capacity() == 1 + 3


def test_queues_are_partitions_of_slurm(make: MakeBackend) -> None:
    with pytest.raises(BackendError, match='no node of the partition "long,nope"; check its spelling'):
        make(queues=[queue("nope"), queue("long")]).capacity()
    backend = make(queues=[queue("nope"), queue()], max_pending=0)
    assert backend.capacity() == CORES
    (shortfall,) = backend.shortfalls()
    assert shortfall == "Slurm shows no node of the partition nope, where pilots of the queue nope are to go."


def test_a_queue_that_exceeds_its_partition_is_reported(make: MakeBackend) -> None:
    longest_s = SHORT_MINUTES * 60
    assert make(queues=[queue("short", cpu_time_s=longest_s), queue(cpu_time_s=3600)]).shortfalls() == []
    (shortfall,) = make(queues=[queue(), queue("short", cpu_time_s=86400)]).shortfalls()
    assert shortfall.startswith(
        "The queue short promises 86400 s of CPU time (cpu_time_s), and its pilots may run 120 s in the partition short"
    )
    (shortfall,) = make(queues=[queue("anything", cpu_time_s=86400)], partition="short,main").shortfalls()
    assert "may run 3600 s in the partitions short, main" in shortfall
    (shortfall,) = make(queues=[queue("short", wall_time_s=longest_s + 60)]).shortfalls()
    assert shortfall == (
        "Pilots of the queue short never start: its wall_time_s is 180, and the partition short gives at most 120 s."
    )


def test_pilots_without_a_time_limit_get_the_default_time(make: MakeBackend, cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "partitionname=main", "defaulttime=10")
    try:
        (shortfall,) = make(queues=[queue(cpu_time_s=3600)]).shortfalls()
        assert "may run 600 s" in shortfall
        assert make(queues=[queue(cpu_time_s=3600, wall_time_s=3600)]).shortfalls() == []
    finally:
        cluster.run("scontrol", "update", "partitionname=main", "defaulttime=60")  # as long as it may be
