"""Train many small networks at once."""

from naysay.ensemble.program import Member, best_of, fit_many

__all__ = ["Member", "best_of", "fit_many"]
