import numpy as np
from numpy.typing import ArrayLike, NDArray

chdtrc: np.ufunc
entr: np.ufunc
gammainc: np.ufunc
gammaincinv: np.ufunc
gammaln: np.ufunc
ndtr: np.ufunc
ndtri: np.ufunc
stdtrit: np.ufunc
xlogy: np.ufunc

def logsumexp(
    a: ArrayLike, axis: int | None = None, b: ArrayLike | None = None
) -> NDArray[np.float64]: ...
def softmax(x: ArrayLike, axis: int | None = None) -> NDArray[np.float64]: ...
