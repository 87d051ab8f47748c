"""Compress the stored last lines of outputs, a third of the bytes of a finished job (ADR 57)."""

import zlib
from collections.abc import Callable

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from wms.kernel.fields import CompressedTextField, compressed

_AT_ONCE = 5000
_READ = "SELECT job_id, {old} FROM jobs_outputtail WHERE job_id > %s ORDER BY job_id LIMIT %s"
_WRITE = """
UPDATE jobs_outputtail AS tail SET {new} = converted.value
  FROM unnest(%s::bigint[], %s::{type}[]) AS converted (job_id, value)
 WHERE tail.job_id = converted.job_id
"""


def _convert(
    editor: BaseDatabaseSchemaEditor, old: str, new: str, type_of_new: str, converted: Callable[[object], object]
) -> None:
    with editor.connection.cursor() as cursor:
        last = 0
        while True:
            cursor.execute(_READ.format(old=old), [last, _AT_ONCE])
            if not (rows := cursor.fetchall()):
                return
            last = rows[-1][0]
            values = [[pk for pk, _ in rows], [converted(value) for _, value in rows]]
            cursor.execute(_WRITE.format(new=new, type=type_of_new), values)


def compress(_apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """Store the texts compressed."""
    _convert(editor, "plain_text", "text", "bytea", lambda text: compressed(str(text)))


def decompress(_apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """Store the texts as they are."""
    _convert(editor, "text", "plain_text", "text", lambda stored: zlib.decompress(bytes(stored)).decode())  # type: ignore[call-overload]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0024_indexes_that_no_query_uses")]

    operations = [
        migrations.RenameField("OutputTail", "text", "plain_text"),
        migrations.AddField(
            "OutputTail",
            "text",
            CompressedTextField(default="", help_text="Last lines, as of the last heartbeat."),
            preserve_default=False,
        ),
        migrations.RunPython(compress, decompress),
        migrations.RemoveField("OutputTail", "plain_text"),
    ]
