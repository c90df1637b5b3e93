"""Times and sizes as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Returns a time with three digits, in the unit that suits it.

    >>> duration(0.000_002_34), duration(0.0123), duration(12.34)
    ('2.34 µs', '12.3 ms', '12.3 s')
    """
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def size(count: int | None) -> str:
    """Returns a number of bytes in MiB, or in KiB if it is small; "-" for None.

    >>> size(3 * 2**20), size(5000), size(None)
    ('3.0 MiB', '5 KiB', '-')
    """
    if count is None:
        return "-"
    if count < 2**20 / 10:
        return f"{count / 2**10:.0f} KiB"
    return f"{count / 2**20:,.1f} MiB"
