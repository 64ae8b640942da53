"""`python -m proxy` is `veil`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
