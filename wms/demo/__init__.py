"""`manage.py demo`: a sample VO, real jobs that real pilots run to their ends, and a word on whether they did."""
