"""Checks of arguments: each value that is out of its range is one error."""

import math
from fractions import Fraction

import pytest

from keras_nplm.io.errors import InputError, check_least, check_share


def _check_from_zero(argument, value):
    check_least(argument, value, 0)


@pytest.mark.parametrize("check", [check_share, _check_from_zero])
@pytest.mark.parametrize("value", [10**400, Fraction(10**400, 3), math.inf, math.nan, True, "1"])
def test_values_that_are_no_finite_numbers_are_refused(check, value):
    with pytest.raises(InputError, match="`rate` must be a finite number.* Fix: give a value"):
        check("rate", value)
    check("rate", 0.5)
