"""`python -m sgrt` is the `sgrt` command."""

from __future__ import annotations

import sys

from sgrt.cli.main import main

sys.exit(main())
