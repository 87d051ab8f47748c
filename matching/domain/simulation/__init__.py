"""What groups would get: the match's own rules played over simulated days, without database, clock or pilots.

``scenario`` says what there is, ``playing`` plays it, ``outcome`` tells what came of it.
"""
