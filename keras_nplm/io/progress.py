"""Progress bars (tqdm) of long work, on standard error."""

import sys
from typing import Any

# before a bar appears, and between two updates
_SECONDS_ON_A_TERMINAL = 0.2
SECONDS_IN_A_LOG = 15.0


def open_progress(title: str, total: int | None = None, unit: str = " tokens") -> Any:
    """Open a tqdm progress bar on standard error: `with open_progress(…) as progress:
    progress.update(n)`.
    """
    from tqdm import tqdm  # here: commands without a bar start faster

    seconds = _SECONDS_ON_A_TERMINAL if sys.stderr.isatty() else SECONDS_IN_A_LOG
    intervals = dict(delay=seconds, mininterval=seconds, maxinterval=max(seconds, 10.0))
    return tqdm(
        desc=title,
        total=total,
        unit=unit,
        unit_scale=True,
        file=sys.stderr,
        dynamic_ncols=True,
        **intervals,
    )
