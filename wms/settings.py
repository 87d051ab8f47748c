"""The settings of all processes; what differs between machines is read from ``WMS_…`` environment variables."""

import os
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

from wms.stack.directory import environment_of_running, found_directory
from wms.wire.search_path import leave_out_current_directory
from wms.wire.version import __version__

# Before numpy is imported: its linear algebra, which is not used here, would start a thread for each core in every
# process, and a signal that a process blocks and waits for would be delivered to one of them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

leave_out_current_directory()

BASE_DIR = Path(__file__).resolve().parent.parent
# An installed server keeps its data in the current directory; its wheel has the templates inside the package.
_IN_REPOSITORY = (BASE_DIR / "manage.py").exists()
_WORK_DIR = BASE_DIR if _IN_REPOSITORY else Path.cwd()

env = environ.Env()
#: The data directory of the system that commands in a second terminal find.
FOUND_DATA_DIR = found_directory(os.environ, clone=BASE_DIR if _IN_REPOSITORY else None)
# They read its servers. Not put into os.environ, by which `up` decides which servers to embed.
env.ENVIRON = {**environment_of_running(FOUND_DATA_DIR), **os.environ}

# ---- Machine and security --------------------------------------------------------------------------------------------

#: True lets this process start with development defaults; `up` on embedded servers sets it, production never does.
WMS_EMBEDDED = env.bool("WMS_EMBEDDED", default=False)
#: Let operators set type, identity and options of computing elements, and directories as storage elements, in the
#: administration of an embedded system (WMS_EMBEDDED), too: then whoever logs in as one runs programs under the account
#: that started it (ADR 84).
WMS_CE_PROGRAMS_OVER_HTTP = env.bool("WMS_CE_PROGRAMS_OVER_HTTP", default=False)
#: Show settings and code on error pages; for development on one's own machine only.
DEBUG = env.bool("WMS_DEBUG", default=False)
#: Public, so `check --deploy` and every production start refuse it (wms.kernel.checks).
INSECURE_SECRET_KEY = "insecure-default-key-for-development-only-do-not-use-in-production"  # noqa: S105 - meant to be seen
#: Signs sessions and the tokens of pilots and jobs: at least 50 random characters, the same on every machine.
SECRET_KEY = env.str("WMS_SECRET_KEY", default=INSECURE_SECRET_KEY)
#: Previous keys, separated by commas, still accepted; a weak one is refused as a weak WMS_SECRET_KEY is. Keep one here
#: for WMS_JOB_TOKEN_S, and until `wms-server rotate_key` has re-encrypted what is stored.
SECRET_KEY_FALLBACKS = env.list("WMS_SECRET_KEY_FALLBACKS", default=[])
#: Names under which clients and browsers reach the server; requests for other names are refused.
ALLOWED_HOSTS = env.list("WMS_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
#: Origins from which the portal accepts forms, such as https://wms.example.org, where a proxy speaks TLS before it.
CSRF_TRUSTED_ORIGINS = env.list("WMS_CSRF_TRUSTED_ORIGINS", default=[])
#: Addresses and networks of the proxies before this server, separated by commas, such as 10.0.0.5,2001:db8::/64; "unix"
#: trusts every client of a Unix socket. Only their X-Forwarded-For is used as the client's address.
WMS_TRUSTED_PROXIES = env.list("WMS_TRUSTED_PROXIES", default=[])
#: Require HTTPS: browsers are redirected to it, other requests below /api/ are refused, and cookies are sent over it
#: only. A proxy of WMS_TRUSTED_PROXIES speaks TLS and sets X-Forwarded-Proto.
WMS_HTTPS = env.bool("WMS_HTTPS", default=not WMS_EMBEDDED)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = WMS_HTTPS
# With this prefix browsers accept the cookie only over HTTPS and from this host, not from others of its domain.
SESSION_COOKIE_NAME = "__Host-wms_session" if WMS_HTTPS else "wms_session"
# Read by a prepared statement, as is the user: every open page reads both every few seconds.
SESSION_ENGINE = "wms.accounts.backends"
AUTHENTICATION_BACKENDS = ["wms.accounts.backends.PasswordBackend"]
CSRF_COOKIE_NAME = "__Host-wms_csrf" if WMS_HTTPS else "wms_csrf"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")  # TrustedTransport drops the header of other clients
SECURE_SSL_REDIRECT = WMS_HTTPS
# API clients would follow a redirect after sending body and token in clear, or with GET; monitoring calls this process
# directly.
SECURE_REDIRECT_EXEMPT = [r"^api/", r"^(healthz|readyz|metrics)$"]
#: Seconds for which browsers use HTTPS only after a visit (HSTS), with WMS_HTTPS; 0: no HSTS.
WMS_HSTS_S = env.int("WMS_HSTS_S", default=365 * 24 * 3600)
SECURE_HSTS_SECONDS = WMS_HSTS_S if WMS_HTTPS else 0
# Whether HSTS covers the hosts below this one, and is built into browsers, is the decision of the domain's owner.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

#: Users who need a second factor, without which only its set-up is open to them: none, operators, or staff (users of
#: the administration, operators included).
WMS_REQUIRE_SECOND_FACTOR = env.str("WMS_REQUIRE_SECOND_FACTOR", default="none")

#: Providers of OpenID Connect by which people log in beside the password, as a JSON object by id
#: (docs/openid-connect.md); empty: none, and nothing of it is visible or reachable. It holds client secrets.
WMS_OIDC_PROVIDERS = env.str("WMS_OIDC_PROVIDERS", default="")
#: Days for which a membership by claim lasts after the last log-in that confirmed it: who leaves an experiment logs in
#: no more, and a provider does not report it.
WMS_OIDC_MEMBERSHIP_DAYS = env.int("WMS_OIDC_MEMBERSHIP_DAYS", default=30)

# ---- Servers ---------------------------------------------------------------------------------------------------------

# PostgreSQL 15 or newer: postgres://user:password@host:5432/name.
_DATABASE = env.db_url("WMS_DATABASE_URL", default="postgres://postgres@localhost:5432/wms")
DATABASES = {
    "default": {
        **_DATABASE,
        # Persistent connections: opening one for each request costs 12 times as much.
        "CONN_MAX_AGE": env.int("WMS_DATABASE_CONNECTION_MAX_AGE_S", default=600),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            # A host that answers nothing, as behind a firewall that drops its packets, is away after some seconds; by
            # default after minutes or hours. A statement may take as long as it likes.
            "connect_timeout": 5,
            "tcp_user_timeout": 20_000,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            **_DATABASE.get("OPTIONS", {}),
            # The fifth execution of a statement with the same text is planned once for all; those of the ORM differ by
            # the values in their text, and the claim asks for it itself.
            "prepare_threshold": 5,
        },
    }
}
#: Redis or Valkey, the broker of the background work: redis://host:6379/0, or redis+socket:///path for a Unix socket.
WMS_REDIS_URL = env.str("WMS_REDIS_URL", default="redis://localhost:6379/0")

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    # Rate limits. The time-outs are short, as requests wait for them when Redis is down.
    "rates": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        # Celery's redis+socket:///path is unix:///path to the client.
        "LOCATION": WMS_REDIS_URL.replace("redis+socket://", "unix://", 1).replace("virtual_host=", "db="),
        "KEY_PREFIX": "wms-rates",
        "OPTIONS": {"socket_connect_timeout": 0.2, "socket_timeout": 0.2, "retry": None},
    },
}

