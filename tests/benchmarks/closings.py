"""``closings``: matches with throttles, limits and submit pools, in turns with matches without them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from statistics import median
from time import monotonic, sleep

from django.db import connections
from django.utils import timezone

from matching.services.throttles import advertise
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import Advertisement
from resources.models import Queue, Site, ThrottleState
from taskqueues.models import Limit, PoolQueue, SubmitPool, TaskQueue
from taskqueues.services.index.shared import index
from tests.benchmarks.match import match_often, match_once
from tests.benchmarks.measuring import Report
from tests.benchmarks.offers import Question, draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes

#: At most: one for each task queue.
POOLS = 1000
#: So many that a poll need not wait for a core, nor they for it.
MATCHERS = 2
#: What web processes let pilots do that come for nothing (matching.services.retry_after).
POLLS_PER_S = 20.0
#: At most; a rate is that of so long.
BLOCK_S = 4.0
MORE_THAN_EVER = 10**8
IDLE = Advertisement(numbers={SUBMITTING: 0, GATHERING: 0, CURRENT: 0})


def run(ready: Surroundings, options: Options) -> Report:
    """Match under each of the conditions, in turns."""
    loaded = load(options.shape(), seed=options.seed)
    pools = _make_pools(loaded)
    report = Report(benchmark="closings", sizes={**loaded_sizes(loaded), "rounds": options.repeat})
    conditions: dict[str, Callable[[LoadedWorkload], AbstractContextManager[None]]] = {
        "match, nothing limits it": _nothing,
        "match, one limit on running jobs of the VO": _vo_limit,
        "match, a limit on running jobs of each site": _site_limits,
        "match, every site throttled": _throttles,
        f"match, {pools} task queues of {pools} submit pools": _pools,
        "match, these pools and every site throttled": _pools_and_throttles,
    }
    times_s: dict[str, list[float]] = {name: [] for name in conditions}
    names = list(conditions)
    for turn in range(options.repeat):
        # Each comes first once: what the one before has changed is not counted against the same one each time.
        for name in names[turn:] + names[:turn]:
            with conditions[name](loaded):
                index.forget()
                index.renewed()
                times = options.operations // options.repeat
                times_s[name] += match_often(loaded, times=times, seed=options.seed + turn)[0]
    plain, *others = [report.add(name, times).median_ms for name, times in times_s.items()]
    for name, other_ms in zip(names[1:], others, strict=True):
        report.facts[f"rate of {name.removeprefix('match, ')}, without = 1"] = plain / other_ms
    report.facts["rate elsewhere beside pilots at a closed site, without them = 1"] = _beside_a_closed_site(
        loaded, options
    )
    return report


@contextmanager
def _nothing(_loaded: LoadedWorkload) -> Iterator[None]:
    yield


@contextmanager
def _vo_limit(loaded: LoadedWorkload) -> Iterator[None]:
    limit = Limit.objects.create(vo=loaded.vo, running=MORE_THAN_EVER)
    yield
    limit.delete()


@contextmanager
def _site_limits(_loaded: LoadedWorkload) -> Iterator[None]:
    for site in Site.objects.order_by("pk"):
        Limit.objects.create(site=site, running=MORE_THAN_EVER)
    yield
    Limit.objects.all().delete()


@contextmanager
def _throttles(_loaded: LoadedWorkload) -> Iterator[None]:
    Site.objects.update(throttle_policy="level0", max_submitting_jobs=MORE_THAN_EVER)
    for site_id in Site.objects.order_by("pk").values_list("pk", flat=True):
        advertise(site_id, IDLE)
    yield
    Site.objects.update(throttle_policy="", max_submitting_jobs=None)
    ThrottleState.objects.all().delete()


@contextmanager
def _pools(_loaded: LoadedWorkload) -> Iterator[None]:
    of_pool = list(TaskQueue.objects.order_by("pk")[:POOLS])
    for row, pool_id in zip(of_pool, SubmitPool.objects.order_by("pk").values_list("pk", flat=True), strict=False):
        row.submit_pools = [pool_id]
    TaskQueue.objects.bulk_update(of_pool, ["submit_pools"])
    yield
    TaskQueue.objects.filter(pk__in=[row.pk for row in of_pool]).update(submit_pools=[])


def _make_pools(loaded: LoadedWorkload) -> int:
    """Make pools of half of all batch queues each, of which no task queue has any yet; return their number."""
    count = min(POOLS, TaskQueue.objects.count())
    now, chance = timezone.now(), Random(1)
    queue_ids = list(Queue.objects.order_by("pk").values_list("pk", flat=True))
    pools = SubmitPool.objects.bulk_create(
        SubmitPool(
            id=f"{number:064x}", vo=loaded.vo, requirements={"memory": number}, refreshed_at=now, last_used_at=now
        )
        for number in range(count)
    )
    # As rows: a thousand calls of set() take longer than all that is measured.
    PoolQueue.objects.bulk_create(
        (
            PoolQueue(submitpool_id=pool.pk, queue_id=queue_id)
            for pool in pools
            for queue_id in chance.sample(queue_ids, len(queue_ids) // 2)
        ),
        batch_size=10_000,
    )
    return count


@contextmanager
def _pools_and_throttles(loaded: LoadedWorkload) -> Iterator[None]:
    with _pools(loaded), _throttles(loaded):
        yield


def _beside_a_closed_site(loaded: LoadedWorkload, options: Options) -> float:
    """Return the rate of matches elsewhere while pilots ask at a closed site, divided by the rate without them."""
    closed = 0
    Site.objects.filter(name=loaded.workload.sites[closed]).update(throttle_policy="level0", max_submitting_jobs=0)
    advertise(Site.objects.get(name=loaded.workload.sites[closed]).pk, IDLE)
    index.forget()
    # A connection, or the index's thread, must not be in two processes.
    connections.close_all()
    forking = get_context("fork")
    pipes = [forking.Pipe() for _ in range(MATCHERS + 1)]
    targets = [_match_elsewhere] * MATCHERS + [_ask_at_closed_site]
    children = [
        forking.Process(target=target, args=(loaded, options, number, closed, pipe[1]))
        for number, (target, pipe) in enumerate(zip(targets, pipes, strict=True))
    ]
    for child in children:
        child.start()
    rates: dict[bool, list[int]] = {True: [], False: []}
    for turn in range(2 * options.repeat + 1):
        # Asked, not, not, asked, …: what changes with time does so for both.
        is_polled = turn // 2 % 2 == 0
        for here, _ in pipes:
            here.send(is_polled)
        done = [here.recv() for here, _ in pipes]
        # The first is the warm-up.
        if turn:
            rates[is_polled].append(sum(done[:MATCHERS]))
    for here, _ in pipes:
        here.send(None)
    for child in children:
        child.join()
    return median(rates[True]) / median(rates[False])


def _match_elsewhere(loaded: LoadedWorkload, options: Options, number: int, closed: int, other: Connection) -> None:
    chance = Random(options.seed + number)
    while other.recv() is not None:
        done, end = 0, monotonic() + min(BLOCK_S, options.seconds)
        while monotonic() < end:
            question = draw_question(loaded, chance=chance)
            if question.site != closed:
                done += match_once(question, chance=chance)[0]
        other.send(done)


def _ask_at_closed_site(loaded: LoadedWorkload, options: Options, number: int, closed: int, other: Connection) -> None:
    chance = Random(options.seed + number)
    # Drawn before, for to draw one costs as much as to ask it.
    count = int(POLLS_PER_S * min(BLOCK_S, options.seconds) * (options.repeat + 1)) + 1
    questions = iter([_question_at(closed, loaded, chance) for _ in range(count)])
    while (is_asked := other.recv()) is not None:
        end, given = monotonic() + min(BLOCK_S, options.seconds), 0
        while monotonic() < end:
            if is_asked:
                given += match_once(next(questions), chance=chance)[0]
            sleep(1 / POLLS_PER_S)
        other.send(given)


def _question_at(site: int, loaded: LoadedWorkload, chance: Random) -> Question:
    return replace(draw_question(loaded, chance=chance), site=site, pilot_id=chance.choice(loaded.pilots[site]))
