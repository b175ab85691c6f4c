"""What to change, how much it gains, and whether it did."""

import sys

from gpuscope import runtime

for _former in ("grouped_loop", "late"):  # patches of version 0.1 import from these
    sys.modules[f"{__name__}.{_former}"] = runtime
