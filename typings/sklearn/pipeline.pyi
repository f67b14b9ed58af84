from typing import Any

class Pipeline:
    steps: list[tuple[str, Any]]
