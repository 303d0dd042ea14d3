"""Errors of the analysis."""


class AnalysisError(Exception):
    """Spark cannot be started, or a run cannot be read.

    The message says what is wrong, what would be right, and what to do about it.
    """


class RunError(AnalysisError):
    """A run's tables are no such thing: one is missing, damaged, of another format or run."""


class ConnectorMissing(AnalysisError):  # noqa: N818  it names what is wrong
    """This Spark has no Kafka connector; `kafka_source` reads Kafka all the same."""


class WarehouseError(AnalysisError):
    """The named place is no warehouse, one of another format or version, or a damaged one."""


class HistoryError(AnalysisError):
    """A history file is malformed: the message names file, operation, value and what is legal."""
