"""The page of settings agrees with the settings module."""

from pathlib import Path

from django.conf import settings

from docs.generators.settings_table import Setting, settings_in, tables_of

BASE = Path(settings.BASE_DIR)
SOURCE = '''
"""Settings."""
# ---- Servers -----------------------------

#: Where the
#: database is.
DATABASES = {"default": env.db_url("WMS_DATABASE_URL")}
DATABASES2 = {
    # Kept open | for long.
    "CONN_MAX_AGE": env.int("WMS_AGE_S", default=60 * 10),
}

# ---- Rules -------------------------------

WMS_SEGMENTS_S = env.list("WMS_SEGMENTS_S", cast=int, default=[500, 5000])
#: Whether.
DEBUG = env.bool("WMS_DEBUG", default=False)
OTHER = other.bool("WMS_OTHER")
'''


def test_every_variable_is_found_with_its_comment_default_and_section() -> None:
    assert settings_in(SOURCE) == [
        Setting(
            name="WMS_DATABASE_URL",
            kind="db_url",
            default="none: it must be set",
            meaning="Where the database is.",
            section="Servers",
        ),
        Setting(name="WMS_AGE_S", kind="int", default="600", meaning="Kept open | for long.", section="Servers"),
        Setting(name="WMS_SEGMENTS_S", kind="list", default="500,5000", meaning="", section="Rules"),
        Setting(name="WMS_DEBUG", kind="bool", default="false", meaning="Whether.", section="Rules"),
    ]


def test_the_table_escapes_markup() -> None:
    assert "| `WMS_AGE_S` | int | `600` | Kept open \\| for long. |" in tables_of(settings_in(SOURCE))


def test_every_setting_says_what_it_is_for() -> None:
    source = (BASE / "wms" / "settings.py").read_text(encoding="utf-8")
    assert [setting.name for setting in settings_in(source) if not setting.meaning] == []