CELERY_BROKER_URL = WMS_REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_DEFAULT_QUEUE = "control"
# A queue of its own, so that unreachable sites never delay the expiry of leases.
CELERY_TASK_ROUTES = {"pilots.serve_ce": {"queue": "sites"}, "kernel.report_sites": {"queue": "sites"}}
# Longer than the longest task, as a task that takes longer is run a second time.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "socket_connect_timeout": 2,
    "socket_timeout": 5,
    "max_retries": 0,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

# ---- Web server ------------------------------------------------------------------------------------------------------

#: Seconds in which the head of a request must arrive, and after which an idle connection is closed.
WMS_WEB_HEAD_S = env.float("WMS_WEB_HEAD_S", default=5.0)
#: Seconds in which a body must arrive, plus the time of its received bytes at WMS_WEB_BODY_BYTES_PER_S. The same holds
#: for a client that reads its answer.
WMS_WEB_BODY_S = env.float("WMS_WEB_BODY_S", default=10.0)
#: Least rate of a body or an answer after WMS_WEB_BODY_S, in bytes per second: a sandbox of 10 MB has 11 minutes.
WMS_WEB_BODY_BYTES_PER_S = env.int("WMS_WEB_BODY_BYTES_PER_S", default=16 * 1024)
#: Longest body read from an unknown caller; a longer one needs a valid token or session.
WMS_WEB_UNKNOWN_BODY_BYTES = env.int("WMS_WEB_UNKNOWN_BODY_BYTES", default=8 * 1024)
#: Concurrent incoming bodies of unknown callers, per process; beyond that the oldest is dropped, as honest ones arrive
#: within a round trip.
WMS_WEB_INCOMPLETE_BODIES = env.int("WMS_WEB_INCOMPLETE_BODIES", default=256)
#: Concurrent bodies longer than WMS_WEB_UNKNOWN_BODY_BYTES of one user, pilot, job or site, per process.
WMS_WEB_LONG_BODIES_OF_ONE_CALLER = env.int("WMS_WEB_LONG_BODIES_OF_ONE_CALLER", default=8)
#: Rate limit of all bodies over 256 KiB of one user, pilot, job or site together, in bytes per second and per process:
#: at the speed of the network they could take the time of all others.
WMS_WEB_CALLER_BYTES_PER_S = env.int("WMS_WEB_CALLER_BYTES_PER_S", default=8 * 1024 * 1024)
#: Concurrent requests with a body over 256 KiB, per process; they run in threads of their own.
WMS_WEB_LARGE_BODIES_AT_ONCE = env.int("WMS_WEB_LARGE_BODIES_AT_ONCE", default=2)
#: Answers that are made while they are sent (archives of outputs, whole lists of jobs), per process: each has a thread
#: of its own, which waits for its client. One user may have half of them.
WMS_WEB_STREAMS_AT_ONCE = env.int("WMS_WEB_STREAMS_AT_ONCE", default=4)
#: Memory, in MiB, above which a process of the web server is replaced; an idle one has about 180.
WMS_WEB_MAX_RSS_MB = env.int("WMS_WEB_MAX_RSS_MB", default=400)

