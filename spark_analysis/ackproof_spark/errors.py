"""Errors of the analysis."""


class AnalysisError(Exception):
    """Spark cannot be started, or a run cannot be read.

    The message says what is wrong, what would be right, and what to do about it.
    """


class RunError(AnalysisError):
    """A table of the run is missing, damaged, of another schema version, or of another run."""


class ConnectorMissing(AnalysisError):  # noqa: N818  the name says what is wrong
    """This Spark has no Kafka connector; `kafka_source` can read Kafka without it."""


class WarehouseError(AnalysisError):
    """The address has no warehouse, one of another format or version, or a damaged one."""


class HistoryError(AnalysisError):
    """A history file is malformed: the message names file, operation, value and what is legal."""


class SegmentError(AnalysisError):
    """A batch of a segment file is damaged, or has a format that is not read."""
