"""Share groups (KIP-932): which records a group gets, how often, and which it gives up.

`partition` has the rules of a share partition's leader, `coordinator` those of what is stored in
`__share_group_state`, both as Kafka's classes have them. `fate` searches what may happen to a
record.
"""

from ackproof_model.share_groups.fate import ANOMALIES as ANOMALIES
from ackproof_model.share_groups.fate import ANY as ANY
from ackproof_model.share_groups.fate import KINDS as KINDS
from ackproof_model.share_groups.fate import ShareModel as ShareModel
from ackproof_model.share_groups.fate import search as search