# ---- Rules that an operator may tune ---------------------------------------------------------------------------------

#: TQM: "restricted to 4 different values"; a job's CPU time is rounded up to the next one.
WMS_CPU_SEGMENTS_S = env.list("WMS_CPU_SEGMENTS_S", cast=int, default=[500, 5000, 50000, 300000])
#: Memory is rounded up to this step, so that 1999 MB and 2000 MB share one (docs/architecture.md, Task queues).
WMS_MEMORY_STEP_MB = env.int("WMS_MEMORY_STEP_MB", default=500)
#: Wall-clock time is rounded up to this step: batch queues have limits of whole hours, and users request parts of one.
WMS_WALL_TIME_STEP_S = env.int("WMS_WALL_TIME_STEP_S", default=600)
#: Disk is rounded up to this step.
WMS_DISK_STEP_MB = env.int("WMS_DISK_STEP_MB", default=1000)
#: Duration of a lease until the pilot's first report (docs/architecture.md, Leases).
WMS_LEASE_FIRST_S = env.int("WMS_LEASE_FIRST_S", default=300)
#: Duration of a lease after each later report.
WMS_LEASE_S = env.int("WMS_LEASE_S", default=1800)
#: The server ends a lease this long after its expiry, the pilot this long before it, so that at most one copy runs.
WMS_LEASE_GRACE_S = env.int("WMS_LEASE_GRACE_S", default=60)
#: Age of a position in the stream of changes of jobs from which on it is refused (410): a client that was away for
#: longer reads the list of jobs anew, which costs less than the changes of days.
WMS_JOB_CHANGES_S = env.int("WMS_JOB_CHANGES_S", default=24 * 3600)
#: Age at which the accounting's hours are removed (ADR 64): a bad day is looked at hour by hour in the week after it.
WMS_ACCOUNTING_HOURS_S = env.int("WMS_ACCOUNTING_HOURS_S", default=14 * 24 * 3600)
#: Age at which its days and weeks are removed: reports compare a year with those before it.
WMS_ACCOUNTING_DAYS_S = env.int("WMS_ACCOUNTING_DAYS_S", default=3 * 365 * 24 * 3600)
#: Days after their end for which jobs are kept, where their VO has no age for their status; 0: for ever. Nothing is
#: removed before an operator has seen what, and has allowed it for the VO (`wms-server retention`; ADR 100).
WMS_KEEP_JOBS_DAYS = env.int("WMS_KEEP_JOBS_DAYS", default=180)
#: The same of Deleted jobs, whose owners need them no more.
WMS_KEEP_DELETED_JOBS_DAYS = env.int("WMS_KEEP_DELETED_JOBS_DAYS", default=30)
#: Days after their end for which pilots are kept, at least as long as jobs of which they had a lease; 0: for ever.
#: Permitted with the jobs of a VO.
WMS_KEEP_PILOTS_DAYS = env.int("WMS_KEEP_PILOTS_DAYS", default=180)
#: Days for which changes of the configuration are kept, in the log of the admin and in the security log; 0: for ever.
WMS_KEEP_ADMIN_LOG_DAYS = env.int("WMS_KEEP_ADMIN_LOG_DAYS", default=0)
#: Directory of the archive of removed jobs, of this database alone: before a job is removed, it is written to a file of
#: Parquet there (needs `wms-server[archive]`); empty: removed jobs are gone.
WMS_ARCHIVE_DIR = env.str("WMS_ARCHIVE_DIR", default="")
#: Time between two reports of a pilot; after five missed ones its job is Stalled (docs/architecture.md, Leases).
WMS_HEARTBEAT_S = env.int("WMS_HEARTBEAT_S", default=30)
#: Largest number of reschedules of a job (DIRAC's MaxRescheduling).
WMS_MAX_RESCHEDULES = env.int("WMS_MAX_RESCHEDULES", default=3)
#: Number of deaths of pilots, or of their processes for the job, while its payload ran, after which a job fails: it may
#: have killed them and their other jobs. Preemption, drains, revocations, ends reported by the batch system as its own,
#: and silence while no other pilot of the queue reports do not count. 0: no limit.
WMS_MAX_PILOT_DEATHS = env.int("WMS_MAX_PILOT_DEATHS", default=2)
#: Largest number of processors, and of concurrent jobs, of a pilot at a place without a configured queue: that of the
#: largest nodes. At a queue, its slot is the limit (ADR 49).
WMS_MAX_PILOT_PROCESSORS = env.int("WMS_MAX_PILOT_PROCESSORS", default=512)
#: Delay before the next match of a job that a pilot gave back, or whose pilot the computing element ended: a pilot asks
#: again within seconds, and would use up all attempts at once. Each reschedule doubles it; 0: no delay.
WMS_RESCHEDULE_DELAY_S = env.int("WMS_RESCHEDULE_DELAY_S", default=60)
#: Longest such delay: jobs survive an outage of an hour without losing a whole day.
WMS_RESCHEDULE_DELAY_MAX_S = env.int("WMS_RESCHEDULE_DELAY_MAX_S", default=3600)
#: Time after the delay for which the places that gave the job back do not get it while another queue fits: enough for a
#: cycle of the directors and the start of a pilot elsewhere. 0: no place is avoided.
WMS_RESCHEDULE_ELSEWHERE_S = env.int("WMS_RESCHEDULE_ELSEWHERE_S", default=1800)
#: Largest age of the index for a match that finds a job; 0: always current
#: (docs/architecture.md, The task-queue index).
WMS_TASK_QUEUE_INDEX_MAX_AGE_S = env.float("WMS_TASK_QUEUE_INDEX_MAX_AGE_S", default=1.0)
#: Time after an empty match before the pilot asks again, when few pilots ask; with many pilots it grows (ADR 56).
WMS_MATCH_RETRY_AFTER_S = env.int("WMS_MATCH_RETRY_AFTER_S", default=2)
#: Lifetime of a pilot's token, renewed by its reports.
WMS_PILOT_TOKEN_S = env.int("WMS_PILOT_TOKEN_S", default=3600)
#: Lifetime of the secret that a director gives to a pilot: the longest wait in a batch queue.
WMS_PILOT_SECRET_S = env.int("WMS_PILOT_SECRET_S", default=3 * 24 * 3600)
#: Lifetime of a site's registration token issued by `wms-server site_token`. One in the configuration file is valid as
#: long as the file names it.
WMS_REGISTRATION_TOKEN_S = env.int("WMS_REGISTRATION_TOKEN_S", default=365 * 24 * 3600)
#: Time after its submission at which a pilot that has not started is stalled: it no longer counts, and is killed.
WMS_PILOT_START_S = env.int("WMS_PILOT_START_S", default=6 * 3600)
#: Pause of a batch queue after a pilot that did not start within WMS_PILOT_START_S, doubled after each further one: a
#: queue that starts no pilots is full or broken.
WMS_STALL_PAUSE_S = env.int("WMS_STALL_PAUSE_S", default=600)
#: Longest such pause: the time for which one pilot waits.
WMS_STALL_PAUSE_MAX_S = env.int("WMS_STALL_PAUSE_MAX_S", default=6 * 3600)
#: Silence after which a started pilot is lost; its lease has ended by then too.
WMS_PILOT_LOST_S = env.int("WMS_PILOT_LOST_S", default=1800)
#: Time for which a pilot's log is kept after its last line.
WMS_PILOT_LOG_S = env.int("WMS_PILOT_LOG_S", default=30 * 24 * 3600)
#: A host is a black hole after this many fast failures within an hour, most of its jobs, of jobs that succeed
#: elsewhere; 0: no detection.
WMS_BLACK_HOLE_FAILURES = env.int("WMS_BLACK_HOLE_FAILURES", default=10)
#: Time after the match within which a failure is fast: missing software or a full disk ends a payload within seconds.
WMS_BLACK_HOLE_FAST_S = env.int("WMS_BLACK_HOLE_FAST_S", default=120)
#: Time between two cycles of a director; `up` with an embedded database sets a shorter one (PIL §2.3: "work in
#: cycles").
WMS_DIRECTOR_CYCLE_S = env.float("WMS_DIRECTOR_CYCLE_S", default=60.0)
#: Backends of computing elements, by type; a new one is a file and a line here.
WMS_BACKENDS = {
    "local": "pilots.backends.local.LocalBackend",
    "slurm": "pilots.backends.slurm.SlurmBackend",
    "ssh": "pilots.backends.ssh.SSHBackend",
    "htcondor": "pilots.backends.htcondor.HTCondorBackend",
}
#: Address of the web server for users and pilots; `up` sets its own. A production start requires https:// or, with
#: WMS_HTTPS=false, an address of this machine.
WMS_SERVER_URL = env.str("WMS_SERVER_URL", default="http://127.0.0.1:8000")
#: Lifetime of the token of one lease, renewed by reports; longer than the lease, so that late reports get an error.
WMS_JOB_TOKEN_S = env.int("WMS_JOB_TOKEN_S", default=86400)
#: Longest and default lifetime of a user's bearer token.
WMS_USER_TOKEN_S = env.int("WMS_USER_TOKEN_S", default=30 * 24 * 3600)
#: Age of a log-in, in seconds, up to which it is fresh: members and suspensions are changed over REST only by a token
#: that was issued, or in a session in which the user has logged in or typed the password again, within this time.
WMS_FRESH_LOG_IN_S = env.int("WMS_FRESH_LOG_IN_S", default=900)
#: Lifetime of a one-time link by which a user sets a password; until then its holder can act as that user.
WMS_PASSWORD_LINK_S = env.int("WMS_PASSWORD_LINK_S", default=3 * 24 * 3600)
#: Lifetime of an invitation into a group, which only the invited user can accept.
WMS_INVITATION_S = env.int("WMS_INVITATION_S", default=30 * 24 * 3600)
#: Largest sandbox: sandboxes are for scripts and small files; data belong on storage elements.
WMS_SANDBOX_MAX_BYTES = env.int("WMS_SANDBOX_MAX_BYTES", default=10 * 1024 * 1024)
#: Quota of a user's uploaded sandboxes that are not deleted with their jobs, each content counted once; outputs of jobs
#: have one of their own.
WMS_SANDBOX_QUOTA_BYTES = env.int("WMS_SANDBOX_QUOTA_BYTES", default=1024 * 1024 * 1024)
#: Quota of the output sandboxes of a user's jobs that are not deleted, counted for each job; 0: no limit. Further
#: outputs are refused, and the jobs say so.
WMS_OUTPUT_QUOTA_BYTES = env.int("WMS_OUTPUT_QUOTA_BYTES", default=20 * 1024 * 1024 * 1024)
#: Quota of all sandboxes and outputs of a VO's users; 0: no limit. Uploaded sandboxes count in the VO of their owner's
#: default group.
WMS_VO_QUOTA_BYTES = env.int("WMS_VO_QUOTA_BYTES", default=200 * 1024 * 1024 * 1024)
#: Time after its upload for which a sandbox without jobs, or with deleted jobs only, is kept; it is removed within as
#: long again.
WMS_SANDBOX_GRACE_S = env.int("WMS_SANDBOX_GRACE_S", default=24 * 3600)
#: Least free space, in MiB, on the disk of the sandbox store; uploads below it are refused (503 `no_room`), whoever
#: sends them: a full disk stops the database beside it. The quotas should be met first.
WMS_SANDBOX_MIN_FREE_MB = env.int("WMS_SANDBOX_MIN_FREE_MB", default=1024)
#: Largest standard output, and standard error, of a payload, which is ended beyond it: only the end is kept, and nobody
#: reads as much. 0: no limit.
WMS_STREAM_MAX_MB = env.int("WMS_STREAM_MAX_MB", default=1000)
#: Least free space on the disk of a pilot, below which a payload is ended whatever it requested: others there, and the
#: pilot itself, need some. A node with less takes no jobs.
WMS_MIN_FREE_DISK_MB = env.int("WMS_MIN_FREE_DISK_MB", default=500)
#: Largest use of disk by a payload of a job that requested none (`disk_mb: 0`), which is ended beyond it. 0: no limit.
WMS_UNASKED_DISK_MB = env.int("WMS_UNASKED_DISK_MB", default=1000)
#: Most processes of a payload at once, for each processor that its job requires; it is ended beyond them. Where the
#: kernel can count those of one payload, it has at most ten times as many processes and threads. 0: no limit.
WMS_PAYLOAD_PROCESSES_PER_CORE = env.int("WMS_PAYLOAD_PROCESSES_PER_CORE", default=300)
#: Longest window of the stall rule that jobs may request, unless their VO sets one; 0: any, also none.
WMS_MAX_STALLED_S = env.int("WMS_MAX_STALLED_S", default=24 * 3600)
#: Requests of one pilot, job or site per minute to each web process; 0: no limit. Far more than honest ones send, and
#: fewer than would keep the process from others.
WMS_MAX_MACHINE_REQUESTS_PER_MINUTE = env.int("WMS_MAX_MACHINE_REQUESTS_PER_MINUTE", default=6000)
#: Requests of one user to the API per minute, over all tokens and sessions; 0: no limit.
WMS_MAX_REQUESTS_PER_MINUTE = env.int("WMS_MAX_REQUESTS_PER_MINUTE", default=6000)
#: Submissions of one user per minute, the portal's included; 0: no limit. One may have 10,000 jobs.
WMS_MAX_SUBMISSIONS_PER_MINUTE = env.int("WMS_MAX_SUBMISSIONS_PER_MINUTE", default=1200)
#: Uploaded sandboxes of one user per minute; 0: no limit.
WMS_MAX_SANDBOXES_PER_MINUTE = env.int("WMS_MAX_SANDBOXES_PER_MINUTE", default=600)
#: Concurrent submissions of one user; 0: no limit.
WMS_MAX_SUBMISSIONS_IN_FLIGHT = env.int("WMS_MAX_SUBMISSIONS_IN_FLIGHT", default=2)
#: Jobs of one user that wait, are held or are being checked, in groups without the property PRODUCTION; 0: no limit.
WMS_MAX_WAITING_JOBS_PER_USER = env.int("WMS_MAX_WAITING_JOBS_PER_USER", default=50_000)
#: Jobs that one user may submit in a day (UTC), killed and deleted ones included, in groups without the property
#: PRODUCTION; 0: no limit. More than may wait at a time.
WMS_MAX_JOBS_PER_DAY = env.int("WMS_MAX_JOBS_PER_DAY", default=100_000)
#: Bytes of the descriptions that one user may store in a day (UTC), those of edited jobs included; 0: no limit. Jobs
#: that differ in nothing but their names share one.
WMS_MAX_DESCRIPTION_BYTES_PER_DAY = env.int("WMS_MAX_DESCRIPTION_BYTES_PER_DAY", default=1024 * 1024 * 1024)
#: Changes of one user per minute that make no job: each job that is held, released or edited, each token, and each form
#: that is sent in the portal; 0: no limit. To kill, reschedule or delete a job does not count: that is possible only a
#: few times for each job. Operators are not limited.
WMS_MAX_CHANGES_PER_MINUTE = env.int("WMS_MAX_CHANGES_PER_MINUTE", default=1000)
#: Reports of one lease that change the minor or application status of its job, but not its status; 0: no limit. Further
#: ones are refused; heartbeats and reports of the status are not.
WMS_MAX_CHANGES_PER_LEASE = env.int("WMS_MAX_CHANGES_PER_LEASE", default=100)
#: CPU time of a job that counts, as a factor of its time under lease by the database's clock times its processors, and
#: wall-clock time, as a factor of its time under lease. What a pilot reports beyond it is cut, and noted at the pilot.
WMS_USAGE_FACTOR = env.float("WMS_USAGE_FACTOR", default=1.5)
#: Valid tokens of one user; 0: no limit. More are refused until some are revoked or expire.
WMS_MAX_TOKENS_PER_USER = env.int("WMS_MAX_TOKENS_PER_USER", default=200)
#: Sessions of one user in the portal; 0: no limit. A further log-in ends the one that was begun first.
WMS_MAX_SESSIONS_PER_USER = env.int("WMS_MAX_SESSIONS_PER_USER", default=50)
#: Days for which the security log is kept, but for changes of the configuration (WMS_KEEP_ADMIN_LOG_DAYS): as long as
#: an incident may take to be noticed.
WMS_SECURITY_LOG_DAYS = env.int("WMS_SECURITY_LOG_DAYS", default=365)
#: Where downtimes announced in GOCDB are read every 15 minutes: an https address of its method get_downtime, with a
#: window of time in the query, or the absolute path of a file; empty: nowhere.
WMS_GOCDB_URL = env.str("WMS_GOCDB_URL", default="")
#: Largest unpacked size of an archive on a worker node.
WMS_SANDBOX_MAX_UNPACKED_BYTES = env.int("WMS_SANDBOX_MAX_UNPACKED_BYTES", default=200 * 1024 * 1024)
#: Time for which an unused SubmitPool is kept, as it may be needed again "soon after" (RFC 7 §3).
WMS_SUBMIT_POOL_GRACE_S = env.int("WMS_SUBMIT_POOL_GRACE_S", default=3600)

