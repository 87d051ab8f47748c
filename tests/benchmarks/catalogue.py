"""The benchmarks by name; the function ``run`` of the module of that name runs each."""

from collections.abc import Mapping
from types import MappingProxyType

#: {name: what it measures}.
MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "match": "matches in process, each with its commit, one after another",
        "floor": "the same beside the cheapest transaction with the same writes, in turns",
        "dirac": "the same beside DIRAC 9.1 on MariaDB, in turns (installs both in a temporary directory)",
        "http": "POST /api/v1/matches/ by many pilots at once, for a while",
        "contention": "the same on a single task queue of 100,000 jobs, by eight web processes",
        "fleet": "100,000 idle pilots that return when they are told to, and how soon one gets a new job",
        "heartbeats": "10,000 pilots with a job each that report every 30 s",
        "submit": "one job in one request over HTTP",
        "submit-many": "10,000 jobs in one request, of one definition and of 1,000",
        "index": "memory of a web process's index of task queues, and the time of its readings",
        "closings": "matches with throttles, limits and submit pools, in turns with matches without them",
        "held-back": "claims at a place that other jobs of the level avoid, and matches beside many such levels",
        "mass-loss": "10,000 running jobs of a site lost at once, until all wait again, and matches meanwhile",
        "retention": "1,000,000 ended jobs that leave the database, and matches meanwhile",
        "replicas": "1,000,000 replicas from a file, and what is asked of them",
        "recalculate": "all priorities, while another process matches",
        "eligible": "queues that meet a job's requirements, among 1,000 sites of 20 queues",
        "directors": "a cycle of the directors over 500 computing elements and 5,000 batch queues",
        "start": "a job's way from its submission to its payload on an idle local computing element",
        "rest": "CPU time of each part of the demonstration, once its jobs have ended",
        "orders": "how soon real pilots, at their usual heartbeat, kill a payload and show what it writes",
        "pools": "refresh of 1,000 submit pools, for which 100,000 jobs wait",
        "floods": "matches of others beside 80 MB of JDL, 48 stalled bodies, 16 anonymous bodies of 64 MB and pages",
        "memory": "growth of each part's memory under a steady mixture of requests with ever new values",
        "kill": "100,000 jobs by one request with a filter",
        "lists": "first pages of lists of jobs, and numbers by status, for any filter and any two filters",
        "commands": "each command of wms as a process, beside a Python that does nothing",
        "portal": "each page of the portal beside 1,000,000 jobs, at rest and with changes, and 500 open pages",
        "administration": "each page, order, filter, search and action of the administration beside 1,000,000 jobs",
        "wal": "bytes of write-ahead log, statements and commits of a job's life, and of database of an ended job",
    }
)
