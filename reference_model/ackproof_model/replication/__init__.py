"""Kafka's replication of one partition: its actions, and what a schedule of faults adds.

The actions are functions of plain values, each with WHO takes it, WHEN, and THEN what results:

broker      `replica.learn`, `append`, `fetch`, `request_isr`, `ended`, `crashed`
controller  `replica.answer_isr`, `controller.fence`, `expire`, `offline`, `begin_shutdown`,
            `enrol`, `unfence`, `change`

`transitions` takes them under a schedule's faults and timers, `adversary.moves` in any order,
`planning.plan_state` as an operator sees them. Their checks are in `isr`, `leader` and
`log_truncation`.
"""
