"""How pages show times: Django's names of formats (FORMAT_MODULE_PATH)."""

DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "Y-m-d H:i:s T"
DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
