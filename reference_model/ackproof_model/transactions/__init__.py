"""Transactions of one transactional.id over several partitions: an executable specification.

`search(TransactionModel(...))` finds the anomalies that an adversary within budgets can cause, by
exhaustive search. The coordinator, the producers and the logs follow KIP-98, KIP-360 and KIP-890 by
version. Replication is left out: committed records stay, in logs and in the transaction log, unless
the budgets allow that some are lost.
"""

from ackproof_model.transactions.model import TransactionBudgets as TransactionBudgets
from ackproof_model.transactions.model import TransactionModel as TransactionModel
from ackproof_model.transactions.search import ANOMALIES as ANOMALIES
from ackproof_model.transactions.search import search as search
