"""The WSGI application that granian serves."""

import os

from django.core.wsgi import get_wsgi_application

from wms.kernel.checks import refuse_unsafe_start

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")

application = get_wsgi_application()
refuse_unsafe_start()
