"""The exception that tests raise in place of a kill."""


class Killed(BaseException):
    """Ends a run at once: no `except Exception` of the code under test catches it."""
