"""Text as the commands print it."""

__all__ = ["as_sentences"]


def as_sentences(text: str) -> str:
    """Return lines as one, of whole sentences."""
    lines = (line.strip() for line in text.splitlines() if line.strip())
    return " ".join(line if line.endswith((".", "?", "!")) else f"{line}." for line in lines)
