from typing import Any

import numpy as np
from numpy.typing import NDArray

def randomized_svd(
    M: Any, n_components: int, *, n_iter: int | str = "auto", random_state: Any = "warn"
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]: ...
