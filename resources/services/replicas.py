"""Registration and removal of replicas; each change leaves a mark for the jobs that wait for the files."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q, QuerySet

from resources import sql
from resources.domain.files import GivenReplica, ReplicasError, refused, vo_of
from resources.models import OutputName, Replica, StorageElement
from wms.accounts.models import VO, User
from wms.kernel.db import transaction_required
from wms.kernel.errors import ForbiddenError
from wms.kernel.names import did_you_mean

logger = logging.getLogger(__name__)

#: Unknown names in one error; users need only the first.
MAX_UNKNOWN = 5


class NotYourFilesError(ForbiddenError):
    """Only managers of a VO and operators may change replicas of its files; owners remove those of their jobs."""

    code = "not_your_files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The result of a registration; the other replicas were registered already with equal data."""

    new: int
    #: Existing replicas that got another size or checksum.
    changed: int


@transaction.atomic(durable=True)
def register(replicas: Sequence[GivenReplica], *, vo_name: str | None, by: User) -> Registered:
    """Register replicas of one VO's files, all or none; data of existing ones are replaced.

    A file that gets a content which the catalogue does not know is no longer that of the job which wrote its name.

    Args:
        replicas: each once.
        vo_name: VO of the files; None: the VO in the first part of their paths.
        by: a manager of the VO, or an operator.

    Raises:
        NotYourFilesError: *by* is neither; nothing has changed.
        ReplicasError: no such VO or storage element; nothing has changed.
    """
    vo = _vo(replicas, vo_name, by=by)
    rows = _rows(replicas, vo=vo)
    sql.take_from_jobs(rows, vo_id=vo.pk)
    written = _record(rows, vo=vo)
    logger.info("replicas.registered", extra={"vo": vo.name, "by": by.username, "new": written.new})
    return written


@transaction.atomic(durable=True)
def remove(replicas: Sequence[GivenReplica], *, vo_name: str | None, by: User) -> int:
    """Remove replicas of one VO's files, all or none, from the catalogue; return how many there were.

    The arguments and errors are those of ``register``; without a storage element, all replicas of the file are removed.
    The owner of jobs may remove what these have registered. A name without a replica is free for other jobs.
    """
    vo = _vo(replicas, vo_name, by=by, of_owner=True)
    lfns = {replica.lfn for replica in replicas}
    written = _locked_names(lfns, vo=vo)
    named = [replica.storage_element for replica in replicas if replica.storage_element]
    # Also storage elements that no longer serve the VO: their replicas can be removed.
    holding = Replica.objects.filter(vo=vo, lfn__in=lfns).values("storage_element")
    ids = _ids(named, vo=vo, known=StorageElement.objects.filter(Q(vos=vo) | Q(pk__in=holding)).distinct())
    gone = sql.remove(
        [(each.lfn, ids[each.storage_element] if each.storage_element else None) for each in replicas], vo_id=vo.pk
    )
    sql.mark(set(gone), vo_id=vo.pk)
    left = Replica.objects.filter(vo=vo, lfn__in=lfns).values("lfn")
    OutputName.objects.filter(pk__in=written).exclude(lfn__in=left).update(writer_id=None, owner=None)
    logger.info("replicas.removed", extra={"vo": vo.name, "by": by.username, "removed": len(gone)})
    return len(gone)


@transaction_required
def record(replicas: Sequence[GivenReplica], *, vo: VO) -> Registered:
    """Write replicas of a VO's files, without a check of permissions, and mark the files with a new one.

    Raises:
        ReplicasError: no such storage element serves the VO.
    """
    return _record(_rows(replicas, vo=vo), vo=vo)


def _rows(replicas: Sequence[GivenReplica], *, vo: VO) -> Sequence[tuple[str, int, int | None, str]]:
    """Return (file, storage element, size, checksum) of each replica."""
    named = [replica.storage_element for replica in replicas]
    ids = _ids(named, vo=vo, known=StorageElement.objects.serving(vo.pk))
    return [(each.lfn, ids[each.storage_element], each.size_bytes, each.checksum) for each in replicas]


