#!/usr/bin/env python
"""The command line of the project: `uv run manage.py help`."""

from wms.__main__ import main

if __name__ == "__main__":
    main()
