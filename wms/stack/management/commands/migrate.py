"""`manage.py migrate`: Django's command, which makes the tables of a new database by one script."""

from typing import Any, Final

from django.core.management.commands import migrate

from wms.stack.new_database import make_tables

#: Options with which the command does something else than to make all tables.
_OTHERWISE: Final = ("app_label", "plan", "check_unapplied", "fake", "prune")


class Command(migrate.Command):
    def handle(self, *args: object, **options: Any) -> None:  # noqa: ANN401 - as Django's
        if not any(options[name] for name in _OTHERWISE):
            make_tables(options["database"])
        super().handle(*args, **options)
