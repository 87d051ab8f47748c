"""Telling the system which files are where; each change leaves a mark for the jobs that wait for such files."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q, QuerySet

from resources import sql
from resources.domain.files import GivenReplica, ReplicasError, refused, vo_of
from resources.models import Replica, StorageElement
from wms.accounts.models import VO, User
from wms.kernel.db import transaction_required
from wms.kernel.errors import ForbiddenError
from wms.kernel.names import did_you_mean

logger = logging.getLogger(__name__)

#: Of unknown names; the first ones tell the story.
MAX_UNKNOWN = 5


class NotYourFilesError(ForbiddenError):
    """Only the managers of a VO and operators say where its files are."""

    code = "not_your_files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What became of replicas that were told of: the others were known, word for word."""

    new: int
    #: Those of which another size or checksum was told before.
    changed: int


@transaction.atomic(durable=True)
def register(replicas: Sequence[GivenReplica], *, vo_name: str | None, by: User) -> Registered:
    """Take in replicas of one VO's files, all or none; what was told of a known one is replaced.

    Args:
        replicas: each once.
        vo_name: whose files; None: the VO that the first part of their paths names.
        by: a manager of the VO, or an operator.

    Raises:
        NotYourFilesError: *by* may not; nothing has changed.
        ReplicasError: no such VO or storage element; nothing has changed.
    """
    vo = _vo(replicas, vo_name, by=by)
    written = record(replicas, vo=vo)
    logger.info("replicas.registered", extra={"vo": vo.name, "by": by.username, "new": written.new})
    return written


@transaction.atomic(durable=True)
def remove(replicas: Sequence[GivenReplica], *, vo_name: str | None, by: User) -> int:
    """Forget replicas of one VO's files, all or none; return how many there were. The files themselves stay.

    The arguments and errors are those of ``register``; without a storage element all replicas of the file are meant.
    """
    vo = _vo(replicas, vo_name, by=by)
    named = [replica.storage_element for replica in replicas if replica.storage_element]
    # Also where the VO has lost its storage element: what was registered there can be forgotten.
    holding = Replica.objects.filter(vo=vo, lfn__in={replica.lfn for replica in replicas}).values("storage_element")
    ids = _ids(named, vo=vo, known=StorageElement.objects.filter(Q(vos=vo) | Q(pk__in=holding)).distinct())
    gone = sql.remove(
        [(each.lfn, ids[each.storage_element] if each.storage_element else None) for each in replicas], vo_id=vo.pk
    )
    sql.mark(set(gone), vo_id=vo.pk)
    logger.info("replicas.removed", extra={"vo": vo.name, "by": by.username, "removed": len(gone)})
    return len(gone)


@transaction_required
def record(replicas: Sequence[GivenReplica], *, vo: VO) -> Registered:
    """Write replicas of a VO's files, on whoever's behalf, and mark the files that have a new one.

    Raises:
        ReplicasError: no such storage element serves the VO.
    """
    named = [replica.storage_element for replica in replicas]
    ids = _ids(named, vo=vo, known=StorageElement.objects.serving(vo.pk))
    written = sql.register(
        [(each.lfn, ids[each.storage_element], each.size_bytes, each.checksum) for each in replicas], vo_id=vo.pk
    )
    new = [lfn for lfn, is_new in written if is_new]
    sql.mark(set(new), vo_id=vo.pk)
    return Registered(new=len(new), changed=len(written) - len(new))


@transaction_required
def supersede(replica: GivenReplica, *, vo: VO) -> None:
    """Forget the copies elsewhere of a file that was written anew, unless they are known to have the same content.

    Else one name would stand for two contents, and a job would read the one or the other, depending on its site.

    Args:
        replica: of the new content, as it was recorded.
        vo: whose file it is.
    """
    elsewhere = Replica.objects.filter(vo=vo, lfn=replica.lfn).exclude(storage_element__name=replica.storage_element)
    if replica.checksum:
        elsewhere = elsewhere.exclude(checksum=replica.checksum)
    older = [(replica.lfn, element_id) for element_id in elsewhere.values_list("storage_element", flat=True)]
    if older:
        sql.mark(set(sql.remove(older, vo_id=vo.pk)), vo_id=vo.pk)


@transaction_required
def mark_every_file() -> None:
    """Mark all files of all VOs, as when storage elements changed their sites."""
    sql.mark([""], vo_id=None)


def no_such_element(name: str, known: Collection[str], *, vo: str) -> str:
    """Return the sentence on a storage element that there is not, or not for the VO; which of the two is not told."""
    return f'No storage element that serves {vo} is called "{name}".{did_you_mean(name, sorted(known))}'


def _ids(names: Collection[str], *, vo: VO, known: QuerySet[StorageElement]) -> dict[str, int]:
    """Return {name: id} of the storage elements.

    Raises:
        ReplicasError: one of the names is none of them.
    """
    ids = dict(known.values_list("name", "pk"))
    unknown = sorted(set(names) - ids.keys())
    if unknown:
        raise refused({"replicas": [no_such_element(name, ids, vo=vo.name) for name in unknown[:MAX_UNKNOWN]]})
    return ids


def _vo(replicas: Sequence[GivenReplica], name: str | None, *, by: User) -> VO:
    if name is None:
        names = {vo_of(replica.lfn) for replica in replicas}
        if len(names) > 1:
            sentence = "The first parts of these paths name several VOs; say which one by vo, or send one request each."
            raise refused({"vo": [sentence]})
        (name,) = names
    managed = {vo.name: vo for vo in VO.objects.managed_by(by)}
    if name in managed:
        return managed[name]
    if VO.objects.visible_to(by).filter(name=name).exists():
        raise NotYourFilesError(f"Only managers of {name} and operators may say where its files are; ask one of them.")
    raise unknown_vo(name, managed)


def unknown_vo(name: str, known: Collection[str]) -> ReplicasError:
    """Return the error on a VO that there is not, or not for who asks."""
    sentence = (
        f'There is no VO "{name}" whose files you could change; name one by vo.{did_you_mean(name, sorted(known))}'
    )
    return refused({"vo": [sentence]})