# ---- Mail ------------------------------------------------------------------------------------------------------------

#: Mail server for messages about submissions that have ended: smtp://user:password@host:25, smtp+tls:// (STARTTLS, port
#: 587) or smtp+ssl:// (port 465). Empty: no mail is sent.
WMS_EMAIL_URL = env.str("WMS_EMAIL_URL", default="")
#: Sender of these messages, such as wms@example.org; required with WMS_EMAIL_URL.
WMS_EMAIL_FROM = env.str("WMS_EMAIL_FROM", default="")
_MAIL = env.email_url_config(WMS_EMAIL_URL or "dummymail://")
EMAIL_BACKEND = _MAIL["EMAIL_BACKEND"]
EMAIL_HOST = _MAIL["EMAIL_HOST"] or "localhost"
EMAIL_PORT = _MAIL["EMAIL_PORT"] or 25
EMAIL_HOST_USER = _MAIL["EMAIL_HOST_USER"] or ""
EMAIL_HOST_PASSWORD = _MAIL["EMAIL_HOST_PASSWORD"] or ""
EMAIL_USE_TLS = _MAIL.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = _MAIL.get("EMAIL_USE_SSL", False)
# One that does not answer must not hold up the other background work.
EMAIL_TIMEOUT = 10

# ---- Alarms ---------------------------------------------------------------------------------------------------------

