"""Numbers formatted to as many digits as their spread or their distance from one warrants."""

from __future__ import annotations


def with_spread(value: float, spread: float) -> str:
    """Format a number and its spread to the second digit of the spread.

    The spread is rounded first: 0.0997 is 0.10, not 0.100. Of one that is zero or not finite, as of
    chains that have run away, both numbers have three digits.

    >>> with_spread(3091.0, 21.2), with_spread(-0.001, 0.997), with_spread(-171280.43219, 0.0184)
    ('3,091 ± 21', '0.0 ± 1.0', '-171,280.432 ± 0.018')
    >>> with_spread(2e300, float("inf")), with_spread(0.5, 0.0)
    ('2e+300 ± inf', '0.5 ± 0')
    """
    if not 0 < spread < float("inf"):
        return f"{value:.3g} ± {spread:.2g}"
    digits = 1 - int(f"{spread:.1e}".partition("e")[2])
    if digits > 7 or digits < -7:
        return f"{value:.3g} ± {spread:.2g}"
    return f"{value:z,.{max(0, digits)}f} ± {spread:,.{max(0, digits)}f}"


def percent(share: float) -> str:
    """Format a share to three digits, or to four above 99 %, so that 99.97 % is not 100 %.

    >>> percent(0.73456), percent(0.9997), percent(1.0)
    ('73.5 %', '99.97 %', '100 %')
    """
    return f"{100 * share:.{4 if share > 0.99 else 3}g} %"
