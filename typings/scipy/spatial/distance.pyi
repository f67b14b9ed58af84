import numpy as np
from numpy.typing import ArrayLike, NDArray

def pdist(X: ArrayLike, metric: str = "euclidean") -> NDArray[np.float64]: ...
