"""A grid whose queues have many parameters, and requirements of which each is met by a part of the queues."""

from collections.abc import Mapping
from random import Random

from resources.domain.enums import RequirementKind
from resources.models import ComputingElement, Queue, RequirementDefinition, Site
from wms.accounts.models import VO

QUEUES_OF_SITE = 20
CES_OF_SITE = 2
_RELEASES = [f"v{n}" for n in range(40)]
_MODELS = ["Xeon", "Epyc", "Opteron", "Graviton"]
_MEMORY_MB = [2000, 4000, 8000, 16000, 32000]


def make_grid(vo: VO, *, queues: int, chance: Random) -> None:
    """Make sites of twenty queues each, with parameters at all three levels, for every VO and for this one."""
    RequirementDefinition.objects.create(name="Memory", kind=RequirementKind.CAPACITY, unit="MB")
    sites = Site.objects.bulk_create(
        Site(
            name=f"Grid{number}",
            parameters={"SoftwareTag": sorted(chance.sample(_RELEASES, 5)), "CPUModel": chance.choice(_MODELS)},
            vo_parameters={vo.name: {"Quota": number % 5}},
        )
        for number in range(max(1, queues // QUEUES_OF_SITE))
    )
    ces = ComputingElement.objects.bulk_create(
        ComputingElement(site=site, name=f"ce{number}", parameters={"Scratch": chance.choice(_MEMORY_MB)})
        for site in sites
        for number in range(CES_OF_SITE)
    )
    Queue.objects.bulk_create(
        Queue(
            ce=ce,
            name=f"q{number}",
            cpu_time_s=300_000,
            parameters={"Memory": chance.choice(_MEMORY_MB)},
            vo_parameters={vo.name: {"Share": number}},
        )
        for ce in ces
        for number in range(QUEUES_OF_SITE // CES_OF_SITE)
    )


def requirements(number: int, *, chance: Random) -> Mapping[str, object]:
    """Return requirements that are different for each number."""
    return {
        "Memory": 1000 + number,
        "SoftwareTag": chance.sample(_RELEASES, 2),
        "CPUModel": chance.sample(_MODELS, 3),
    }
