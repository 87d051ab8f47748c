"""Rights on admin pages: operators, and managers of VOs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar, TypeVar
from weakref import WeakKeyDictionary

from django import forms
from django.db.models import Exists, ManyToManyField, Model, OuterRef, Q, QuerySet
from django.http import HttpRequest

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import Membership, User
from wms.accounts.queries import HistoryEntry, first_change_of, history_of
from wms.accounts.security_log import record
from wms.kernel.admin.pages import ReadOnlyAdmin, RowLevelAdmin, RowLevelInline
from wms.kernel.admin.rights import Recorded, RowRights

M = TypeVar("M", bound=Model)

#: Managed VOs by request: a page needs them dozens of times.
_managed_vos: "WeakKeyDictionary[HttpRequest, frozenset[int]]" = WeakKeyDictionary()


class VORights(RowRights):
    """Rights of operators, and of managers of VOs, who must be staff as well.

    Their changes are written to the security log.
    """

    #: Kind of security event of a change to a row …
    kind: ClassVar[SecurityEventKind] = SecurityEventKind.CONFIGURATION_CHANGED
    #: … of adding or deleting it, where that differs …
    kinds_of_rows: ClassVar[Mapping[Recorded, SecurityEventKind]] = MappingProxyType({})
    #: … and of a change to one of these fields. Rows of a table on the page count as a field of the table's name.
    kinds_of_fields: ClassVar[Mapping[str, SecurityEventKind]] = MappingProxyType({})

    def sees_all(self, request: HttpRequest) -> bool:
        """Return whether the caller is an operator."""
        user = request.user
        return isinstance(user, User) and user.is_active and user.is_staff and user.is_operator

    def managed_vos(self, request: HttpRequest) -> frozenset[int]:
        """Return the primary keys of the VOs that the user manages; read once for each request."""
        user = request.user
        if not (isinstance(user, User) and user.is_active and user.is_staff):
            return frozenset()
        if request not in _managed_vos:
            _managed_vos[request] = frozenset(user.managed_vos.values_list("pk", flat=True))
        return _managed_vos[request]

    def full_name(self, row: Model) -> str:
        """Return the name of the row in the security log, such as "user bob"."""
        return f"{row._meta.verbose_name} {row}"

    def short_name(self, row: Model) -> str:
        """Return the name of a row of a table on the page, for the security log."""
        return f"{row.user} in {row.group}" if isinstance(row, Membership) else str(row)

    def history_of(self, request: HttpRequest, row: Model) -> Sequence[HistoryEntry]:
        """Return the changes of a row, through any door, that the user may see, the newest first."""
        return history_of(row, user=request.user) if isinstance(request.user, User) else []

    def first_change_of(self, row: Model) -> datetime | None:
        """Return the time since when the changes of a row are recorded."""
        return first_change_of(row)

    def record(self, request: HttpRequest, row: Model, what: Recorded, changes: Mapping[str, object]) -> None:
        """Write the user's action to the security log: one event for each kind, with the changes of that kind."""
        target = self.full_name(row)
        if what != "changed":
            kind = self.kinds_of_rows.get(what, self.kind)
            record(kind, request=request, target=target, row=row, what=what, changes=changes)
            return
        kinds = {field: self.kind_of(field, value) for field, value in changes.items()}
        for kind in dict.fromkeys(kinds.values()):
            of_kind = {field: value for field, value in changes.items() if kinds[field] is kind}
            record(kind, request=request, target=target, row=row, what=what, changes=of_kind)

    def kind_of(self, field: str, value: object) -> SecurityEventKind:  # noqa: ARG002 - for subclasses
        """Return the kind of event of a change of a field."""
        return self.kinds_of_fields.get(field, self.kind)


class VOLevelAdmin(VORights, RowLevelAdmin[M]):
    """Base of the pages of the configuration."""


class VOLevelLedger(VORights, ReadOnlyAdmin[M]):
    """Base of the pages of records written by the system."""


class VOLevelInline(VORights, RowLevelInline[M]):
    """Base of the tables within pages."""


class UserByNameField(forms.ModelChoiceField):  # type: ignore[type-arg]  # at run time it takes no parameter
    """A user, by exact name: the list of users is not shown."""

    def __init__(self, users: QuerySet[User], *, invalid: str) -> None:
        super().__init__(
            users,
            to_field_name="username",
            widget=forms.TextInput(attrs={"autocomplete": "off", "size": 30, "aria-label": "User name"}),
            label="User name",
            error_messages={"invalid_choice": invalid},
        )


class ServingVOsAdmin(VOLevelAdmin[M]):
    """Base of the pages of rows that serve some VOs by a relation ``vos``, or all VOs when it is empty.

    A manager sees the rows that serve a VO of theirs, and changes those that serve no other VO. A manager chooses the
    VOs of a row when adding it; later only an operator changes them.
    """

    choose_managed = frozenset({"vos"})

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the condition of the rows that serve one of *vos*, or all."""
        served = self._served()
        return Q(Exists(served.filter(vo__in=vos)) | ~Exists(served))

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the condition of the rows that serve some of *vos* and no other."""
        served = self._served()
        return Q(Exists(served.filter(vo__in=vos)) & ~Exists(served.exclude(vo__in=vos)))

    def get_readonly_fields(self, request: HttpRequest, obj: M | None = None) -> list[str]:
        """Return the read-only fields; for managers the VOs are among them after creation."""
        names = super().get_readonly_fields(request, obj)
        return names if obj is None or self.sees_all(request) else [*names, "vos"]

    def formfield_for_manytomany(
        self, db_field: "ManyToManyField[Model, Model]", request: HttpRequest, **kwargs: object
    ) -> "forms.ModelMultipleChoiceField[Model] | None":
        """Require a manager to choose VOs: an empty relation would mean every VO."""
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        if field is not None and db_field.name == "vos" and not self.sees_all(request):
            field.required = True
            field.help_text = "Of those that you manage."
        return field

    def _served(self) -> QuerySet[Model]:
        column = self.model._meta.get_field("vos")
        through: type[Model] = column.remote_field.through  # type: ignore[union-attr]  # it is many-to-many
        return through._default_manager.filter(**{column.m2m_field_name(): OuterRef("pk")})  # type: ignore[union-attr]