#: Command that `wms-server up` runs when a part of the system ends or hangs, with a sentence about it as last argument,
#: such as `logger -p daemon.err`. Read from the environment only. Empty: none.
WMS_ALARM_COMMAND = env.str("WMS_ALARM_COMMAND", default="")
#: Addresses, separated by commas, to which the same sentences are mailed; needs WMS_EMAIL_URL.
WMS_ALARM_EMAIL = env.list("WMS_ALARM_EMAIL", default=[])
#: Longest run of a background task; a worker with one that runs for longer is ended and started again.
WMS_TASK_MOST_S = env.int("WMS_TASK_MOST_S", default=1800)

# ---- Metrics --------------------------------------------------------------------------------------------------------

#: Bearer token for `/metrics`, at least 20 characters; empty: the address does not exist. `up` makes one in the file
#: `metrics_token` of the data directory unless this is set.
WMS_METRICS_TOKEN = env.str("WMS_METRICS_TOKEN", default="")
#: Addresses and networks, separated by commas, from which `/metrics` may be read besides this machine's loopback, such
#: as 192.0.2.7; "unix": also at a Unix socket.
WMS_METRICS_FROM = env.list("WMS_METRICS_FROM", default=[])

# ---- Files -----------------------------------------------------------------------------------------------------------

