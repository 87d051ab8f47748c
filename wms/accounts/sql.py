"""SQL queries of every user's request: the ORM takes four times as long to write one as the database to answer."""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.contrib.sessions.models import Session
from django.db import DEFAULT_DB_ALIAS, connection, models

from wms.accounts.domain import GroupProperty, Standing, TokenScope
from wms.accounts.models import VO, Group, User, lapsed_before
from wms.kernel.clock import current_time
from wms.kernel.fast.statements import query_directly, query_prepared


def _columns(model: type[models.Model], alias: str) -> str:
    return ", ".join(f'{alias}."{field.column}"' for field in model._meta.concrete_fields)


def _fields(model: type[models.Model]) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields)


_USER, _GROUP, _VO = _fields(User), _fields(Group), _fields(VO)
_SESSION_FIELDS: Final = ("session_key", "session_data", "expire_date")

_USER_BY_ID = f"SELECT {_columns(User, 'person')} FROM accounts_user AS person WHERE id = %s"  # noqa: S608 - names of columns


def _is_valid(lapsed: str) -> str:
    """Return the condition that a membership has not lapsed; the parameter is ``lapsed_before``."""
    return f"(membership.confirmed_at IS NULL OR membership.confirmed_at > {lapsed})"


#: Valid tokens of users who are neither suspended nor wait to be admitted (``services.people.is_waiting``).
_BEARER = f"""
SELECT token.id, token.scope, token.created_at, token.last_used_at, {_columns(User, "bearer")}
  FROM accounts_apitoken AS token
  JOIN accounts_user AS bearer ON bearer.id = token.user_id
 WHERE token.digest = %s AND token.expires_at > %s AND token.revoked_at IS NULL AND bearer.is_active
   AND (bearer.waits_since IS NULL
        OR EXISTS (SELECT FROM accounts_membership AS membership
                    WHERE membership.user_id = bearer.id AND {_is_valid("%s")}))
"""  # noqa: S608 - names of columns

_GROUPS = f"""
SELECT {_columns(Group, "member_of")}, {_columns(VO, "vo")}
  FROM accounts_membership AS membership
  JOIN accounts_group AS member_of ON member_of.id = membership.group_id
  JOIN accounts_vo AS vo ON vo.id = member_of.vo_id
 WHERE membership.user_id = %s AND {_is_valid("%s")}
 ORDER BY member_of.name
"""  # noqa: S608 - names of columns

_ACTIVE_MEMBERSHIPS = f"""
SELECT membership.user_id, membership.group_id
  FROM accounts_membership AS membership
  JOIN accounts_user AS member ON member.id = membership.user_id
 WHERE membership.user_id = ANY(%s) AND membership.group_id = ANY(%s) AND member.is_active
   AND {_is_valid("%s")}
"""  # noqa: S608 - a constant

#: The standings of the user with the id $1 at the time $2, in JSON. $3 is ``lapsed_before``, $4 the property of groups
#: whose members see one another's jobs. Invitations are those that InvitationQuerySet.open_to finds.
_STANDINGS = f"""
(SELECT coalesce(json_agg(json_build_array(kind, id, vo_id, shares_jobs)), '[]')
   FROM (SELECT 'group' AS kind, membership.group_id AS id, member_of.vo_id,
                $4 = ANY(member_of.properties) AS shares_jobs
           FROM accounts_membership AS membership
           JOIN accounts_group AS member_of ON member_of.id = membership.group_id
          WHERE membership.user_id = $1::bigint AND {_is_valid("$3::timestamptz")}
         UNION ALL
         SELECT 'vo', vo_id, vo_id, false FROM accounts_vo_managers WHERE user_id = $1::bigint
         UNION ALL
         SELECT 'invitation', invitation.id, to_group.vo_id, false
           FROM accounts_user AS invited
           JOIN accounts_invitation AS invitation ON invitation.username = invited.username
           JOIN accounts_group AS to_group ON to_group.id = invitation.group_id
           JOIN accounts_user AS sender ON sender.id = invitation.invited_by_id
          WHERE invited.id = $1::bigint AND invitation.expires_at > $2::timestamptz AND invitation.declined_at IS NULL
            AND sender.is_active
            AND (sender.operator OR sender.is_superuser
                 OR EXISTS (SELECT FROM accounts_vo_managers AS manager
                             WHERE manager.vo_id = to_group.vo_id AND manager.user_id = sender.id))) AS standing)
"""  # noqa: S608 - a constant

