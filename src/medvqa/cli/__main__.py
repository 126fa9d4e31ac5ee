"""`python -m medvqa.cli`."""

import sys

from medvqa.cli import main

if __name__ == "__main__":
    sys.exit(main())
