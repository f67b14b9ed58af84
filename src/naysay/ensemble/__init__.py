"""Many small networks trained at once, in one program."""

from naysay.ensemble.program import Member, best_of, fit_many

__all__ = ["Member", "best_of", "fit_many"]
