"""What veil.yaml says."""

from .load import load_configuration
from .model import Configuration, Settings

__all__ = ["Configuration", "Settings", "load_configuration"]
