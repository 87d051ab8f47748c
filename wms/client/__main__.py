"""``python -m wms_client``, the same as ``wms``."""

import sys

from .main import main


def run() -> None:
    """Run the command of this process."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