_STANDINGS_ALONE = f"SELECT {_STANDINGS}::text"

#: The session with the key $5, and the user with the id $1, which may be null, with its standings.
_VISIT = f"""
SELECT session.session_data, session.expire_date::text, (SELECT to_json(person) FROM accounts_user AS person
 WHERE person.id = $1::bigint)::text, {_STANDINGS}::text
  FROM django_session AS session WHERE session.session_key = $5 AND session.expire_date > $2::timestamptz
"""  # noqa: S608 - a constant


class Visit(NamedTuple):
    """A session, and the user that was read with it."""

    session: Session
    user: User | None


class Bearer(NamedTuple):
    """The user of a token, and the token's row."""

    user: User
    token_id: int
    scope: TokenScope
    issued_at: datetime
    last_used_at: datetime | None


def bearer_of(digest: bytes, *, now: datetime) -> Bearer | None:
    """Return the bearer of the token with this digest, or None if it is not valid."""
    with connection.cursor() as cursor:
        cursor.execute(_BEARER, [digest, now, lapsed_before(now=now)])
        rows = cursor.fetchall()
    for token_id, scope, issued_at, last_used_at, *values in rows:
        user = User.from_db(DEFAULT_DB_ALIAS, _USER, values)
        return Bearer(user, token_id, TokenScope(scope), issued_at, last_used_at)
    return None


def visit_of(session_key: str, *, user_id: int | None, now: datetime) -> Visit | None:
    """Return the session with this key, unless it has expired, and with it the user with this id and its standings."""
    rows = query_directly("visit", _VISIT, *_of_user(user_id, now=now), session_key)
    for session_data, expire_date, person, standings in rows:
        values = [session_key, session_data, _moment(expire_date)]
        session = Session.from_db(DEFAULT_DB_ALIAS, _SESSION_FIELDS, values)
        if person is None:
            return Visit(session, None)
        user = _user_from(json.loads(person))
        user.standings_read = _standings_from(standings)
        return Visit(session, user)
    return None


def user_with(user_id: int) -> User | None:
    """Return the user with this id."""
    for values in query_prepared(_USER_BY_ID, user_id):
        return User.from_db(DEFAULT_DB_ALIAS, _USER, values)
    return None


def groups_of(user_id: int) -> tuple[Group, ...]:
    """Return the groups of which the user is a member, with their VOs, by name."""
    groups = []
    for values in query_prepared(_GROUPS, user_id, lapsed_before(now=current_time())):
        group = Group.from_db(DEFAULT_DB_ALIAS, _GROUP, values[: len(_GROUP)])
        group.vo = VO.from_db(DEFAULT_DB_ALIAS, _VO, values[len(_GROUP) :])
        groups.append(group)
    return tuple(groups)


def active_memberships(*, user_ids: Collection[int], group_ids: Collection[int]) -> frozenset[tuple[int, int]]:
    """Return (user, group) of those memberships whose user is not suspended."""
    lapsed = lapsed_before(now=current_time())
    return frozenset(query_prepared(_ACTIVE_MEMBERSHIPS, list(user_ids), list(group_ids), lapsed))


def standings_of(user_id: int, *, now: datetime) -> list[Standing]:
    """Return the groups of a user, the VOs that it manages, and the open invitations to it."""
    ((standings,),) = query_directly("standings", _STANDINGS_ALONE, *_of_user(user_id, now=now))
    return _standings_from(standings)


def _of_user(user_id: int | None, *, now: datetime) -> tuple[str | None, ...]:
    times = now.isoformat(), lapsed_before(now=now).isoformat()
    return None if user_id is None else str(user_id), *times, GroupProperty.JOB_SHARING.value


def _standings_from(text: str | None) -> list[Standing]:
    return [Standing(*values) for values in json.loads(text or "[]")]


def _user_from(row: Mapping[str, Any]) -> User:
    return User.from_db(DEFAULT_DB_ALIAS, _USER, [read(row[column]) for column, read in _USER_IN_JSON])


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


#: Columns of a user, and functions that read their values in JSON.
_USER_IN_JSON: Final[tuple[tuple[str, Callable[[Any], object]], ...]] = tuple(
    (str(field.column), _moment if isinstance(field, models.DateTimeField) else field.to_python)
    for field in User._meta.concrete_fields
)
