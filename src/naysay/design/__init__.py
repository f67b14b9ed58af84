"""Which labels to ask annotators for: offers, instructions, and what they tell about classes."""

from naysay.design.scheme import (
    ANY_WRONG,
    FIRST_WRONG,
    Instruction,
    Scheme,
    SchemeDiagnosis,
    propose,
)

__all__ = ["ANY_WRONG", "FIRST_WRONG", "Instruction", "Scheme", "SchemeDiagnosis", "propose"]
