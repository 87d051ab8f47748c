"""The WSGI application that granian serves."""

import gc
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
# A request of ten thousand jobs makes some hundred thousand objects that live until its end: with the default, 700,
# looking through them again and again takes a quarter of its CPU time. What lives at a look at young objects is looked
# at again after so many further ones: with the default, 10 and 10, objects of answered requests pile up for thousands.
gc.set_threshold(20_000, 2, 2)
