"""Which labels to ask annotators for: offers, instructions, and what they tell about classes."""

from naysay.design.information import SchemeDiagnosis
from naysay.design.scheme import ANY_WRONG, FIRST_WRONG, Instruction, Scheme, propose

__all__ = ["ANY_WRONG", "FIRST_WRONG", "Instruction", "Scheme", "SchemeDiagnosis", "propose"]
