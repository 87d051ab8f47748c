"""The same jobs in both systems, matched in alternating blocks by the same offers.

The fields that DIRAC lacks are left out there: setup, pilot types, submit pools and processors, which the workloads do
not use either. The work that DIRAC's task queues do not do is still done here: the job's status and history, the
lease, and the pilot's flag. DIRAC draws among all CPU segments that fit; here the highest one comes first.
"""

import json
from pathlib import Path
from random import Random

from django.db import connection

from taskqueues.services import priorities
from tests.benchmarks.dirac.peer import Peer, dirac
from tests.benchmarks.match import WARM_UP, match_once
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.offers import Question, draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes
from tests.benchmarks.workloads.shape import QueueShape

BLOCK = 50
#: Insertions into DIRAC, one by one.
INSERTIONS = 200


def run(ready: Surroundings, options: Options) -> Report:
    """Load both systems, and match in turns."""
    loaded = load(options.shape(), seed=options.seed)
    report = Report(benchmark="dirac", sizes=loaded_sizes(loaded))
    rows = ready.logs / "rows.jsonl"
    _export(loaded, rows)
    with dirac(ready, loaded.workload) as peer:
        report.facts |= {name: str(value) for name, value in peer.ask("about").items()}
        report.facts["seconds to load DIRAC"] = peer.time("load", file=str(rows))
        report.add("recalculate all priorities: DIRAC", [peer.time("recalculate") for _ in range(options.repeat)])
        report.add(
            "recalculate all priorities: here", [timed(priorities.recalculate)[1] for _ in range(options.repeat)]
        )
        _compare(report, loaded, peer, options)
        insertions = min(INSERTIONS, options.operations)
        report.add("insert one job: DIRAC", _insertions(loaded, peer, times=insertions, seed=options.seed))
    return report


def _compare(report: Report, loaded: LoadedWorkload, peer: Peer, options: Options) -> None:
    chance = Random(options.seed)
    ours: list[float] = []
    theirs: list[float] = []
    nothing_there = nothing_here = 0
    warm_up = min(WARM_UP, options.operations)
    for start in range(-warm_up, options.operations, BLOCK):
        questions = [draw_question(loaded, chance=chance) for _ in range(BLOCK)]
        here = [match_once(question, chance=chance) for question in questions]
        there = [peer.ask("match", offer=_offer(question, loaded)) for question in questions]
        if start >= 0:
            ours += [taken_s for _, taken_s in here]
            theirs += [float(str(answer["taken_s"])) for answer in there]
            nothing_here += sum(leases == 0 for leases, _ in here)
            nothing_there += sum(answer["job"] is None for answer in there)
    there_figure, here_figure = report.add("match: DIRAC", theirs), report.add("match, with its commit: here", ours)
    report.facts["offers that got nothing, DIRAC"] = nothing_there
    report.facts["offers that got nothing, here"] = nothing_here
    report.facts["times as fast as DIRAC at the median"] = there_figure.median_ms / here_figure.median_ms


def _insertions(loaded: LoadedWorkload, peer: Peer, *, times: int, seed: int) -> list[float]:
    """Insert new jobs of queues of the workload, as submission to DIRAC does."""
    chance = Random(seed)
    first = loaded.workload.jobs + 1
    taken_s = []
    for job_id in range(first, first + times):
        queue = chance.choice(loaded.workload.queues)
        record = {name: value for name, value in _definition(queue, loaded).items() if value and name != "VO"}
        taken_s.append(peer.time("insert", job_id=job_id, definition=record, priority=1))
    return taken_s


def _offer(question: Question, loaded: LoadedWorkload) -> dict[str, object]:
    site = loaded.workload.sites[question.site]
    return {
        "CPUTime": question.cpu_time_s,
        "Site": site,
        "GridCE": loaded.ce_name(question.site),
        "Platform": [question.platform],
        "Tag": list(question.tags),
    }


def _definition(queue: QueueShape, loaded: LoadedWorkload) -> dict[str, object]:
    owner = loaded.workload.owners[queue.owner]
    return {
        "Owner": owner.name,
        "OwnerGroup": loaded.workload.groups[owner.group].name,
        "VO": loaded.vo.name,
        "CPUTime": queue.cpu_time_s,
        "Sites": list(queue.sites),
        "BannedSites": list(queue.banned_sites),
        "Platforms": list(queue.platforms),
        "JobTypes": [queue.job_type],
        "Tags": list(queue.tags),
    }


def _export(loaded: LoadedWorkload, file: Path) -> None:
    """Write each task queue with the ids and priorities of its jobs, from our tables."""
    with connection.cursor() as cursor, file.open("w", encoding="utf-8") as target:
        cursor.execute(
            "SELECT task_queue_id, array_agg(job_id), array_agg(user_priority) FROM taskqueues_queuedjob GROUP BY 1"
        )
        for task_queue_id, job_ids, user_priorities in cursor.fetchall():
            record = {
                **_definition(loaded.workload.queues[task_queue_id - 1], loaded),
                "TQId": task_queue_id,
                "Priority": 1,
                "Enabled": 1,
                "jobs": list(zip(job_ids, user_priorities, strict=True)),
            }
            target.write(json.dumps(record) + "\n")
