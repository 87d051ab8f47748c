"""The workload ``uniform``: 10,000 task queues and 1,000,000 jobs, many users, sites and kinds of requirements."""

from random import Random

from tests.benchmarks.workloads.shape import GroupShape, OwnerShape, QueueShape, Workload, apportion

QUEUES = 10_000
JOBS = 1_000_000
CPU_SEGMENTS_S = (500, 5000, 50000, 300000)
_GROUPS = 20
_USERS = 400
_SITES = tuple(f"LCG.Site{number:03}.org" for number in range(100))
_PLATFORMS = tuple(f"x86_64-el{number}" for number in (6, 7, 8, 9))
_TAGS = ("GPU", "HighMemory", "MultiProcessor", "Container", "LocalData")
#: They only tell apart queues that are alike otherwise: 100,000 are more than 400 users have kinds of CPU time.
_JOB_TYPES = tuple(f"Type{number:02}" for number in range(20))


def uniform(*, queues: int = QUEUES, jobs: int = JOBS, seed: int = 1) -> Workload:
    """Return the workload in this size; the same seed gives the same."""
    chance = Random(seed)
    sizes = apportion(jobs, [(rank + 10) ** -0.7 for rank in range(1, queues + 1)], least=1)
    chance.shuffle(sizes)
    known: set[object] = set()
    return Workload(
        name="uniform",
        cpu_segments_s=CPU_SEGMENTS_S,
        groups=tuple(
            GroupShape(name=f"group{number:02}", priority=1000.0 * (1 + number % 5), shares_jobs=number % 4 == 0)
            for number in range(_GROUPS)
        ),
        owners=tuple(OwnerShape(name=f"user{number:03}", group=number % _GROUPS) for number in range(_USERS)),
        sites=_SITES,
        site_weights=(1,) * len(_SITES),
        platforms=_PLATFORMS,
        tags=_TAGS,
        queues=tuple(_queue(number, size, known, chance) for number, size in enumerate(sizes)),
        offered_cpu_time_s=(5000, 50000, 300000, 400000),
        most_offered_tags=2,
    )


def _queue(number: int, jobs: int, known: set[object], chance: Random) -> QueueShape:
    kind = chance.random()
    requirements = (
        CPU_SEGMENTS_S[number % len(CPU_SEGMENTS_S)],
        tuple(sorted(chance.sample(_SITES, chance.randint(1, 5)))) if kind < 0.45 else (),
        tuple(sorted(chance.sample(_SITES, chance.randint(1, 4)))) if 0.45 <= kind < 0.70 else (),
        tuple(sorted(chance.sample(_PLATFORMS, chance.randint(1, 2)))) if chance.random() < 0.40 else (),
        (chance.choice(_TAGS),) if chance.random() < 0.15 else (),
    )
    # Only who asks is drawn again where the same is asked already: the parts above stay what they are.
    while (asked := (chance.randrange(_USERS), chance.choice(_JOB_TYPES), requirements)) in known:
        pass
    known.add(asked)
    owner, job_type, (cpu_time_s, sites, banned_sites, platforms, tags) = asked
    return QueueShape(
        owner=owner,
        cpu_time_s=cpu_time_s,
        sites=sites,
        banned_sites=banned_sites,
        platforms=platforms,
        tags=tags,
        job_type=job_type,
        jobs=jobs,
    )
