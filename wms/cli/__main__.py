"""``python -m wms.cli``, the same as ``wms``."""

import sys

from wms.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
