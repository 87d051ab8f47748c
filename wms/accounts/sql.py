"""SQL queries of every user's request: the ORM takes four times as long to write one as the database to answer."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.contrib.sessions.models import Session
from django.db import DEFAULT_DB_ALIAS, connection, models
from django.utils import timezone

from wms.accounts.domain import GroupProperty, TokenScope
from wms.accounts.models import VO, Group, User, lapsed_before
from wms.kernel.fast.statements import ask_prepared


def _columns(model: type[models.Model], alias: str) -> str:
    return ", ".join(f'{alias}."{field.column}"' for field in model._meta.concrete_fields)  # noqa: SLF001 - Django's API


def _fields(model: type[models.Model]) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields)  # noqa: SLF001 - Django's API


_USER, _GROUP, _VO, _SESSION_FIELDS = _fields(User), _fields(Group), _fields(VO), _fields(Session)

_SESSION = f"""
SELECT {_columns(Session, "session")} FROM django_session AS session WHERE session_key = %s AND expire_date > %s
"""  # noqa: S608 - names of columns

_USER_BY_ID = f"SELECT {_columns(User, 'person')} FROM accounts_user AS person WHERE id = %s"  # noqa: S608 - likewise

#: That has not lapsed; the parameter is ``lapsed_before``.
_IS_VALID = "(membership.confirmed_at IS NULL OR membership.confirmed_at > %s)"

#: Valid tokens of users who are neither suspended nor wait to be admitted (``services.people.is_waiting``).
_BEARER = f"""
SELECT token.id, token.scope, token.last_used_at, {_columns(User, "bearer")}
  FROM accounts_apitoken AS token
  JOIN accounts_user AS bearer ON bearer.id = token.user_id
 WHERE token.digest = %s AND token.expires_at > %s AND token.revoked_at IS NULL AND bearer.is_active
   AND (bearer.waits_since IS NULL
        OR EXISTS (SELECT FROM accounts_membership AS membership
                    WHERE membership.user_id = bearer.id AND {_IS_VALID}))
"""  # noqa: S608 - names of columns

_GROUPS = f"""
SELECT {_columns(Group, "member_of")}, {_columns(VO, "vo")}
  FROM accounts_membership AS membership
  JOIN accounts_group AS member_of ON member_of.id = membership.group_id
  JOIN accounts_vo AS vo ON vo.id = member_of.vo_id
 WHERE membership.user_id = %s AND {_IS_VALID}
 ORDER BY member_of.name
"""  # noqa: S608 - names of columns

_ACTIVE_MEMBERSHIPS = f"""
SELECT membership.user_id, membership.group_id
  FROM accounts_membership AS membership
  JOIN accounts_user AS member ON member.id = membership.user_id
 WHERE membership.user_id = ANY(%s) AND membership.group_id = ANY(%s) AND member.is_active
   AND {_IS_VALID}
"""  # noqa: S608 - a constant

#: As InvitationQuerySet.open_to finds them.
_STANDING = f"""
SELECT 'group', membership.group_id, member_of.vo_id, %s = ANY(member_of.properties)
  FROM accounts_membership AS membership
  JOIN accounts_group AS member_of ON member_of.id = membership.group_id
 WHERE membership.user_id = %s AND {_IS_VALID}
UNION ALL
SELECT 'vo', vo_id, vo_id, false FROM accounts_vo_managers WHERE user_id = %s
UNION ALL
SELECT 'invitation', invitation.id, to_group.vo_id, false
  FROM accounts_invitation AS invitation
  JOIN accounts_group AS to_group ON to_group.id = invitation.group_id
  JOIN accounts_user AS sender ON sender.id = invitation.invited_by_id
 WHERE invitation.username = %s AND invitation.expires_at > %s AND invitation.declined_at IS NULL
   AND sender.is_active
   AND (sender.operator OR sender.is_superuser
        OR EXISTS (SELECT FROM accounts_vo_managers AS manager
                    WHERE manager.vo_id = to_group.vo_id AND manager.user_id = sender.id))
"""  # noqa: S608 - a constant


class Standing(NamedTuple):
    """A group of a user, a VO that it manages, or an open invitation to a group."""

    #: ``group``, ``vo`` or ``invitation``.
    kind: str
    #: Of the group, the VO, or the invitation.
    id: int
    vo_id: int
    #: Whether the members of the group see one another's jobs.
    shares_jobs: bool


class Bearer(NamedTuple):
    """The user of a token, and the token's row."""

    user: User
    token_id: int
    scope: TokenScope
    last_used_at: datetime | None


def bearer_of(digest: bytes, *, now: datetime) -> Bearer | None:
    """Return the bearer of the token with this digest, or None if it is not valid."""
    with connection.cursor() as cursor:
        cursor.execute(_BEARER, [digest, now, lapsed_before(now=now)])
        rows = cursor.fetchall()
    for token_id, scope, last_used_at, *values in rows:
        return Bearer(User.from_db(DEFAULT_DB_ALIAS, _USER, values), token_id, TokenScope(scope), last_used_at)
    return None


def session_of(key: str, *, now: datetime) -> Session | None:
    """Return the session with this key, unless it has expired."""
    for values in ask_prepared(_SESSION, key, now):
        return Session.from_db(DEFAULT_DB_ALIAS, _SESSION_FIELDS, values)
    return None


def user_with(user_id: int) -> User | None:
    """Return the user with this id."""
    for values in ask_prepared(_USER_BY_ID, user_id):
        return User.from_db(DEFAULT_DB_ALIAS, _USER, values)
    return None


def groups_of(user_id: int) -> tuple[Group, ...]:
    """Return the groups of which the user is a member, with their VOs, by name."""
    groups = []
    for values in ask_prepared(_GROUPS, user_id, lapsed_before(now=timezone.now())):
        group = Group.from_db(DEFAULT_DB_ALIAS, _GROUP, values[: len(_GROUP)])
        group.vo = VO.from_db(DEFAULT_DB_ALIAS, _VO, values[len(_GROUP) :])
        groups.append(group)
    return tuple(groups)


def active_memberships(*, user_ids: Collection[int], group_ids: Collection[int]) -> frozenset[tuple[int, int]]:
    """Return (user, group) of those memberships whose user is not suspended."""
    lapsed = lapsed_before(now=timezone.now())
    return frozenset(ask_prepared(_ACTIVE_MEMBERSHIPS, list(user_ids), list(group_ids), lapsed))


def standings_of(user: User, *, now: datetime) -> list[Standing]:
    """Return the groups of *user*, the VOs that it manages, and the open invitations to it."""
    lapsed = lapsed_before(now=now)
    parameters = (GroupProperty.JOB_SHARING.value, user.pk, lapsed, user.pk, user.get_username(), now)
    return [Standing(*row) for row in ask_prepared(_STANDING, *parameters)]
