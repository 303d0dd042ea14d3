"""Transactional and consumer anomalies of histories: what clients sent, polled and were told.

`tables` has the schemas, `reader` the file form, `check` the entry points; every other module is
one family of anomalies, with the definition of each.
"""
