"""Transactional and consumer anomalies of histories of client operations.

`tables` has the schemas, `reader` the file format, `check` the entry points. The other modules
define one family of anomalies each.
"""
