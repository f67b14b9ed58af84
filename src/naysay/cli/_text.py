"""Format text for printing."""

__all__ = ["as_sentences"]


def as_sentences(text: str) -> str:
    """Join lines of text into one line of full sentences."""
    lines = (line.strip() for line in text.splitlines() if line.strip())
    return " ".join(line if line.endswith((".", "?", "!")) else f"{line}." for line in lines)
