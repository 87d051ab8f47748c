"""The WSGI application that granian serves."""

import os

from django.core.wsgi import get_wsgi_application

from wms.kernel.checks import refuse_unsafe_start

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")

_django = get_wsgi_application()
refuse_unsafe_start()

from matching.api.plain_heartbeats import PlainHeartbeats  # noqa: E402 - only now are there models

application = PlainHeartbeats(_django)
