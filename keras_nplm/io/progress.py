"""Progress bars (tqdm) of long work, on standard error."""

import sys
import typing

if typing.TYPE_CHECKING:  # tqdm is imported where a bar is opened: commands without one start faster
    from tqdm import tqdm

_SECONDS_ON_A_TERMINAL, _SECONDS_IN_A_LOG = 0.2, 15.0


def open_progress(title: str, total: int | None = None, unit: str = " tokens") -> "tqdm":
    """Open a tqdm progress bar on standard error: `with open_progress(…) as progress: progress.update(n)`.

    The bar appears after 0.2 seconds on a terminal and after 15 seconds in a log file, so short work shows nothing.
    Two updates are as far apart.

    Args:
        title: the text before the bar.
        total: the size of the work in units. Default: unknown, then the bar shows the count and the rate alone.
        unit: the unit of `total`, with a space before it.

    Example:

    >>> with open_progress("Counting", total=4) as progress:
    ...     progress.update(3)
    ...     progress.n
    3
    """
    from tqdm import tqdm

    seconds = _SECONDS_ON_A_TERMINAL if sys.stderr.isatty() else _SECONDS_IN_A_LOG
    intervals = dict(delay=seconds, mininterval=seconds, maxinterval=max(seconds, 10.0))
    return tqdm(desc=title, total=total, unit=unit, unit_scale=True, file=sys.stderr, dynamic_ncols=True, **intervals)
