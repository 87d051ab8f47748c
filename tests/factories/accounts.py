"""VOs, groups, users and their tokens."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.contrib.auth.hashers import make_password

from tests.factories.names import unique_name
from wms.accounts.domain import USER_TOKEN_PREFIX, GroupProperty, TokenScope, digest_of
from wms.accounts.models import VO, ApiToken, Group, Membership, User, UserDN


def make_vo(
    *,
    name: str | None = None,
    setup: str = "Production",
    setups: Sequence[str] = (),
    managers: Sequence[User] = (),
    history_fair_share: bool = False,
    any_segment_fraction: float = 0.0,
) -> VO:
    vo = VO.objects.create(
        name=name or unique_name("vo"),
        setup=setup,
        setups=sorted({setup, *setups}),
        history_fair_share=history_fair_share,
        any_segment_fraction=any_segment_fraction,
    )
    if managers:
        vo.managers.set(managers)
    return vo


def make_group(
    *,
    name: str | None = None,
    vo: VO | None = None,
    priority: float = 1000.0,
    shares_jobs: bool = False,
    production: bool = False,
) -> Group:
    properties = {GroupProperty.JOB_SHARING: shares_jobs, GroupProperty.PRODUCTION: production}
    return Group.objects.create(
        name=name or unique_name("group"),
        vo=vo or make_vo(),
        priority=priority,
        properties=[name for name, has in properties.items() if has],
    )


def make_user(
    *,
    username: str | None = None,
    groups: Sequence[Group] = (),
    default_group: Group | None = None,
    password: str | None = None,
    dns: Sequence[str] = (),
    manages: Sequence[VO] = (),
    operator: bool = False,
    staff: bool = False,
    superuser: bool = False,
    suspended: bool = False,
) -> User:
    """Return a user; without *password* it cannot log in, which saves the time of a hash."""
    user = User.objects.create(
        username=username or unique_name("user"),
        password=make_password(password),
        default_group=default_group,
        operator=operator,
        is_staff=staff,
        is_superuser=superuser,
        is_active=not suspended,
    )
    for group in groups:
        Membership.objects.create(user=user, group=group)
    for dn in dns:
        UserDN.objects.create(user=user, dn=dn)
    if manages:
        user.managed_vos.set(manages)
    return user


def member(owner: User | None, group: Group) -> User:
    """Return the owner, or a new one, as a member of the group, as owners of its jobs must be."""
    if owner is None:
        return make_user(groups=[group])
    Membership.objects.get_or_create(user=owner, group=group)
    return owner


def make_token(
    user: User,
    *,
    scope: TokenScope = TokenScope.MANAGE,
    expires_at: datetime | None = None,
    revoked_at: datetime | None = None,
) -> str:
    """Return a bearer token of *user*, valid by the real clock, as the API reads it, and used just now."""
    token = USER_TOKEN_PREFIX + unique_name("token")
    ApiToken.objects.create(
        user=user,
        digest=digest_of(token),
        scope=scope,
        last_used_at=datetime.now(tz=UTC),
        expires_at=expires_at or datetime.now(tz=UTC) + timedelta(days=1),
        revoked_at=revoked_at,
    )
    return token
