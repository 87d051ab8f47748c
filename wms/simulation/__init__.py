"""`manage.py simulate`: a scenario file in, tables of what everybody would get out; no database is asked."""
