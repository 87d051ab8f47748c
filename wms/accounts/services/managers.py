"""Managers of VOs, as operators make and end them."""

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, User
from wms.accounts.security_log import record
from wms.kernel.db import transaction_required


@transaction_required
def make_manager(vo: VO, user: User, *, by: User, reason: str = "") -> None:
    """Make *user* a manager of *vo*; one who is already stays so.

    Args:
        vo: the VO.
        user: of whatever VO, or of none.
        by: the acting operator.
        reason: for the history of the VO; may be empty.
    """
    if not _lock(vo).managers.filter(pk=user.pk).exists():
        vo.managers.add(user)
        _record(vo, f"+{user}", by=by, reason=reason)


@transaction_required
def end_manager(vo: VO, user: User, *, by: User) -> None:
    """End the role of *user* at *vo*, if there is one; arguments as of ``make_manager``."""
    if _lock(vo).managers.filter(pk=user.pk).exists():
        vo.managers.remove(user)
        _record(vo, f"-{user}", by=by)


def _lock(vo: VO) -> VO:
    return VO.objects.select_for_update(no_key=True).get(pk=vo.pk)


def _record(vo: VO, what: str, *, by: User, reason: str = "") -> None:
    """Write to the history of a VO what its page in the administration writes about its managers."""
    changes = {"managers": [what], **({"reason": reason} if reason else {})}
    kind = SecurityEventKind.RIGHTS_CHANGED
    record(kind, actor=by, target=f"VO {vo}", row=vo, what="changed", changes=changes)
