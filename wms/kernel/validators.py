"""Validators of single values, shared by models, serializers and the configuration file."""

import re

from django.core.validators import RegexValidator

#: Names of sites, CEs, queues, groups and VOs: no blanks, so that they fit into URLs, logs and lists.
NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\Z")
valid_name = RegexValidator(
    NAME_PATTERN, "Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _."
)
