"""The web server: granian, with a buffer that reads request bodies before it calls the WSGI application.

``python -m wms.web`` runs it. A request reaches the application when all of its body has arrived, so that a client that
sends slowly, or nothing at all, occupies none of the threads that answer (ADR 46).
A proxy does not replace it (ADR 71).
"""
