"""Operator programs by family of operators."""
