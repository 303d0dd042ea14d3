"""How a losing schedule is made smaller: what can be left out or lessened, and how it is tried."""
