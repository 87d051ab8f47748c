"""Collected static files, each with its compressed form beside it."""

from collections.abc import Iterator
from pathlib import Path

from whitenoise.storage import CompressedStaticFilesStorage


class CompressedFiles(CompressedStaticFilesStorage):
    """Files of ``collectstatic``, compressed once there; WhiteNoise sends the form that the client accepts."""

    def post_process(
        self,
        paths: dict[str, object],
        dry_run: bool = False,
        **options: object,
    ) -> Iterator[tuple[str, str, bool]]:
        """Compress the files; the new ones are readable as the others are, whatever the umask."""
        for name, compressed, is_processed in super().post_process(paths, dry_run, **options):
            Path(self.path(compressed)).chmod(self.file_permissions_mode or 0o644)
            yield name, compressed, is_processed
