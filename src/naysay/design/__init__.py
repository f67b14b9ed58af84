"""Design annotation tasks: lists of labels to offer, instructions, and their information."""

from naysay.design.information import SchemeDiagnosis
from naysay.design.scheme import ANY_WRONG, FIRST_WRONG, Instruction, Scheme, propose

__all__ = ["ANY_WRONG", "FIRST_WRONG", "Instruction", "Scheme", "SchemeDiagnosis", "propose"]