def _record(rows: Sequence[tuple[str, int, int | None, str]], *, vo: VO) -> Registered:
    written = sql.register(rows, vo_id=vo.pk)
    new = [lfn for lfn, is_new in written if is_new]
    sql.mark(set(new), vo_id=vo.pk)
    return Registered(new=len(new), changed=len(written) - len(new))


@transaction_required
def supersede(replica: GivenReplica, *, vo: VO) -> None:
    """Remove other replicas of a rewritten file, unless they are known to have the same content.

    Otherwise one name would stand for two contents, and the site would decide which one a job reads.

    Args:
        replica: the recorded replica of the new content.
        vo: VO of the file.
    """
    elsewhere = Replica.objects.filter(vo=vo, lfn=replica.lfn).exclude(storage_element__name=replica.storage_element)
    if replica.checksum:
        elsewhere = elsewhere.exclude(checksum=replica.checksum)
    older = [(replica.lfn, element_id) for element_id in elsewhere.values_list("storage_element", flat=True)]
    if older:
        sql.mark(set(sql.remove(older, vo_id=vo.pk)), vo_id=vo.pk)


@transaction_required
def mark_every_file() -> None:
    """Mark all files of all VOs, after storage elements changed their sites."""
    sql.mark([""], vo_id=None)


def no_such_element(name: str, known: Collection[str], *, vo: str) -> str:
    """Return the sentence for a storage element that does not exist or does not serve the VO, without saying which."""
    return f'No storage element that serves {vo} is called "{name}".{did_you_mean(name, sorted(known))}'


def _ids(names: Collection[str], *, vo: VO, known: QuerySet[StorageElement]) -> dict[str, int]:
    """Return {name: id} of the storage elements.

    Raises:
        ReplicasError: a name is unknown.
    """
    ids = dict(known.values_list("name", "pk"))
    unknown = sorted(set(names) - ids.keys())
    if unknown:
        raise refused({"replicas": [no_such_element(name, ids, vo=vo.name) for name in unknown[:MAX_UNKNOWN]]})
    return ids


def _vo(replicas: Sequence[GivenReplica], name: str | None, *, by: User, of_owner: bool = False) -> VO:
    if name is None:
        names = {vo_of(replica.lfn) for replica in replicas}
        if len(names) > 1:
            sentence = "The first parts of these paths name several VOs; name one by vo, or send one request each."
            raise refused({"vo": [sentence]})
        (name,) = names
    managed = {vo.name: vo for vo in VO.objects.managed_by(by)}
    if name in managed:
        return managed[name]
    vo = VO.objects.visible_to(by).filter(name=name).first()
    if vo is not None:
        if of_owner and _are_output_of(by, {replica.lfn for replica in replicas}, vo=vo):
            return vo
        but = "remove files that your jobs have not stored" if of_owner else "register its replicas"
        raise NotYourFilesError(f"Only managers of {name} and operators may {but}; ask one of them.")
    raise unknown_vo(name, managed)


def _are_output_of(user: User, lfns: Collection[str], *, vo: VO) -> bool:
    owners = _locked_names(lfns, vo=vo).values()
    return len(owners) == len(lfns) and set(owners) == {user.pk}


def _locked_names(lfns: Collection[str], *, vo: VO) -> Mapping[int, int | None]:
    """Lock names of output, before their replicas, as a registration does; return {id: owner of the job}."""
    rows = OutputName.objects.filter(vo=vo, lfn__in=lfns).order_by("lfn").select_for_update(of=("self",))
    return dict(rows.values_list("pk", "owner_id"))


def unknown_vo(name: str, known: Collection[str]) -> ReplicasError:
    """Return the error for a VO that does not exist or that the caller may not manage."""
    sentence = (
        f'There is no VO "{name}" whose files you could change; name one by vo.{did_you_mean(name, sorted(known))}'
    )
    return refused({"vo": [sentence]})
