"""Shared by the tests of this folder."""

from ..door.conftest import inside

__all__ = ["inside"]
