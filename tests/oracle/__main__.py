"""Run the oracle: `python -I tests/oracle …`."""

import sys

from oracle import main

sys.exit(main())
