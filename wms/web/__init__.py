"""The web server: granian, and in front of the WSGI application what decides whose bodies are read, and how long.

``python -m wms.web`` runs it. A request becomes the application's when all of its body is there, so that a client that
sends slowly, or nothing at all, keeps none of the threads that answer (ADR 46).
"""
