"""Presentation: texts, badges and buttons of pages are chosen here, not in templates."""
