# cython: language_level=3
"""The scanner compiled: what `python` does, of equal meaning."""

from .python import mask, mask_in, opens
