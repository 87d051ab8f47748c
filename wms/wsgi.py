"""The WSGI application that granian serves."""

import os

from django.core.wsgi import get_wsgi_application

from wms.kernel.allocator import settle_memory
from wms.kernel.checks import refuse_other_database, refuse_unsafe_start

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")

_django = get_wsgi_application()
refuse_unsafe_start()

from matching.urls import fast_views  # noqa: E402 - imports models, which are loaded by now
from wms.jobs.services.sandbox_files import close_store  # noqa: E402 - likewise
from wms.kernel.fast.application import FastApplication  # noqa: E402 - likewise

close_store()

application = FastApplication(_django, fast_views, at_start=refuse_other_database)
settle_memory()
