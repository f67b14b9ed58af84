"""Render results as one self-contained HTML page, without network, scripts or torch."""
