"""``python -m wms_client``, the same as ``wms``."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
