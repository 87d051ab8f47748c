"""Querysets of rows with an owner, group and VO, by the user who may see them."""

from typing import Self, TypeVar

from django.db import models
from django.db.models import Q

from wms.accounts.models import VO, Group, User

M_co = TypeVar("M_co", bound=models.Model, covariant=True)


class OwnedQuerySet(models.QuerySet[M_co]):
    """Querysets of rows with the owner, group and VO of jobs."""

    def visible_to(self, actor: User) -> Self:
        """Keep the actor's own jobs, those of its JOB_SHARING groups and those of the VOs that it manages."""
        if actor.is_operator:
            return self
        sharing = Group.objects.sharing().filter(memberships__user=actor)
        return self.filter(Q(owner=actor) | Q(group__in=sharing) | Q(vo__in=VO.objects.filter(managers=actor)))
