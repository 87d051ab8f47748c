"""`manage.py demo`: a sample VO whose real jobs are run by real pilots, and a check of their results."""
