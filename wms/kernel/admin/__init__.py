"""Base classes of the admin pages: rights by row, bounded lists, and form fields that match the columns."""