#: Directory of embedded servers, sandboxes and logs.
WMS_DATA_DIR = Path(env.str("WMS_DATA_DIR", default=str(_WORK_DIR / "var")))
#: Directory of the mark of the highest ids, beyond which a restored database goes on: best on another volume than the
#: database. Each machine that does background work has its own.
WMS_ID_MARK_DIR = env.str("WMS_ID_MARK_DIR", default=str(WMS_DATA_DIR / "highest_ids"))
#: Files and directories, separated by commas, that payloads on the server's own machine find empty, as they do
#: WMS_DATA_DIR; where the machine has namespaces. `demo` names the file to which its output goes.
WMS_HIDDEN_FROM_PAYLOADS = env.list("WMS_HIDDEN_FROM_PAYLOADS", default=[])
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "wms.kernel.compression.CompressedFiles",
        # Public; a proxy under another account may serve them.
        "OPTIONS": {"file_permissions_mode": 0o644, "directory_permissions_mode": 0o755},
    },
    "sandboxes": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {
            # Input and output sandboxes; every web process must see the same directory.
            "location": env.str("WMS_SANDBOX_DIR", default=str(WMS_DATA_DIR / "sandboxes")),
        },
    },
}
# Uploads are private whatever the umask; Django's temporary files are 0600 by themselves.
FILE_UPLOAD_PERMISSIONS = 0o600
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o700
STATIC_URL = "/static/"
#: Directory of style sheets and scripts from collectstatic; none when embedded, as they are served from the packages.
STATIC_ROOT = env.str("WMS_STATIC_ROOT", default=None if WMS_EMBEDDED else str(WMS_DATA_DIR / "static"))
# collectstatic takes 12 s.
WHITENOISE_USE_FINDERS = WMS_EMBEDDED
WHITENOISE_AUTOREFRESH = False

