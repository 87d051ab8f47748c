"""The table of the matrix: which callers may use which address. An address that is missing here is closed to everybody.

Each address that names an object is called with one of Alice's: her job, its pilot and site, her token, her VO; callers
differ by their relation to Alice. A new address, method, page or action of the admin, scope or way to authenticate
fails ``tests/architecture/test_matrix_completeness.py`` until it is here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from wms.accounts.domain import TokenScope

Names = frozenset[str]

# ---- callers ---------------------------------------------------------------------------------------------------------

#: Whom the server does not know: no credential, or one that is forged, expired or revoked, or of who is suspended.
NOBODY_KNOWN: Final = "anonymous"
#: Sent by the browser of who is known, and not by the person: what reads opens as for the person, the rest by rows.
UNWANTED: Final = "another site"
OWNER: Final = frozenset({"owner"})
#: In the owner's group, whose members share their jobs.
MATES: Final = frozenset({"group mate"})
#: In another group of the VO; staff may also see the first page of the admin, and nothing on it.
STAFF: Final = frozenset({"staff"})
COLLEAGUES: Final = frozenset({"colleague"}) | STAFF
MANAGER: Final = frozenset({"manager"})
#: Of the site of Alice's pilot, and a member of nothing.
SITE_ADMINISTRATOR: Final = frozenset({"site administrator"})
#: Of another VO.
OTHER_MANAGER: Final = frozenset({"manager of another VO"})
OUTSIDERS: Final = frozenset({"user of another VO"}) | OTHER_MANAGER
OPERATORS: Final = frozenset({"operator", "superuser"})

MANAGERS: Final = MANAGER | OPERATORS
OF_THE_JOB: Final = OWNER | MATES | MANAGERS
#: Who may see names of the VO.
OF_THE_VO: Final = OF_THE_JOB | COLLEAGUES
PEOPLE: Final = OF_THE_VO | OUTSIDERS | SITE_ADMINISTRATOR
#: Who may change Alice's site.
OF_THE_SITE: Final = MANAGERS | SITE_ADMINISTRATOR
OF_THE_ADMIN: Final = STAFF | OTHER_MANAGER | MANAGERS

PILOTS: Final = frozenset({"pilot", "other pilot", "pilot of another VO"})
#: By the token of the lease; after the pilot's end for some seconds, since what a payload did need not be done again.
JOBS: Final = frozenset({"job", "job of an ended pilot"})
#: Of the lease.
LEASE: Final = JOBS | {"pilot"}
REGISTERING: Final = frozenset({"secret", "registering site"})
MACHINES: Final = PILOTS | JOBS | REGISTERING | {"ended pilot", "advertising site"}

NOBODY: Final[Names] = frozenset()
EVERYBODY: Final = PEOPLE | MACHINES | {NOBODY_KNOWN}

# ---- addresses -------------------------------------------------------------------------------------------------------

#: By method and name of the address: for whom it opens. HEAD is as GET. Pages of people look at no token: who comes
#: with one is anonymous there.
OPENS: Final[Mapping[str, Names]] = MappingProxyType(
    {
        # No secret.
        "GET client-program": EVERYBODY,
        "GET pilot-agent": EVERYBODY,
        "GET pilot-script": EVERYBODY,
        "GET gateway-advertiser": EVERYBODY,
        "GET schema": EVERYBODY,
        "GET docs": EVERYBODY,
        "GET version": EVERYBODY,
        "GET error-list": EVERYBODY,
        "GET error-page": EVERYBODY,
        "GET healthz": EVERYBODY,
        "GET readyz": EVERYBODY,
        "GET metrics": NOBODY,  # by a token of its own
        # Log-in, log-out.
        "POST auth-token": EVERYBODY,  # for Alice's password
        "GET portal:log-in": EVERYBODY,
        "POST portal:log-in": EVERYBODY,
        "GET account_login": EVERYBODY,
        "POST account_login": EVERYBODY,
        "POST portal:log-out": EVERYBODY,
        # By OpenID Connect; the log-in of the device flow waits for its person.
        "GET auth-oidc": EVERYBODY,
        "POST auth-oidc-device": EVERYBODY,
        "POST auth-oidc-token": EVERYBODY,
        "POST portal:oidc-begin": EVERYBODY,
        "GET portal:oidc-callback": NOBODY,  # without a log-in that this browser has begun
        "POST portal:oidc-connect": PEOPLE,
        "POST portal:oidc-disconnect": OWNER,
        "GET portal:waiting": PEOPLE,  # who does not wait is led to the first page
        "GET portal:people-who-wait": MANAGERS | OTHER_MANAGER,
        "GET portal:people": MANAGERS | OTHER_MANAGER,  # those of the caller's VOs
        "GET portal:person": MANAGERS,
        "POST portal:person-suspension": MANAGERS,
        "POST portal:people-membership": MANAGERS | OTHER_MANAGER,  # a group of another VO is refused by a sentence
        "GET portal:changes": MANAGERS | OTHER_MANAGER,  # those of the caller's VOs
        "GET portal:changes-csv": MANAGERS | OTHER_MANAGER,
        "GET portal:change-revert": MANAGERS,
        "POST portal:change-revert": MANAGERS,
        "POST portal:person-admit": MANAGERS,  # to a group of the VO
        "POST portal:person-refuse": MANAGERS | OTHER_MANAGER,  # as the provider is for people of all VOs
        "GET mfa_authenticate": PEOPLE,  # who is logged in is led to the first page, everybody else to the log-in
        "POST mfa_authenticate": PEOPLE,
        # By a link that is none one is led to the page that says so.
        "GET portal:password-link": EVERYBODY,
        "POST portal:password-link": EVERYBODY | {UNWANTED},  # a refusal would write the link into the log
        "GET portal:password-by-link": NOBODY,
        "POST portal:password-by-link": NOBODY,
        # Of oneself.
        "GET auth-me": PEOPLE,
        "POST auth-revoke": PEOPLE,
        "GET auth-tokens": PEOPLE,
        "DELETE auth-token-revoke": OWNER | OPERATORS,
        "GET groups": PEOPLE,
        "GET portal:account": PEOPLE,
        "POST portal:account-mail": PEOPLE,
        "POST portal:group-default": OWNER | MATES,
        "GET portal:password": PEOPLE,
        "POST portal:password": PEOPLE,
        "GET portal:tokens": PEOPLE,
        "POST portal:tokens": PEOPLE,
        "POST portal:token-revoke": OWNER | OPERATORS,
        "GET portal:groups": PEOPLE,
        "GET portal:help": PEOPLE,
        "POST portal:group-leave": OWNER | MATES,
        "POST portal:invitation-accept": OWNER,
        "POST portal:invitation-decline": OWNER,
        # Second factors: of one's own, of which these callers have none yet.
        "GET account_reauthenticate": PEOPLE,
        "POST account_reauthenticate": PEOPLE,
        "GET mfa_reauthenticate": NOBODY,
        "POST mfa_reauthenticate": NOBODY,
        "GET mfa_reauthenticate_webauthn": NOBODY,
        "POST mfa_reauthenticate_webauthn": NOBODY,
        "GET mfa_index": PEOPLE,
        "GET mfa_activate_totp": PEOPLE,
        "POST mfa_activate_totp": PEOPLE,
        "GET mfa_deactivate_totp": NOBODY,
        "POST mfa_deactivate_totp": NOBODY,
        "GET mfa_view_recovery_codes": NOBODY,
        "GET mfa_generate_recovery_codes": PEOPLE,
        "POST mfa_generate_recovery_codes": PEOPLE,
        "GET mfa_add_webauthn": PEOPLE,
        "POST mfa_add_webauthn": PEOPLE,
        "GET mfa_remove_webauthn": NOBODY,  # the key in the address is of somebody who does not come here
        "POST mfa_remove_webauthn": NOBODY,
        # Jobs. Lists hold only what the caller may see.
        "GET jobs": PEOPLE,
        "POST jobs": PEOPLE,
        "GET jobs-summary": PEOPLE,
        "GET accounting": PEOPLE,
        "GET jobs-changes": PEOPLE,
        "GET jobs-failures": PEOPLE,
        "GET jobs-explain": PEOPLE,
        "POST jobs-rehearsal": PEOPLE,
        "POST jobs-yaml": PEOPLE,
        "GET submissions": PEOPLE,
        "GET submission": OF_THE_JOB,
        "GET pilots": PEOPLE,
        "POST jobs-bulk": PEOPLE,
        "POST jobs-retry": OWNER,
        "POST sandboxes": PEOPLE,
        "GET job": OF_THE_JOB,
        "PATCH job": OF_THE_JOB,
        "GET job-history": OF_THE_JOB,
        "GET job-peek": OF_THE_JOB,
        "GET job-explain": OF_THE_JOB,
        "GET job-output": OF_THE_JOB,
        "POST job-kill": OF_THE_JOB,
        "POST job-reschedule": OF_THE_JOB,
        "POST job-delete": OF_THE_JOB,
        "POST job-hold": OF_THE_JOB,
        "POST job-release": OF_THE_JOB,
        "GET portal:home": PEOPLE,
        "GET portal:jobs": PEOPLE,
        "GET portal:jobs-csv": PEOPLE,
        "GET portal:jobs-json": PEOPLE,
        "GET portal:failures": PEOPLE,
        "GET portal:job": OF_THE_JOB,
        "GET portal:job-file": OF_THE_JOB,
        "GET portal:job-input": OF_THE_JOB,
        "GET portal:job-input-file": OF_THE_JOB,
        "GET portal:submit": PEOPLE,
        "POST portal:submit": PEOPLE,
        "GET portal:submit-jdl": PEOPLE,
        "POST portal:submit-jdl": PEOPLE,
        "GET portal:why": PEOPLE,
        "GET portal:task-queues": PEOPLE,
        "GET portal:task-queue": OF_THE_JOB,
        "GET portal:sites": PEOPLE,
        "GET portal:site": OF_THE_VO | SITE_ADMINISTRATOR,
        "GET portal:ce": OF_THE_VO | SITE_ADMINISTRATOR,
        "GET portal:ce-queue": OF_THE_VO | SITE_ADMINISTRATOR,
        "POST portal:site-state": OF_THE_SITE,
        "POST portal:site-throttle": OF_THE_SITE,
        "POST portal:site-expression": OF_THE_SITE,
        "POST portal:site-limits": MANAGERS,
        "GET portal:site-tokens": OF_THE_SITE,
        "POST portal:site-tokens": OF_THE_SITE,
        "POST portal:site-token-revoke": OF_THE_SITE,
        "GET portal:site-failures-csv": OF_THE_SITE,
        "POST portal:site-downtimes": OF_THE_SITE,
        "GET portal:shares": PEOPLE,
        "GET portal:shares-csv": MANAGERS | OTHER_MANAGER,  # with the groups of a VO of the caller
        "GET portal:next-day": MANAGERS,
        "GET portal:submit-json": PEOPLE,
        "POST portal:submit-json": PEOPLE,
        "POST portal:submit-check": PEOPLE,
        "POST portal:saved-delete": OWNER,
        "POST portal:jobs-actions": PEOPLE,
        "GET portal:jobs-retry": PEOPLE,
        "POST portal:jobs-retry": PEOPLE,
        "POST portal:job-actions": OF_THE_JOB,
        "GET portal:submissions": PEOPLE,
        "GET portal:submission": OF_THE_JOB,
        "GET portal:submission-outputs": OF_THE_JOB,
        "GET portal:plots": PEOPLE,  # with what the caller may see
        "GET portal:plots-csv": PEOPLE,
        "GET portal:accounting": PEOPLE,
        "GET portal:accounting-csv": PEOPLE,
        # What jobs wait for.
        "GET sites": PEOPLE,
        "GET task-queues": PEOPLE,
        "GET submit-pools": PEOPLE | PILOTS,
        "GET submit-pools-eligible": PEOPLE,
        "GET replicas": PEOPLE,
        "GET group-shares": OF_THE_VO,
        # Of managers.
        "POST match-preview": MANAGERS | OTHER_MANAGER,  # to whom the VO's name is an unknown one: 400
        "POST replicas": MANAGERS | OUTSIDERS | SITE_ADMINISTRATOR,  # likewise
        "POST replicas-remove": MANAGERS | OUTSIDERS | SITE_ADMINISTRATOR,
        "PUT site-state": OF_THE_SITE,
        "PUT ce-state": OF_THE_SITE,
        "PUT queue-state": OF_THE_SITE,
        "GET site-throttle": OF_THE_SITE,
        "PUT site-throttle": OF_THE_SITE,
        "GET site-administrators": OF_THE_SITE,
        "PUT site-administrator": OPERATORS,
        "DELETE site-administrator": OPERATORS,
        "GET site-tokens": OF_THE_SITE,
        "POST site-tokens": OF_THE_SITE,
        "DELETE site-token": OF_THE_SITE,
        "GET site-failures": OF_THE_SITE,
        "GET group-priority": MANAGERS,
        "PUT group-priority": MANAGERS,
        "GET group-members": MANAGERS,
        "PUT group-member": MANAGERS,
        "DELETE group-member": MANAGERS,
        "GET vo-managers": MANAGERS,
        "PUT vo-manager": OPERATORS,
        "DELETE vo-manager": OPERATORS,
        "GET user-tokens": OPERATORS,
        "DELETE user-tokens": OPERATORS,
        "DELETE user-token": OPERATORS,
        "GET site-parameters": MANAGERS,
        "PUT site-parameters": MANAGERS,
        "GET ce-parameters": MANAGERS,
        "PUT ce-parameters": MANAGERS,
        "GET queue-parameters": MANAGERS,
        "PUT queue-parameters": MANAGERS,
        "GET user-suspension": MANAGERS,
        "PUT user-suspension": MANAGERS,
        "DELETE user-suspension": MANAGERS,
        "GET downtimes": PEOPLE,
        "POST downtimes": OF_THE_SITE,
        "GET downtime": OF_THE_SITE,
        "PUT downtime": OF_THE_SITE,
        "DELETE downtime": OF_THE_SITE,
        "POST downtimes-import": OPERATORS,
        "GET limits": MANAGERS | OTHER_MANAGER,  # with those of the caller
        "POST limits": MANAGERS | OTHER_MANAGER,  # to whom the VO's name is an unknown one: 400
        "GET limit": MANAGERS,
        "PUT limit": MANAGERS,
        "DELETE limit": MANAGERS,
        "GET leases": MANAGERS | OTHER_MANAGER,  # of jobs of the caller's VOs
        "GET history": MANAGERS | OTHER_MANAGER,  # of the caller's VOs
        "POST history-revert": MANAGERS,
        "GET configuration": MANAGERS | OTHER_MANAGER,  # of the caller's VOs
        "POST configuration-preview": MANAGERS | OTHER_MANAGER,
        "POST configuration-apply": NOBODY,  # without the version of the comparison by the caller
        "GET portal:configuration": MANAGERS | OTHER_MANAGER,
        "GET portal:configuration-file": MANAGERS | OTHER_MANAGER,
        "POST portal:configuration-compare": MANAGERS | OTHER_MANAGER,
        "POST portal:configuration-apply": MANAGERS | OTHER_MANAGER,
        "GET vo-pause": MANAGERS,
        "PUT vo-pause": MANAGERS,
        "DELETE vo-pause": MANAGERS,
        "GET pause": OPERATORS,
        "PUT pause": OPERATORS,
        "DELETE pause": OPERATORS,
        "POST pilots-bulk": OF_THE_SITE | OTHER_MANAGER,  # on pilots of the caller's VOs or sites
        "GET ces": OF_THE_SITE | OTHER_MANAGER,  # with those of the caller's VOs or sites
        "POST ce-ask-again": OF_THE_SITE,
        "GET black-holes": OF_THE_SITE | OTHER_MANAGER,  # likewise
        "POST black-hole-lift": OF_THE_SITE,
        "GET pilot-summary": MANAGERS | OTHER_MANAGER,
        "GET pilot-log-read": OF_THE_SITE,
        "GET portal:pilots": PEOPLE,
        "GET portal:leases": MANAGERS | OTHER_MANAGER,  # of jobs of the caller's VOs
        "GET portal:leases-csv": MANAGERS | OTHER_MANAGER,
        "GET portal:operations": OPERATORS,
        "POST portal:pause-all": OPERATORS,
        "POST portal:vo-pause": MANAGERS,
        "POST portal:operations-ask-again": OPERATORS,
        "GET portal:pilots-summary": OF_THE_SITE | OTHER_MANAGER,  # of pilots of the caller's VOs or sites
        "POST portal:pilots-actions": OF_THE_SITE | OTHER_MANAGER,  # on these
        "GET portal:pilot": OF_THE_SITE,
        "GET portal:pilot-log": OF_THE_SITE,
        "GET portal:pilot-whole-log": OF_THE_SITE,
        # Of machines.
        "POST site-advertisements": frozenset({"advertising site"}),
        "POST pilot-register": REGISTERING,
        "GET pilot-config": PILOTS,
        "POST pilot-report": PILOTS,
        "POST pilot-log": PILOTS | {"ended pilot"},  # what it wrote last may arrive after its last word
        "POST matches": PILOTS,
        "POST match-status": LEASE,
        "POST match-heartbeat": LEASE,
        "POST match-finish": LEASE,
        "POST match-sandboxes": JOBS,
        "GET match-sandbox": JOBS,
        "GET match-outputs": JOBS,
        "POST match-outputs": JOBS,
        "POST match-replicas": JOBS,
        # The admin beside its models.
        "GET /admin/login/": OF_THE_ADMIN | {NOBODY_KNOWN},
        "POST /admin/login/": OF_THE_ADMIN | {NOBODY_KNOWN},
        "GET admin:login": OF_THE_ADMIN | {NOBODY_KNOWN},
        "POST admin:login": OF_THE_ADMIN | {NOBODY_KNOWN},
        "POST admin:logout": OF_THE_ADMIN,
        "GET admin:index": OF_THE_ADMIN,
        "POST admin:index": OF_THE_ADMIN,
        "GET admin:app_list": MANAGERS | OTHER_MANAGER,
        "POST admin:app_list": MANAGERS | OTHER_MANAGER,
        "GET admin:password_change_done": OF_THE_ADMIN,
        "GET admin:jsi18n": OF_THE_ADMIN,
        "GET /admin/password_change/": PEOPLE,
        "POST /admin/password_change/": PEOPLE,
        "GET admin:password_change": PEOPLE,
        "POST admin:password_change": PEOPLE,
        "GET admin:autocomplete": NOBODY,  # without the name of a field
        "GET admin:view_on_site": NOBODY,  # no row has a page elsewhere
        "GET admin:auth_user_password_change": OPERATORS,
        "POST admin:auth_user_password_change": OPERATORS,
        "GET admin:/admin/(?P<url>.*)": NOBODY,  # whatever else there is not
    }
)

#: Of those that open for more than may change what they name: who may. To the others they answer what was refused.
CHANGED_BY: Final[Mapping[str, Names]] = MappingProxyType(
    {
        "POST portal:people-membership": MANAGERS,
        "POST jobs": OWNER | MATES,  # in the group of these
        "POST portal:submit": OWNER | MATES,
        "POST portal:submit-jdl": OWNER | MATES,
        "POST portal:submit-json": OWNER | MATES,
        "POST jobs-rehearsal": NOBODY,
        "POST jobs-yaml": NOBODY,
        "POST portal:submit-check": NOBODY,
        "POST portal:site-expression": NOBODY,
        "POST jobs-bulk": OF_THE_JOB,
        "POST portal:jobs-actions": OF_THE_JOB,
        "POST portal:jobs-retry": OWNER,
        "POST match-preview": NOBODY,
        "POST replicas": MANAGERS,
        "POST replicas-remove": MANAGERS,
        "POST limits": MANAGERS,
        "POST pilots-bulk": OF_THE_SITE,
        "POST portal:pilots-actions": OF_THE_SITE,
        "POST configuration-preview": NOBODY,
        "POST portal:configuration-compare": NOBODY,
        "POST portal:configuration-apply": NOBODY,
        "POST portal:password-link": NOBODY,
        "POST portal:password": NOBODY,  # without the old one
    }
)

# ---- scopes of people's tokens ---------------------------------------------------------------------------------------

#: Beside reading, what a token may be used for; `administer` is for everything.
OF_SCOPE: Final[Mapping[TokenScope, Names]] = MappingProxyType(
    {
        TokenScope.READ: frozenset({"POST auth-revoke"}),  # it may end itself
        TokenScope.SUBMIT: frozenset(
            {
                "POST auth-revoke",
                "POST jobs",
                "POST jobs-rehearsal",
                "POST jobs-yaml",
                "POST sandboxes",
                "POST jobs-bulk",
                "POST jobs-retry",
            }
        ),
    }
)
#: Of the configuration: with the scope `administer` only.
OF_ADMINISTRATION: Final = frozenset(
    {
        "PUT site-state",
        "PUT ce-state",
        "PUT queue-state",
        "PUT site-throttle",
        "PUT site-administrator",
        "DELETE site-administrator",
        "POST site-tokens",
        "DELETE site-token",
        "PUT group-priority",
        "PUT group-member",
        "DELETE group-member",
        "PUT vo-manager",
        "DELETE vo-manager",
        "DELETE user-tokens",
        "DELETE user-token",
        "PUT site-parameters",
        "PUT ce-parameters",
        "PUT queue-parameters",
        "PUT user-suspension",
        "DELETE user-suspension",
        "POST downtimes",
        "PUT downtime",
        "DELETE downtime",
        "POST downtimes-import",
        "POST limits",
        "PUT limit",
        "DELETE limit",
        "PUT vo-pause",
        "DELETE vo-pause",
        "PUT pause",
        "DELETE pause",
        "POST pilots-bulk",
        "POST configuration-preview",
        "POST configuration-apply",
        "POST ce-ask-again",
        "POST black-hole-lift",
        "POST history-revert",
    }
)
#: With the scope `submit`, of one's own jobs only.
OF_SUBMITTERS_OWN_JOBS: Final = frozenset(
    {"PATCH job", "POST job-kill", "POST job-reschedule", "POST job-delete", "POST job-hold", "POST job-release"}
)

# ---- pages of the admin ----------------------------------------------------------------------------------------------

ALL: Final = "view history add change delete"
SEEN: Final = "view history"
#: By model: what the VO's manager may, and what operators may.
MODELS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        # Accounts are added by operators.
        "accounts_user": ("view history change", ALL),
        "accounts_apitoken": ("", "view history delete"),
        "accounts_securityevent": ("", SEEN),
        "accounts_configurationchange": (SEEN, SEEN),
        "accounts_group": (ALL, ALL),
        "accounts_vo": ("view history change", ALL),
        "resources_platform": (SEEN, ALL),
        # One with replicas is not deleted: replicas are forgotten elsewhere.
        "resources_storageelement": (SEEN, "view history add change"),
        "resources_replica": (SEEN, SEEN),
        "resources_sitetoken": (SEEN, "view history delete"),
        "resources_siteadministrator": (SEEN, "view history add delete"),
        # They are ended, or go with their place.
        "resources_downtime": ("view history add change", "view history add change"),
        "resources_sitethrottle": (SEEN, SEEN),
        "resources_site": ("view history add change", ALL),
        # What the server runs is for operators.
        "resources_computingelement": ("view history change", ALL),
        "resources_queue": (ALL, ALL),
        "resources_requirementdefinition": (ALL, ALL),
        "taskqueues_limit": (ALL, ALL),
        "taskqueues_taskqueue": (SEEN, SEEN),
        "taskqueues_submitpool": (SEEN, SEEN),
        "jobs_job": (SEEN, SEEN),
        "pilots_pilot": (SEEN, SEEN),
        "pilots_cehealth": (SEEN, SEEN),
        "pilots_blackhole": (SEEN, SEEN),
        "pilots_director": (SEEN, ALL),
        "matching_match": (SEEN, SEEN),
        "matching_pilotefficiency": (SEEN, SEEN),
    }
)
#: Of no VO: managers of all of them see the rows.
OF_ALL_VOS: Final = frozenset({"resources_platform", "pilots_director"})
#: Which of these rights a page asks for, by method and the end of its name.
RIGHTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GET changelist": "view", "POST changelist": "view", "GET history": "history", "POST history": "history",
        "GET add": "add", "POST add": "add", "GET change": "view", "POST change": "change", "GET delete": "delete",
        "POST delete": "delete", "GET shares": "view", "POST shares": "view",
    }
)  # fmt: skip
#: Actions of lists, by model and name: who changes the VO's rows by them. They are sent to lists, which whoever sees
#: the list gets back, whether anything was done or not. `delete_selected` goes with the right to delete.
ACTIONS: Final[Mapping[str, Names]] = MappingProxyType(
    {
        "accounts_apitoken revoke": OPERATORS,
        "accounts_user reset_second_factor": OPERATORS,
        "accounts_user suspend": MANAGERS,
        "accounts_user restore": MANAGERS,
        "pilots_pilot drain": MANAGERS,
        "pilots_pilot kill": MANAGERS,
        "pilots_cehealth ask_again": MANAGERS,
        "pilots_blackhole lift": MANAGERS,
        "resources_sitetoken revoke": MANAGERS,
        "resources_downtime end": MANAGERS,
        "resources_site ban": MANAGERS,
        "resources_site drain": MANAGERS,
        "resources_site activate": MANAGERS,
        "resources_site issue_registration_token": MANAGERS,
        "resources_site issue_advertisement_token": MANAGERS,
        "resources_computingelement ban": MANAGERS,
        "resources_computingelement drain": MANAGERS,
        "resources_computingelement activate": MANAGERS,
        "resources_queue ban": MANAGERS,
        "resources_queue drain": MANAGERS,
        "resources_queue activate": MANAGERS,
    }
)

# ---- what the tests ask for ------------------------------------------------------------------------------------------


def opens(role: str, asked: str, *, scope: TokenScope = TokenScope.ADMINISTER) -> bool:
    """Return whether the caller may use *asked*, such as "GET job", with a token of this scope."""
    method, _, name = asked.partition(" ")
    asked = f"{'GET' if method == 'HEAD' else method} {name.partition(' ')[0]}"  # an action is sent to its list
    return role in _opens_for(asked) and _is_in_scope(role, asked, scope)


def changes(role: str, asked: str, *, scope: TokenScope = TokenScope.ADMINISTER) -> bool:
    """Return whether *asked*, such as "POST job-kill", may change anything for the caller."""
    method, _, name = asked.partition(" ")
    if method in {"GET", "HEAD"} or not opens(role, asked, scope=scope):
        return False
    page, _, action = name.partition(" ")
    if action:
        return role in _changed_by_action(page.removeprefix("admin:").removesuffix("_changelist"), action)
    if page.endswith("_changelist"):
        return False
    may_change = CHANGED_BY.get(asked, EVERYBODY)
    return role in (may_change & OWNER if scope is TokenScope.SUBMIT and asked in CHANGED_BY else may_change)


def row(asked: str) -> tuple[Names, Names]:
    """Return for whom *asked*, such as "GET job", opens, and who may change something by it."""
    model, _, action = asked.removeprefix("POST admin:").partition("_changelist ")
    if action:
        return _opens_for(f"POST admin:{model}_changelist"), _changed_by_action(model, action)
    return _opens_for(asked), CHANGED_BY.get(asked, EVERYBODY)


def _opens_for(asked: str) -> Names:
    method, _, name = asked.partition(" ")
    model, _, page = name.removeprefix("admin:").rpartition("_")
    if name.startswith("admin:") and model in MODELS:
        return _with_right(model, RIGHTS.get(f"{method} {page}", "none"), is_of_a_row=page not in {"changelist", "add"})
    return OPENS.get(asked, NOBODY)


def _with_right(model: str, right: str, *, is_of_a_row: bool) -> Names:
    of_managers, of_operators = (set(rights.split()) for rights in MODELS[model])
    managers = MANAGER if is_of_a_row and model not in OF_ALL_VOS else MANAGER | OTHER_MANAGER
    return (managers if right in of_managers else NOBODY) | (OPERATORS if right in of_operators else NOBODY)


def _is_in_scope(role: str, asked: str, scope: TokenScope) -> bool:
    is_open = OPENS.get(asked) == EVERYBODY  # no token is looked at
    if scope is TokenScope.ADMINISTER or asked.startswith("GET ") or is_open:
        return True
    if scope is TokenScope.MANAGE:
        return asked not in OF_ADMINISTRATION
    is_own_job = scope is TokenScope.SUBMIT and asked in OF_SUBMITTERS_OWN_JOBS and role in OWNER
    return is_own_job or asked in OF_SCOPE[scope]


def _changed_by_action(model: str, action: str) -> Names:
    if action == "delete_selected":
        return _with_right(model, "delete", is_of_a_row=True)
    return ACTIONS.get(f"{model} {action}", NOBODY)
