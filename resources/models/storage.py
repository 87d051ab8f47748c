"""Models of storage elements, and of the replicas of files at them."""

from collections.abc import Iterable
from typing import Self

from django.db import models
from django.db.models import Q

from wms.accounts.models import VO, User
from wms.kernel.fields import valid_name


class StorageElementQuerySet(models.QuerySet["StorageElement"]):
    """Querysets of storage elements by VO."""

    def serving(self, vo_id: int) -> Self:
        """Keep those that name the VO; one that names none serves nobody."""
        return self.filter(vos=vo_id)


class StorageElement(models.Model):
    """One row is one storage element for files of jobs; its credential is stored encrypted.

    It is visible only to the jobs, files and managers of the VOs that it names.
    """

    name = models.CharField(max_length=128, unique=True, validators=[valid_name])
    vos = models.ManyToManyField(
        VO,
        related_name="storage_elements",
        blank=True,
        verbose_name="VOs",
        help_text="VOs that the element serves; none chosen: nobody.",
    )
    url = models.CharField(
        "URL",
        max_length=500,
        help_text="file:// or https://; a file is stored at this address followed by its logical name.",
    )
    credential_encrypted = models.BinaryField(default=b"", editable=False)
    credential_for_pilots = models.BooleanField(
        default=False,
        help_text="Pilots with a job that has files here are given the credential, with which they may read and write "
        "whatever it opens. Otherwise they get none.",
    )

    objects = StorageElementQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the VOs that it serves."""
        return [vo.pk for vo in self.vos.all()]


class ReplicaQuerySet(models.QuerySet["Replica"]):
    """Querysets of replicas by actor."""

    def visible_to(self, actor: User) -> Self:
        """Keep those of the VOs that the actor belongs to or manages."""
        # A list of ids, not a subquery: then the index on VO and name serves a million rows.
        return self if actor.is_operator else self.filter(vo__in=list(VO.objects.visible_to(actor)))

    def with_service(self) -> Self:
        """Annotate ``is_served``: whether the storage element serves the VO of the file."""
        served = StorageElement.vos.through.objects.filter(
            storageelement=models.OuterRef("storage_element"), vo=models.OuterRef("vo")
        )
        return self.annotate(is_served=models.Exists(served))


class Replica(models.Model):
    """One row is one replica of a logical file on a storage element; a file belongs to one VO.

    NB: there are millions. Rows of a deleted VO or storage element stay, and no query returns them: checking both for
    each row would double the time of a load, and listing the rows before a deletion would need too much memory.
    """

    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    # In byte order, which compares faster and keeps names with a common prefix together.
    lfn = models.CharField("LFN", max_length=255, db_collation="C", help_text="Logical file name.")
    storage_element = models.ForeignKey(
        StorageElement, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False
    )
    size_bytes = models.PositiveBigIntegerField(null=True, help_text="Size in bytes; empty: unknown.")
    checksum = models.CharField(max_length=71, blank=True, help_text="adler32:… or sha256:…; empty: unknown.")

    objects = ReplicaQuerySet.as_manager()

    class Meta:
        constraints = [
            # Serves every search for files of a VO, by name or prefix.
            models.UniqueConstraint(
                name="a_storage_element_holds_a_file_of_a_vo_once", fields=["vo", "lfn", "storage_element"]
            ),
            models.CheckConstraint(name="replica_lfn_is_an_absolute_path", condition=Q(lfn__startswith="/")),
        ]

    def __str__(self) -> str:
        return self.lfn


class ReplicaChange(models.Model):
    """One row marks files whose replicas changed, until the jobs that wait for them have been re-evaluated."""

    vo = models.ForeignKey(
        VO, models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False, help_text="Null: all."
    )
    lfn = models.CharField(max_length=255, blank=True, help_text="Empty: any file.")
    # Processed twice: a job submitted meanwhile, with an earlier state of the replicas, is found the second time.
    looked_at = models.DateTimeField(null=True, help_text="First re-evaluation.")
    job_id = models.BigIntegerField(default=0, help_text="Last processed job, if there are many.")

    def __str__(self) -> str:
        return f"change {self.pk}"


class OutputName(models.Model):
    """One row is a logical name under which a job stores output, or has stored it (ADR 72).

    It outlives replicas and jobs, so that bytes which an attempt left at a storage element are known as such. Jobs and
    leases are plain numbers: this app does not depend on theirs.
    """

    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    lfn = models.CharField("LFN", max_length=255, db_collation="C", help_text="Logical file name.")
    planned_id = models.BigIntegerField(null=True, help_text="Last submitted job that names it.")
    match_id = models.UUIDField(null=True, help_text="Lease that reserves the name, as long as it is open.")
    replaces = models.BooleanField(default=False, help_text="Whether this lease may replace a registered file.")
    writer_id = models.BigIntegerField(
        null=True, help_text="Job that registered the file; empty: none, or a manager has changed it."
    )
    owner = models.ForeignKey(
        User, models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False,
        help_text="Owner of this job.",
    )  # fmt: skip
    contents = models.JSONField(
        default=list, help_text="What leases may have stored under the name, the newest first: LeftContent of matching."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a_name_is_written_by_one_job_at_a_time", fields=["vo", "lfn"]),
            models.CheckConstraint(name="output_lfn_is_an_absolute_path", condition=Q(lfn__startswith="/")),
        ]

    def __str__(self) -> str:
        return self.lfn
