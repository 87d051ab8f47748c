"""`manage.py simulate`: tables of simulated shares from a scenario file; no database is used."""