# ---- Django ----------------------------------------------------------------------------------------------------------

ROOT_URLCONF = "wms.urls"
WSGI_APPLICATION = "wms.wsgi.application"
INSTALLED_APPS = [
    # wms.urls imports its pages: processes that show none, such as Celery's, start in two thirds of the time.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "wms.apps.ProjectConfig",
    "wms.kernel",
    "wms.accounts",
    "resources",
    "taskqueues",
    "wms.jobs",
    "pilots",
    "matching",
    "wms.operations",
    "wms.portal",
    "wms.configuration",
    "wms.simulation",
    "wms.stack",
    "wms.demo",
]
MIDDLEWARE = [
    "wms.kernel.access_log.AccessLog",
    "wms.kernel.middleware.CountedRequests",
    "wms.kernel.middleware.PrivateAnswers",
    "wms.kernel.middleware.TrustedTransport",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "wms.kernel.middleware.KnownDatabase",
    "wms.accounts.middleware.SecurityLog",
    "wms.kernel.middleware.PageRules",
    "wms.kernel.middleware.StrictRequests",
    "wms.kernel.compression.Compression",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "wms.kernel.middleware.PageSessions",
    "django.middleware.common.CommonMiddleware",
    "wms.kernel.middleware.PageCharacters",
    "django.middleware.csrf.CsrfViewMiddleware",
    "wms.kernel.middleware.PageUsers",
    "wms.kernel.middleware.PageMessages",
    "allauth.account.middleware.AccountMiddleware",
    "wms.accounts.middleware.ChangeRate",
    "wms.accounts.middleware.RequiredSecondFactor",
    "wms.accounts.middleware.WaitingRoom",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates" if _IN_REPOSITORY else BASE_DIR / "wms" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "portal:log-in"
LOGIN_REDIRECT_URL = "portal:home"
LOGOUT_REDIRECT_URL = "portal:log-in"
# Of allauth only second factors, log-ins by OpenID Connect (ADR 67), and its stages between a right password and the
# end of a log-in are used (wms.portal has the pages); there is no sign-up, and nothing is sent by e-mail.
ACCOUNT_ADAPTER = "wms.accounts.adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_FORMS = {"reauthenticate": "wms.portal.forms.log_in.PasswordAgainForm"}
# allauth's limits count in a cache, and allow everything without it; ours count in the database (ADR 41).
ACCOUNT_RATE_LIMITS = False
MFA_RATE_LIMITS = False
SOCIALACCOUNT_ADAPTER = "wms.accounts.adapters.ProviderAdapter"
# An equal e-mail address is no proof of identity: anybody may have it at some provider.
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_REAUTHENTICATION_REQUIRED = True
MFA_ADAPTER = "wms.accounts.adapters.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_FORMS = {
    "authenticate": "wms.portal.forms.log_in.CodeForm",
    "reauthenticate": "wms.portal.forms.log_in.CodeAgainForm",
}
MFA_TOTP_ISSUER = "Workload management"
MFA_TOTP_TOLERANCE = 1  # clocks of telephones are up to half a minute wrong
MFA_ALLOW_UNVERIFIED_EMAIL = True
# All content comes from this server, and pages hold no inline script, style or frame.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "object-src": ["'none'"],
    },
}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
# Sortable, with seconds: the order of events matters more than the day.
FORMAT_MODULE_PATH = "wms.kernel.formats"
# Largest body of any request, in bytes: a submission of 10,000 long descriptions is split into several.
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("WMS_MAX_BODY_BYTES", default=64 * 1024 * 1024)

