"""What can stop the analysis, as one exception."""


class AnalysisError(Exception):
    """Spark cannot be started, or a run cannot be read.

    The message says what is wrong, what would be right, and what to do about it.
    """
