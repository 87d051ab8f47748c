"""The WSGI application that granian serves."""

import gc
import os

from django.core.wsgi import get_wsgi_application

from wms.kernel.checks import refuse_unsafe_start

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")

_django = get_wsgi_application()
refuse_unsafe_start()

from matching.api.fast_heartbeats import FastHeartbeats  # noqa: E402 - only now are there models
from wms.jobs.services.sandbox_files import close_store  # noqa: E402 - the same

close_store()

application = FastHeartbeats(_django)

# What is loaded stays, and the collector need not look through it: a full run would stop a request for 60 ms.
gc.collect()
gc.freeze()
