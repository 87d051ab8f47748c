"""``replicas``: replicas of a million files, loaded from a file, and looked up for thousands of jobs at once."""

import csv
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

from django.db import connection
from django.utils import timezone

from resources.models import Site, StorageElement
from resources.services.loading import load
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.factories import submit
from wms.accounts.models import VO, Group, Membership, User
from wms.jobs.domain.request import parse_submission
from wms.jobs.services.input_data import Located
from wms.jobs.services.reevaluation import LAG, reevaluate

REPLICAS = 1_000_000
SITES = 20
#: Of each job.
FILES = 5


def run(ready: Surroundings, options: Options) -> Report:
    """Load the file twice, the second time without changes; then look files up, submit, and look them up again."""
    replicas = options.jobs or REPLICAS
    vo, owner = _loaded()
    report = Report(
        benchmark="replicas", sizes={"replicas": replicas, "files": (replicas + 1) // 2, "jobs": options.batch}
    )
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "replicas.csv")
        _write(file, replicas)
        for what in ("load of a file, all of it new", "load of the same file again"):
            report.add(what, [timed(partial(_load, file))[1]])
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) resources_replica")
    chance = Random(options.seed)
    lists = [_files(chance, replicas) for _ in range(options.batch)]
    found = f"look-up of {options.batch} lists of {FILES} files"
    report.add(found, [timed(partial(_locate, lists, vo))[1] for _ in range(options.repeat)])
    body = {"jobs": [{"executable": "run.sh", "input_data": files} for files in lists]}
    request = parse_submission(body)
    report.add(
        f"submission of {options.batch} jobs with {FILES} files",
        [timed(partial(submit, request, owner=owner, now=timezone.now()))[1]],
    )
    report.add("look at all of them again after a load", [timed(partial(reevaluate, now=timezone.now()))[1]])
    later = timezone.now() + 2 * LAG
    report.add("the second look, a minute later", [timed(partial(reevaluate, now=later))[1]])
    report.add("run without changes", [timed(partial(reevaluate, now=later))[1] for _ in range(options.repeat)])
    return report


def _loaded() -> tuple[VO, User]:
    vo = VO.objects.create(name="lhcb", setup="Production", setups=["Production"])
    owner = User.objects.create(username="alice")
    Membership.objects.create(user=owner, group=Group.objects.create(name="lhcb_user", vo=vo))
    for number in range(SITES):
        element = StorageElement.objects.create(name=f"SE{number}", url=f"https://se{number}.example.org")
        element.vos.add(vo)
        Site.objects.create(name=f"LCG.Site{number}.org").storage_elements.add(element)
    return vo, owner


def _write(file: Path, replicas: int) -> None:
    """Write two copies of each file, those of a run at the same two sites."""
    with file.open("w", newline="", encoding="utf-8") as lines:
        csv.writer(lines).writerows(_rows(replicas))


def _rows(replicas: int) -> Iterator[tuple[str, str, int, str]]:
    for number in range(replicas):
        of_file, copy = divmod(number, 2)
        element = (of_file // 100 + copy * 7) % SITES
        yield _name(of_file), f"SE{element}", 10**9 + of_file, f"adler32:{of_file:08x}"


def _name(number: int) -> str:
    return f"/lhcb/data/run{number // 100:06}/file{number % 100:02}.raw"


def _files(chance: Random, replicas: int) -> list[str]:
    """Return files of one run."""
    files = (replicas + 1) // 2
    first = chance.randrange(max(1, files // 100)) * 100
    return [_name(min(first + number, files - 1)) for number in range(FILES)]


def _load(file: Path) -> None:
    with file.open(encoding="utf-8", newline="") as lines:
        load(lines, vo_name=None)


def _locate(lists: list[list[str]], vo: VO) -> None:
    found = Located([tuple(files) for files in lists], vo_id=vo.pk)
    for files in lists:
        found.sites(tuple(files))
