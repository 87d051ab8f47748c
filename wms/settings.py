"""Settings: one module; whatever differs between machines is a ``WMS_…`` environment variable (STYLE 38)."""

import os
from pathlib import Path

import environ

from wms.stack.directory import environment_of_running

# Before anything imports numpy: its linear algebra, of which nothing is used here, would start a thread for each core
# in every process, and a signal that a process has blocked to wait for it would be delivered to one of those.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
# A command in a second terminal finds the servers of the system that `up` runs here. Kept out of os.environ, by which
# `up` itself decides what to embed.
env.ENVIRON = {
    **environment_of_running(Path(os.environ.get("WMS_DATA_DIR", BASE_DIR / "var"))),
    **os.environ,
}

# ---- Machine and security --------------------------------------------------------------------------------------------

#: True lets this process start with development defaults; `up` on embedded servers sets it, production never does.
WMS_EMBEDDED = env.bool("WMS_EMBEDDED", default=False)
#: Pages of errors show settings and code; for development on one's own machine only.
DEBUG = env.bool("WMS_DEBUG", default=False)
#: Known to everybody, so `check --deploy` and every production start refuse it (wms.kernel.checks).
INSECURE_SECRET_KEY = "insecure-default-key-for-development-only-do-not-use-in-production"  # noqa: S105 - meant to be seen
#: Signs sessions and the tokens of pilots and jobs: at least 50 random characters, the same on every machine.
SECRET_KEY = env.str("WMS_SECRET_KEY", default=INSECURE_SECRET_KEY)
#: Previous keys, separated by commas, still accepted; a weak one is refused as a weak WMS_SECRET_KEY is. Keep one here
#: for WMS_JOB_TOKEN_S, and until `manage.py rotate_key` has re-encrypted what is stored.
SECRET_KEY_FALLBACKS = env.list("WMS_SECRET_KEY_FALLBACKS", default=[])
#: Names under which clients and browsers reach the server; requests for other names are refused.
ALLOWED_HOSTS = env.list("WMS_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
#: Origins such as https://wms.example.org of which the portal accepts forms, where a proxy speaks TLS in front of it.
CSRF_TRUSTED_ORIGINS = env.list("WMS_CSRF_TRUSTED_ORIGINS", default=[])
#: Addresses and networks of the proxies before this server, separated by commas, such as 10.0.0.5,2001:db8::/64; "unix"
#: trusts who connects to a Unix socket. Only from them X-Forwarded-For says who the client is.
WMS_TRUSTED_PROXIES = env.list("WMS_TRUSTED_PROXIES", default=[])
#: Everything comes over HTTPS: browsers are redirected to it, requests below /api/ that do not are refused, and cookies
#: are sent over it only. TLS is spoken by a proxy of WMS_TRUSTED_PROXIES, which says so in X-Forwarded-Proto.
WMS_HTTPS = env.bool("WMS_HTTPS", default=not WMS_EMBEDDED)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = WMS_HTTPS
# Browsers take a name with this prefix over HTTPS from this very host only, not from another one of its domain.
SESSION_COOKIE_NAME = "__Host-wms_session" if WMS_HTTPS else "wms_session"
CSRF_COOKIE_NAME = "__Host-wms_csrf" if WMS_HTTPS else "wms_csrf"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")  # what others send is dropped (TrustedTransport)
SECURE_SSL_REDIRECT = WMS_HTTPS
# Machines would follow a redirect with a body and a token that were already sent in clear, or with GET; those that
# watch the health of this process ask it directly.
SECURE_REDIRECT_EXEMPT = [r"^api/", r"^(healthz|readyz)$"]
#: So long browsers that were here once ask by HTTPS only, with WMS_HTTPS; 0: they are not told to.
WMS_HSTS_S = env.int("WMS_HSTS_S", default=365 * 24 * 3600)
SECURE_HSTS_SECONDS = WMS_HSTS_S if WMS_HTTPS else 0
# Whether all hosts below this one speak HTTPS, and whether its whole domain is to be built into browsers, is not ours
# to say.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

#: Who must have a second factor, and comes to no other page until it is set up: none, operators, or staff (who comes to
#: the administration, operators included).
WMS_REQUIRE_SECOND_FACTOR = env.str("WMS_REQUIRE_SECOND_FACTOR", default="none")

# ---- Servers ---------------------------------------------------------------------------------------------------------

# PostgreSQL 15 or newer: postgres://user:password@host:5432/name.
_DATABASE = env.db_url("WMS_DATABASE_URL", default="postgres://postgres@localhost:5432/wms")
DATABASES = {
    "default": {
        **_DATABASE,
        # Persistent connections: opening one for each request costs 12 times as much (STACK §1).
        "CONN_MAX_AGE": env.int("WMS_DATABASE_CONNECTION_MAX_AGE_S", default=600),
        "CONN_HEALTH_CHECKS": True,
        # A statement that is sent for the fifth time in the same text is planned once for all; those of the ORM carry
        # their values in the text and never are, the claim says so itself.
        "OPTIONS": {**_DATABASE.get("OPTIONS", {}), "prepare_threshold": 5},
    }
}
#: Redis or Valkey, the broker of the background work: redis://host:6379/0, or redis+socket:///path for a Unix socket.
WMS_REDIS_URL = env.str("WMS_REDIS_URL", default="redis://localhost:6379/0")

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    # How often users ask. The time-outs are short: a request waits for them, once in a while, where Redis is dead.
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
# Of its own, so that dead sites never delay expiry (DESIGN §4.7).
CELERY_TASK_ROUTES = {"pilots.serve_ce": {"queue": "sites"}}
# Longer than the longest task: a task that outlives it is run a second time (STACK §3).
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

#: Seconds in which the head of a request must have come; so long an idle connection is kept, too.
WMS_WEB_HEAD_S = env.float("WMS_WEB_HEAD_S", default=5.0)
#: Seconds that a body may take, and as many more as what has come of it takes at WMS_WEB_BODY_BYTES_PER_S. A client has
#: as long to take its answer.
WMS_WEB_BODY_S = env.float("WMS_WEB_BODY_S", default=10.0)
#: The least rate of a body or an answer after WMS_WEB_BODY_S, in bytes per second: a sandbox of 10 MB has 11 minutes.
WMS_WEB_BODY_BYTES_PER_S = env.int("WMS_WEB_BODY_BYTES_PER_S", default=16 * 1024)
#: A longer body is read only when a token or a session has told who sends it.
WMS_WEB_UNKNOWN_BODY_BYTES = env.int("WMS_WEB_UNKNOWN_BODY_BYTES", default=8 * 1024)
#: Bodies of unknown senders that a process waits for at once; of more the oldest is dropped, for true ones are there
#: within a round trip.
WMS_WEB_INCOMPLETE_BODIES = env.int("WMS_WEB_INCOMPLETE_BODIES", default=256)
#: Bodies longer than WMS_WEB_UNKNOWN_BODY_BYTES that a process takes at once of one user, pilot, job or site.
WMS_WEB_LONG_BODIES_OF_ONE_CALLER = env.int("WMS_WEB_LONG_BODIES_OF_ONE_CALLER", default=8)
#: Bytes per second in which a process takes the bodies over 256 KiB of one user, pilot, job or site, all together: what
#: comes as fast as a network may take the time of everybody else.
WMS_WEB_CALLER_BYTES_PER_S = env.int("WMS_WEB_CALLER_BYTES_PER_S", default=4 * 1024 * 1024)
#: Requests with a body over 256 KiB that a process answers at once, in threads beside those of all others.
WMS_WEB_LARGE_BODIES_AT_ONCE = env.int("WMS_WEB_LARGE_BODIES_AT_ONCE", default=2)
#: A process of the web server with more memory than this, in MiB, is replaced; idle it has about 180.
WMS_WEB_MAX_RSS_MB = env.int("WMS_WEB_MAX_RSS_MB", default=400)

# ---- Rules that a site may tune --------------------------------------------------------------------------------------

#: TQM: "restricted to 4 different values"; a job's CPU time is rounded up to the next one.
WMS_CPU_SEGMENTS_S = env.list("WMS_CPU_SEGMENTS_S", cast=int, default=[500, 5000, 50000, 300000])
#: Memory is rounded up to this step, so that 1999 MB and 2000 MB share a task queue (DESIGN §3.2).
WMS_MEMORY_STEP_MB = env.int("WMS_MEMORY_STEP_MB", default=500)
#: So is wall-clock time: batch queues have limits of whole hours, and people ask for parts of one.
WMS_WALL_TIME_STEP_S = env.int("WMS_WALL_TIME_STEP_S", default=600)
#: So is disk.
WMS_DISK_STEP_MB = env.int("WMS_DISK_STEP_MB", default=1000)
#: DESIGN §3.5: a lease lasts this long until the first report of the pilot …
WMS_LEASE_FIRST_S = env.int("WMS_LEASE_FIRST_S", default=300)
#: … and this long after each report.
WMS_LEASE_S = env.int("WMS_LEASE_S", default=1800)
#: The server ends a lease this long after its end, the pilot this long before it: so at most one copy runs.
WMS_LEASE_GRACE_S = env.int("WMS_LEASE_GRACE_S", default=60)
#: How often a pilot reports; five in a row missed make its job Stalled (DESIGN §3.5).
WMS_HEARTBEAT_S = env.int("WMS_HEARTBEAT_S", default=30)
#: A job goes back to its queue at most this often (DIRAC's MaxRescheduling).
WMS_MAX_RESCHEDULES = env.int("WMS_MAX_RESCHEDULES", default=3)
#: A job fails when so many pilots, or pilots' processes for it, died while its payload ran: it may be what kills them,
#: and their other jobs with them. Preemption, drains, revocations, ends that the batch system reports as its own doing,
#: and silence while nobody else of the queue was heard, do not count; nor does any, with 0.
WMS_MAX_PILOT_DEATHS = env.int("WMS_MAX_PILOT_DEATHS", default=2)
#: A pilot at a place where no queue is configured offers at most so many processors, and holds jobs of so many at once:
#: as many as the largest nodes have. At a queue, its slot is the bound (ADR 49).
WMS_MAX_PILOT_PROCESSORS = env.int("WMS_MAX_PILOT_PROCESSORS", default=512)
#: A job that a pilot gave back, or whose pilot the computing element ended, waits so long before anybody gets it: a
#: pilot asks again within seconds, and would use up all attempts at once. Each reschedule doubles it; 0: no delay.
WMS_RESCHEDULE_DELAY_S = env.int("WMS_RESCHEDULE_DELAY_S", default=60)
#: The delay grows to this at most: an outage of an hour is survived without giving a whole day away.
WMS_RESCHEDULE_DELAY_MAX_S = env.int("WMS_RESCHEDULE_DELAY_MAX_S", default=3600)
#: For so long after the delay the places that gave it back do not get it while another queue fits: time for a cycle of
#: the directors and for a pilot to start elsewhere. 0: no place is avoided.
WMS_RESCHEDULE_ELSEWHERE_S = env.int("WMS_RESCHEDULE_ELSEWHERE_S", default=1800)
#: DESIGN §4.2: a match that has something to give may overlook what happened in so many seconds; 0: nothing at all.
WMS_TASK_QUEUE_INDEX_MAX_AGE_S = env.float("WMS_TASK_QUEUE_INDEX_MAX_AGE_S", default=1.0)
#: What a pilot that got nothing is told to wait before it asks again, when few do; of many each waits longer.
WMS_MATCH_RETRY_AFTER_S = env.int("WMS_MATCH_RETRY_AFTER_S", default=10)
#: DESIGN §3.7: a pilot's token, renewed by its reports.
WMS_PILOT_TOKEN_S = env.int("WMS_PILOT_TOKEN_S", default=3600)
#: DESIGN §3.7: the secret that a director hands over to a pilot, as long as a pilot may wait in a batch queue.
WMS_PILOT_SECRET_S = env.int("WMS_PILOT_SECRET_S", default=3 * 24 * 3600)
#: A site's registration token opens nothing so long after `manage.py site_token` issued it. One that the
#: configuration file names is valid as long as it is named there.
WMS_REGISTRATION_TOKEN_S = env.int("WMS_REGISTRATION_TOKEN_S", default=365 * 24 * 3600)
#: DESIGN §3.7: a pilot not started so long after its submission is stalled: it no longer counts, and is killed.
WMS_PILOT_START_S = env.int("WMS_PILOT_START_S", default=6 * 3600)
#: After a pilot that did not start within WMS_PILOT_START_S the next one for that batch queue waits so long, and twice
#: as long after each further one: a queue that starts no pilots is full or broken, and will hardly start the next.
WMS_STALL_PAUSE_S = env.int("WMS_STALL_PAUSE_S", default=600)
#: The longest such pause: no longer than one pilot waits by itself.
WMS_STALL_PAUSE_MAX_S = env.int("WMS_STALL_PAUSE_MAX_S", default=6 * 3600)
#: A pilot that has started and is silent for so long is lost; its lease would be over by then too.
WMS_PILOT_LOST_S = env.int("WMS_PILOT_LOST_S", default=1800)
#: The log of a pilot is kept so long after the last line was added.
WMS_PILOT_LOG_S = env.int("WMS_PILOT_LOG_S", default=30 * 24 * 3600)
#: A host is a black hole when so many jobs within an hour, most of what it had, failed fast that do well elsewhere; 0:
#: none is looked for.
WMS_BLACK_HOLE_FAILURES = env.int("WMS_BLACK_HOLE_FAILURES", default=10)
#: Fast is so long after the match: software that is missing, or a full disk, ends a payload within seconds.
WMS_BLACK_HOLE_FAST_S = env.int("WMS_BLACK_HOLE_FAST_S", default=120)
#: How often a director looks for what waits and sends pilots; `up` asks for more (PIL §2.3: "work in cycles").
WMS_DIRECTOR_CYCLE_S = env.float("WMS_DIRECTOR_CYCLE_S", default=60.0)
#: What carries pilots to a computing element, by its type; a further one is a file and a line here.
WMS_BACKENDS = {
    "local": "pilots.backends.local.LocalBackend",
    "slurm": "pilots.backends.slurm.SlurmBackend",
    "ssh": "pilots.backends.ssh.SSHBackend",
    "htcondor": "pilots.backends.htcondor.HTCondorBackend",
}
#: Where users and pilots reach the web server; `up` sets its own. A production start takes https:// only, or, with
#: WMS_HTTPS=false, this machine.
WMS_SERVER_URL = env.str("WMS_SERVER_URL", default="http://127.0.0.1:8000")
#: The token of one lease, renewed by its reports; it outlives the lease, so that a late report hears why it is refused.
WMS_JOB_TOKEN_S = env.int("WMS_JOB_TOKEN_S", default=86400)
#: A user's bearer token.
WMS_USER_TOKEN_S = env.int("WMS_USER_TOKEN_S", default=30 * 24 * 3600)
#: A one-time link by which a user sets a password; whoever has it until then can act as that user.
WMS_PASSWORD_LINK_S = env.int("WMS_PASSWORD_LINK_S", default=3 * 24 * 3600)
#: An invitation into a group, which only whoever has the name that it was sent to can accept.
WMS_INVITATION_S = env.int("WMS_INVITATION_S", default=30 * 24 * 3600)
#: A sandbox is for scripts and small files; data belong on storage elements.
WMS_SANDBOX_MAX_BYTES = env.int("WMS_SANDBOX_MAX_BYTES", default=10 * 1024 * 1024)
#: What a user may have uploaded as sandboxes and not deleted with its jobs, each content once; outputs of jobs do not
#: count.
WMS_SANDBOX_QUOTA_BYTES = env.int("WMS_SANDBOX_QUOTA_BYTES", default=1024 * 1024 * 1024)
#: A sandbox that no job names, or only deleted jobs, is kept so long after its upload, and is removed within as long
#: again.
WMS_SANDBOX_GRACE_S = env.int("WMS_SANDBOX_GRACE_S", default=24 * 3600)
#: A sandbox that would leave less free on the disk of the store, in MiB, is not taken (503 `no_room`): outputs of jobs
#: are in nobody's quota, and a full disk stops the database beside it.
WMS_SANDBOX_MIN_FREE_MB = env.int("WMS_SANDBOX_MIN_FREE_MB", default=1024)
#: A payload that writes more to standard output, or to standard error, is ended: nobody reads so much, and only its end
#: could be kept. 0: no limit.
WMS_STREAM_MAX_MB = env.int("WMS_STREAM_MAX_MB", default=1000)
#: A payload that leaves less free on the disk where its pilot works is ended, whatever it asked for: all others there,
#: and the pilot itself, need some. A node with less takes no jobs.
WMS_MIN_FREE_DISK_MB = env.int("WMS_MIN_FREE_DISK_MB", default=500)
#: A payload of a job that asked for no disk (`disk_mb: 0`) is ended when it has written more. 0: no limit.
WMS_UNASKED_DISK_MB = env.int("WMS_UNASKED_DISK_MB", default=1000)
#: Longest window of the stall rule that jobs may ask for, where their VO says nothing; 0: any, also none.
WMS_MAX_STALLED_S = env.int("WMS_MAX_STALLED_S", default=24 * 3600)
#: Requests to the API of one user, with all tokens and sessions together, in a minute; 0: any number. Pilots, jobs and
#: sites are not limited.
WMS_MAX_REQUESTS_PER_MINUTE = env.int("WMS_MAX_REQUESTS_PER_MINUTE", default=6000)
#: Submissions among them, and those of the portal; 0: any number. One may have 10,000 jobs.
WMS_MAX_SUBMISSIONS_PER_MINUTE = env.int("WMS_MAX_SUBMISSIONS_PER_MINUTE", default=1200)
#: Uploaded sandboxes among them; 0: any number.
WMS_MAX_SANDBOXES_PER_MINUTE = env.int("WMS_MAX_SANDBOXES_PER_MINUTE", default=600)
#: Submissions of one user that the server works on at a time; 0: any number.
WMS_MAX_SUBMISSIONS_IN_FLIGHT = env.int("WMS_MAX_SUBMISSIONS_IN_FLIGHT", default=2)
#: Jobs of one user that wait, are held or are being checked, in groups without the property PRODUCTION; 0: any number.
WMS_MAX_WAITING_JOBS_PER_USER = env.int("WMS_MAX_WAITING_JOBS_PER_USER", default=50_000)
#: What the security log has recorded is removed after so many days: as long as an incident may take to be noticed.
WMS_SECURITY_LOG_DAYS = env.int("WMS_SECURITY_LOG_DAYS", default=365)
#: An archive may not unpack to more than this on a worker node.
WMS_SANDBOX_MAX_UNPACKED_BYTES = env.int("WMS_SANDBOX_MAX_UNPACKED_BYTES", default=200 * 1024 * 1024)
#: RFC 7 §3: an unused SubmitPool may be needed again "soon after"; keep it this long.
WMS_SUBMIT_POOL_GRACE_S = env.int("WMS_SUBMIT_POOL_GRACE_S", default=3600)

# ---- Files -----------------------------------------------------------------------------------------------------------

#: Where embedded servers, sandboxes and logs live.
WMS_DATA_DIR = Path(env.str("WMS_DATA_DIR", default=str(BASE_DIR / "var")))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage",
        # Everybody may have them; a proxy under another account may serve them.
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
# What users upload is nobody else's on this machine, whatever the umask; its temporary files are 0600 by themselves.
FILE_UPLOAD_PERMISSIONS = 0o600
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o700
STATIC_URL = "/static/"
#: Where collectstatic puts style sheets and scripts; embedded none, for they come straight from the packages.
STATIC_ROOT = env.str("WMS_STATIC_ROOT", default=None if WMS_EMBEDDED else str(WMS_DATA_DIR / "static"))
# collectstatic takes 12 s.
WHITENOISE_USE_FINDERS = WMS_EMBEDDED
WHITENOISE_AUTOREFRESH = False

# ---- Django ----------------------------------------------------------------------------------------------------------

ROOT_URLCONF = "wms.urls"
WSGI_APPLICATION = "wms.wsgi.application"
INSTALLED_APPS = [
    "django.contrib.admin",
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
    "wms.portal",
    "wms.configuration",
    "wms.simulation",
    "wms.stack",
    "wms.demo",
]
MIDDLEWARE = [
    "wms.kernel.middleware.PrivateAnswers",
    "wms.kernel.middleware.TrustedTransport",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "wms.accounts.middleware.SecurityLog",
    "wms.kernel.middleware.PageRules",
    "wms.kernel.middleware.StrictRequests",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "wms.kernel.middleware.PageSessions",
    "django.middleware.common.CommonMiddleware",
    "wms.kernel.middleware.PageCharacters",
    "django.middleware.csrf.CsrfViewMiddleware",
    "wms.kernel.middleware.PageUsers",
    "wms.kernel.middleware.PageMessages",
    "allauth.account.middleware.AccountMiddleware",
    "wms.accounts.middleware.RequiredSecondFactor",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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
LOGIN_REDIRECT_URL = "portal:jobs"
LOGOUT_REDIRECT_URL = "portal:log-in"
# Of allauth only second factors are used, and its stages between a right password and the end of a log-in
# (wms.portal.second_factors names the pages); there is no sign-up, and nothing is sent by e-mail.
ACCOUNT_ADAPTER = "wms.accounts.adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_FORMS = {"reauthenticate": "wms.portal.forms.second_factors.PasswordAgainForm"}
# They count in a cache, and let everything through without it; ours count in the database (ADR 41).
ACCOUNT_RATE_LIMITS = False
MFA_RATE_LIMITS = False
MFA_ADAPTER = "wms.accounts.adapters.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_FORMS = {
    "authenticate": "wms.portal.forms.second_factors.CodeForm",
    "reauthenticate": "wms.portal.forms.second_factors.CodeAgainForm",
}
MFA_TOTP_ISSUER = "Workload management"
MFA_TOTP_TOLERANCE = 1  # clocks of telephones are half a minute wrong
MFA_ALLOW_UNVERIFIED_EMAIL = True
# Everything comes from this server, and nothing is written into a page: no inline script or style, no frame.
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
# Sortable, and with seconds: what happened first is asked more often than on which day.
DATETIME_FORMAT = "Y-m-d H:i:s"
DATE_FORMAT = "Y-m-d"
# 10,000 job descriptions of 64 kB would be more; such a request belongs in several.
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("WMS_MAX_BODY_BYTES", default=64 * 1024 * 1024)

# ---- REST ------------------------------------------------------------------------------------------------------------

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
    # OPTIONS and ?format= are no part of the contract: 405, and an unknown parameter.
    "DEFAULT_METADATA_CLASS": None,
    "URL_FORMAT_OVERRIDE": None,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Workload management system",
    "DESCRIPTION": "Jobs, task queues, pilots and the matching of the one to the other.",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
}

# ---- Logs ------------------------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "wms.kernel.log_lines.LineWithFacts",
            "fmt": "%(asctime)s %(levelname)s %(name)s %(message)s",
            "ours": ["wms", "resources", "taskqueues", "pilots", "matching"],
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    # DEBUG, INFO, WARNING or ERROR.
    "root": {"handlers": ["console"], "level": env.str("WMS_LOG_LEVEL", default="INFO")},
}
