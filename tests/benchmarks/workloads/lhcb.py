"""The workload ``lhcb``: the shape of a production snapshot, 501 task queues and 871,973 jobs of five owners.

The snapshot's parts were counted at slightly different times; here they are scaled to its totals. It counted queues by
their jobs, and jobs by type, CPU segment and owner, but not their combinations: these are drawn.
"""

from collections.abc import Mapping, Sequence
from itertools import count, cycle, islice
from random import Random
from typing import TypeVar

from tests.benchmarks.workloads.shape import GroupShape, OwnerShape, QueueShape, Workload, apportion

QUEUES = 501
JOBS = 871_973
#: (Fewest jobs of a queue, most, queues, jobs in all).
_SIZES = ((1, 1, 37, 37), (2, 10, 42, 194), (11, 100, 52, 2023), (101, 1000, 131, 55_271), (1001, 5000, 271, 814_385))
_JOBS_OF_TYPE = {
    "MCSimulation": 520_258,
    "MCFastSimulation": 187_908,
    "WGProduction": 141_317,
    "Sprucing": 14_465,
    "Merge": 6812,
    "MCReconstruction": 1002,
    "MCMerge": 50,
    "User": 40,
    "DataStripping": 30,
    "DataReconstruction": 20,
    "Test": 10,
}
_JOBS_OF_SEGMENT_S = {
    21_600: 126_768,
    43_200: 6729,
    86_400: 29_605,
    172_800: 20_088,
    259_200: 331_745,
    345_600: 150_206,
    518_400: 24_582,
    691_200: 12_035,
    864_000: 14_249,
    1_080_000: 155_890,
}
CPU_SEGMENTS_S = tuple(_JOBS_OF_SEGMENT_S)
_JOBS_OF_OWNER = {0: 708_162, 1: 162_663, 2: 1011, 3: 12, 4: 11}
_SITES = tuple(f"LCG.Site{number:02}.org" for number in range(60))
#: Queues that name a site: the largest one, then the others.
_QUEUES_OF_SITE = (368, *apportion(262 * 59, [255 + 14 * number / 58 for number in range(59)]))
#: Those whose jobs may run nearly everywhere, those for the largest site alone, those for a few others:
#: so many queues, with so many jobs, that the sums of each site come out.
_WIDE, _LARGEST, _FEW = "wide", "largest", "few"
_QUEUES_OF_REACH = {_WIDE: 260, _LARGEST: 108, _FEW: 132}
_JOBS_OF_REACH = {_WIDE: 712_000, _LARGEST: 88_227, _FEW: 71_746}
#: From the oldest to the newest: a node runs what was built for an older one.
_PLATFORMS = tuple(f"x86_64-v{level}-el{system}" for level in range(1, 5) for system in range(1, 18))[:67]

Kind = TypeVar("Kind")


def lhcb(*, queues: int = QUEUES, jobs: int = JOBS, seed: int = 1) -> Workload:
    """Return the workload in this size; the same seed gives the same."""
    chance = Random(seed)
    sizes = sorted(_sizes(queues, jobs, chance), reverse=True)
    types, segments_s, owners = (
        _dealt(sizes, quotas) for quotas in (_JOBS_OF_TYPE, _JOBS_OF_SEGMENT_S, _JOBS_OF_OWNER)
    )
    sites = _sites(sizes, chance)
    known: set[object] = set()
    return Workload(
        name="lhcb",
        cpu_segments_s=CPU_SEGMENTS_S,
        groups=(
            GroupShape(name="production", priority=8000, shares_jobs=True),
            GroupShape(name="data", priority=4000, shares_jobs=True),
            GroupShape(name="working_groups", priority=2000),
            GroupShape(name="users", priority=1000),
        ),
        owners=tuple(OwnerShape(name=f"user{number}", group=min(number, 3)) for number in range(5)),
        sites=_SITES,
        site_weights=_QUEUES_OF_SITE,
        platforms=_PLATFORMS,
        tags=(),
        queues=tuple(
            QueueShape(
                owner=owners[number],
                cpu_time_s=segments_s[number],
                sites=sites[number],
                platforms=_platforms((owners[number], segments_s[number], sites[number], types[number]), known, chance),
                job_type=types[number],
                jobs=size,
            )
            for number, size in enumerate(sizes)
        ),
        offered_cpu_time_s=CPU_SEGMENTS_S,
        most_offered_tags=0,
    )


def _sizes(queues: int, jobs: int, chance: Random) -> list[int]:
    natural: list[int] = []
    for (least, _, _, total), share in zip(_SIZES, apportion(queues, [row[2] for row in _SIZES]), strict=True):
        if share:
            weights = [chance.uniform(0.2, 1.8) for _ in range(share)]  # none leaves its class
            natural += apportion(max(total * queues // QUEUES, least * share), weights, least=least)
    return apportion(jobs, [size - 1 for size in natural], least=1)


def _dealt(sizes: Sequence[int], quotas: Mapping[Kind, int]) -> list[Kind]:
    """Give each size, the largest first, to the kind that lacks most of its quota."""
    scale = sum(sizes) / sum(quotas.values())
    lacking = {kind: quota * scale for kind, quota in quotas.items()}
    dealt = []
    for size in sizes:
        kind = max(lacking, key=lacking.__getitem__)
        lacking[kind] -= size
        dealt.append(kind)
    return dealt


def _sites(sizes: Sequence[int], chance: Random) -> list[tuple[str, ...]]:
    """Return the sites that each queue names; the first of the small ones accepts any."""
    reach = _reaches(sizes)
    numbers = {kind: [number for number, of in enumerate(reach) if of == kind] for kind in _QUEUES_OF_REACH}
    named: list[set[str]] = [set() for _ in sizes]
    for number in (*numbers[_WIDE], *numbers[_LARGEST]):
        named[number].add(_SITES[0])
    few = cycle(numbers[_FEW])
    for site, queues in zip(_SITES[1:], _QUEUES_OF_SITE[1:], strict=True):
        wanted = max(1, queues * len(sizes) // QUEUES)
        from_wide = min(len(numbers[_WIDE]), max(0, wanted - 8))
        for number in (*chance.sample(numbers[_WIDE], from_wide), *islice(few, wanted - from_wide)):
            named[number].add(site)
    return [tuple(sorted(of_queue)) for of_queue in named]


def _reaches(sizes: Sequence[int]) -> list[str | None]:
    """Deal the queues, the largest first, to the reach whose queues still to come are the largest on the average."""
    any_site = len(sizes) - 1
    queues = dict(zip(_QUEUES_OF_REACH, apportion(len(sizes) - 1, list(_QUEUES_OF_REACH.values())), strict=True))
    jobs = {kind: quota * sum(sizes) / JOBS for kind, quota in _JOBS_OF_REACH.items()}
    dealt: list[str | None] = []
    for number, size in enumerate(sizes):
        if number == any_site:
            dealt.append(None)
            continue
        kind = max((kind for kind in queues if queues[kind]), key=lambda kind: jobs[kind] / queues[kind])
        queues[kind] -= 1
        jobs[kind] -= size
        dealt.append(kind)
    return dealt


def _platforms(asked: tuple[object, ...], known: set[object], chance: Random) -> tuple[str, ...]:
    """Return the platforms that a queue names: often none, else the newest ones; no two queues ask for the same."""
    for attempt in count():
        oldest = chance.randrange(len(_PLATFORMS)) if attempt or chance.random() < 0.5 else 0
        platforms = tuple(sorted(_PLATFORMS[oldest:])) if oldest else ()
        if (asked, platforms) not in known:
            known.add((asked, platforms))
            break
    return platforms
