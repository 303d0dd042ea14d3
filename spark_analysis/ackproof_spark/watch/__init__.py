"""The comparison as a stream that does not end: acked sends against records, by partition."""
