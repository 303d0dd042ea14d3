"""Kafka's replication of one partition: every action of brokers and controller.

The actions are functions of plain values, each with WHO takes it, WHEN, and THEN what results:

broker      `replica.learn`, `append`, `fetch`, `request_isr`, `forget`, `ended`, `crashed`
controller  `replica.answer_isr`, `controller.fence`, `expire`, `offline`, `begin_shutdown`,
            `enrol`, `register`, `unfence`, `change`

Their checks are in `isr`, `leader` and `log_truncation`. Faults, schedules and clients are not
here. The actions are taken by `prediction.transitions` under a schedule's faults and timers, by
`adversary.successors` in any order, by `planning.plan_state` as an operator sees them, and by
`advice.outcome` from the state of an outage.
"""
