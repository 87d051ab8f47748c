"""Simulation of the match's rules over simulated days, without database, clock or pilots.

``scenario`` is the input, ``simulator`` runs it, ``outcome`` is the result.
"""
