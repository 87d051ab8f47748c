"""Permissions of endpoints: 401 without credentials, 403 without the right."""

from typing import TYPE_CHECKING

from django.shortcuts import get_object_or_404
from rest_framework.exceptions import NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from wms.accounts import queries
from wms.accounts.models import VO, Group, User

if TYPE_CHECKING:
    from rest_framework.views import APIView  # NB: at run time a cycle, for the settings name IsUser


class IsUser(BasePermission):
    """Users, by token or session; valid tokens of pilots, jobs and sites are refused (403)."""

    message = "This address is for users; the token of a pilot, a job or a site does not open it."

    def has_permission(self, request: Request, _view: "APIView") -> bool:
        """Return whether the caller is a user."""
        return isinstance(request.user, User)


class IsManager(BasePermission):
    """Managers of at least one VO, and operators."""

    message = "Only managers of a VO and operators may do this."

    def has_permission(self, request: Request, _view: "APIView") -> bool:
        """Return whether the caller is a manager."""
        return isinstance(request.user, User) and queries.is_manager(request.user)


class IsOperator(BasePermission):
    """Operators."""

    message = "Only operators may do this."

    def has_permission(self, request: Request, _view: "APIView") -> bool:
        """Return whether the caller is an operator."""
        return isinstance(request.user, User) and request.user.is_operator


def user_of(request: Request) -> User:
    """Return the calling user, in a view with IsUser, IsManager or IsOperator.

    Raises:
        NotAuthenticated: the caller is no user, which only a view without these permissions allows.
    """
    if not isinstance(request.user, User):
        raise NotAuthenticated
    return request.user


def require_manager(vo: VO, user: User) -> None:
    """Return if *user* manages the VO.

    Raises:
        PermissionDenied: somebody else does.
    """
    if not VO.objects.managed_by(user).filter(pk=vo.pk).exists():
        raise PermissionDenied(f"Only managers of {vo} and operators may do this.")


def managed_vo(request: Request, name: str) -> VO:
    """Return a VO that the caller manages.

    Raises:
        Http404: there is none of this name that the caller sees.
        PermissionDenied: the caller does not manage it.
    """
    user = user_of(request)
    vo = get_object_or_404(VO.objects.visible_to(user), name=name)
    require_manager(vo, user)
    return vo


def user_named(username: str) -> User:
    """Return a user of whatever VO, for operators.

    Raises:
        Http404: there is none of exactly this name.
    """
    return get_object_or_404(User, username=User.normalize_username(username))


def managed_group(request: Request, name: str) -> Group:
    """Return a group of a VO that the caller manages, with the VO.

    Raises:
        Http404: there is none of this name that the caller sees.
        PermissionDenied: the caller does not manage its VO.
    """
    user = user_of(request)
    group = get_object_or_404(Group.objects.visible_to(user).select_related("vo"), name=name)
    require_manager(group.vo, user)
    return group