# ---- REST ------------------------------------------------------------------------------------------------------------

#: Answer pilot agents of the version before /api/v1/ at the addresses that they call (ADR 52). For the time after an
#: upgrade: until pilots that were submitted before it have ended, and sites start theirs by /api/v1/pilots/pilot.sh.
WMS_OLD_AGENT_ADDRESSES = env.bool("WMS_OLD_AGENT_ADDRESSES", default=True)
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "wms.accounts.api.authentication.UserTokenAuthentication",
        "pilots.api.authentication.PilotTokenAuthentication",
        "pilots.api.authentication.PilotSecretAuthentication",
        "matching.api.authentication.JobTokenAuthentication",
        "resources.api.authentication.SiteTokenAuthentication",
        "wms.accounts.api.authentication.PortalSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["wms.accounts.api.permissions.IsUser"],
    "DEFAULT_THROTTLE_CLASSES": ["wms.kernel.rest.throttling.RequestRate"],
    "DEFAULT_FILTER_BACKENDS": ["wms.kernel.rest.filters.FilterBackend"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["wms.kernel.rest.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "wms.kernel.rest.answer_error",
    # OPTIONS and ?format= are not part of the API: 405, and an unknown parameter.
    "DEFAULT_METADATA_CLASS": None,
    "URL_FORMAT_OVERRIDE": None,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Workload management system",
    "DESCRIPTION": "Jobs, task queues, pilots and the matching of the one to the other.",
    "VERSION": __version__,
    "LICENSE": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
    "SERVERS": [{"url": "/"}],
    # Not 3.0, whose `nullable` is not JSON Schema, and which programs read differently.
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # Deep links would be links within buttons, which screen readers and keyboards cannot tell apart.
    "SWAGGER_UI_SETTINGS": {"deepLinking": False},
    "COMPONENT_SPLIT_REQUEST": True,
    # The groups of operations, by wms.kernel.rest.audience.
    "TAGS": [
        {"name": "Users", "description": "Jobs, their files, and what a user may see of queues, groups and sites."},
        {"name": "Managers", "description": "For managers of a VO and operators."},
        {"name": "Pilots", "description": "The calls of pilots and of the jobs that they run."},
        {"name": "Sites", "description": "The calls of a site's gateway."},
    ],
    "PREPROCESSING_HOOKS": ["wms.kernel.rest.documentation.without_old_addresses"],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "wms.kernel.rest.documentation.with_plain_any",
        "wms.kernel.rest.documentation.with_refusal_of_clients",
        "wms.kernel.rest.examples.with_examples",
    ],
}

# ---- Logs ------------------------------------------------------------------------------------------------------------

#: DEBUG, INFO, WARNING or ERROR. Unless it is set, commands at a terminal leave out changes of the security log.
WMS_LOG_LEVEL = env.str("WMS_LOG_LEVEL", default="INFO")
#: Form of the lines: `text` for people, with facts as `key=value`, or `json` for programs.
WMS_LOG_FORMAT = env.str("WMS_LOG_FORMAT", default="text")
#: Whether each answer of the web server is a line of the log.
WMS_ACCESS_LOG = env.bool("WMS_ACCESS_LOG", default=False)

if WMS_LOG_FORMAT not in {"text", "json"}:
    raise ImproperlyConfigured(f'WMS_LOG_FORMAT is "{WMS_LOG_FORMAT}"; set it to text or json.')
_OURS = ["wms", "resources", "taskqueues", "pilots", "matching"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {
            "()": "wms.kernel.log_lines.LineWithFacts",
            "fmt": "%(asctime)s %(levelname)s %(name)s %(message)s",
            "ours": _OURS,
        },
        "json": {"()": "wms.kernel.log_lines.JsonLine", "ours": _OURS},
    },
    "filters": {"at_terminal": {"()": "wms.kernel.log_lines.ShownAtTerminal"}},
    "handlers": {
        "console": {
            "class": "wms.kernel.log_stream.OnceAMinute",
            "formatter": WMS_LOG_FORMAT,
            "level": WMS_LOG_LEVEL,
            "filters": [] if "WMS_LOG_LEVEL" in os.environ else ["at_terminal"],
        }
    },
    # Celery says twice of each task that it runs.
    "loggers": {"celery": {"level": "WARNING"}, "kombu": {"level": "WARNING"}},
    "root": {"handlers": ["console"], "level": WMS_LOG_LEVEL},
}
