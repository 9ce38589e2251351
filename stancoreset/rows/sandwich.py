"""Jᵀ A J less another matrix, again and again for other numbers of J and of that one.

Of sparse matrices of a few thousand entries scipy takes longer to make the objects than to multiply
their numbers: here patterns are known, and which two numbers meet is found once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.rows.blocks import AnyMatrix, Matrix, dense


@dataclass(frozen=True)
class DenseSandwich:
    """Jᵀ A J − M of a matrix A, (p, p)."""

    middle: Float = field(repr=False)

    def value(self, jacobian: Matrix) -> Float:
        """Jᵀ A J."""
        turned = jacobian.T
        return dense(turned @ (turned @ self.middle).T)

    def less(self, value: Float, matrix: Matrix) -> Float:
        """Jᵀ A J − M."""
        return np.asarray(value - matrix.toarray())


@dataclass(frozen=True)
class Product:
    """The numbers of X Y from those of two sparse matrices.

    Attributes
    ----------
    pattern : csr_array
        Of X Y; its numbers do not matter.
    left, right, at : ndarray of int, shape (T,)
        Of each product of two numbers their places in X and Y, and that of the sum they belong to.
    """

    pattern: Matrix
    left: NDArray[np.intp] = field(repr=False)
    right: NDArray[np.intp] = field(repr=False)
    at: NDArray[np.intp] = field(repr=False)

    @classmethod
    def of(cls, x: Matrix, y: Matrix, beside: Matrix | None = None) -> Product:
        """The product of two patterns, whose pattern may hold that of a third matrix as well.

        >>> x, y = Matrix(np.array([[1.0, 2.0], [0.0, 3.0]])), Matrix(np.array([[4.0], [5.0]]))
        >>> Product.of(x, y).data(x.data, y.data)
        array([14., 15.])
        """
        each = np.diff(y.indptr)[x.indices]
        left = np.repeat(np.arange(x.nnz), each)
        first = np.repeat(y.indptr[x.indices] - np.cumsum(each) + each, each)
        right = first + np.arange(len(left))
        shape = x.shape[0], y.shape[1]
        products = _rows(x)[left] * shape[1] + y.indices[right]
        keys = np.unique(products if beside is None else np.append(products, _keys(beside)))
        pattern = Matrix((np.ones(len(keys)), np.divmod(keys, max(1, shape[1]))), shape=shape)
        return cls(pattern, left, right, np.searchsorted(keys, products))

    def data(self, x: Float, y: Float) -> Float:
        """The numbers of X Y, in the order of the pattern's."""
        sums = np.bincount(self.at, x[self.left] * y[self.right], self.pattern.nnz)
        return sums.astype(np.float64, copy=False)


@dataclass(frozen=True)
class SparseSandwich:
    """Jᵀ A J − M of sparse matrices.

    Attributes
    ----------
    middle : ndarray, shape (nnz,)
        The numbers of A.
    order : ndarray of int
        That of the numbers of J in Jᵀ.
    first, second : Product
        Jᵀ A, and (Jᵀ A) J.
    places : ndarray of int
        Of the numbers of M in the result.
    """

    middle: Float = field(repr=False)
    order: NDArray[np.intp] = field(repr=False)
    first: Product = field(repr=False)
    second: Product = field(repr=False)
    places: NDArray[np.intp] = field(repr=False)

    @classmethod
    def of(cls, jacobian: Matrix, middle: Matrix, matrix: Matrix) -> SparseSandwich:
        """Of the patterns of J and M, and of A.

        >>> j, a, m = (Matrix(np.array(x)) for x in ([[2.0], [1.0]], np.eye(2), [[4.0]]))
        >>> sandwich = SparseSandwich.of(j, a, m)
        >>> sandwich.less(sandwich.value(j), m).toarray()
        array([[1.]])
        """
        numbers = Matrix((1.0 + np.arange(jacobian.nnz), jacobian.nonzero()), shape=jacobian.shape)
        turned, middle = Matrix(numbers.T), Matrix(middle, copy=True)
        middle.eliminate_zeros()
        first = Product.of(turned, middle)
        second = Product.of(first.pattern, jacobian, matrix)
        places = np.searchsorted(_keys(second.pattern), _keys(matrix))
        return cls(middle.data, turned.data.astype(np.intp) - 1, first, second, places)

    @property
    def pattern(self) -> Matrix:
        """Of the result; its numbers do not matter."""
        return self.second.pattern

    def value(self, jacobian: Matrix) -> Float:
        """The numbers of Jᵀ A J."""
        left = self.first.data(jacobian.data[self.order], self.middle)
        return self.second.data(left, jacobian.data)

    def less(self, value: Float, matrix: Matrix) -> AnyMatrix:
        """Jᵀ A J − M, in the place of the result before."""
        found = self.second.pattern
        found.data = value.copy()
        found.data[self.places] -= matrix.data
        return found


def _rows(matrix: Matrix) -> NDArray[np.intp]:
    """The row of every entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _keys(matrix: Matrix) -> NDArray[np.intp]:
    """One number for the place of every entry."""
    return _rows(matrix) * matrix.shape[1] + matrix.indices
