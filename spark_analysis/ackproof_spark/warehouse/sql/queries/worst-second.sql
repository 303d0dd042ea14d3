-- In which second of each run did the fewest partitions ack, and which faults held then? If all acked
-- all the time, it is the second with the longest latency. The first second, in which
-- clients start, is left out.
SELECT
  r.scenario, r.configuration, r.kafka_version, m.run_id, m.occurred_at, m.sent, m.acked,
  round(100 * m.acking_share, 1) AS acking_partitions_percent,
  round(m.latency_max_ms, 1) AS latency_max_ms,
  coalesce(
    array_join(array_sort(collect_set(concat('F', f.fault_number, ' ', f.fault))), ', '), ''
  ) AS faults_in_force
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY run_id ORDER BY acking_share, latency_max_ms DESC NULLS LAST, occurred_at
  ) AS place
  FROM {schema}metrics WHERE acking_share IS NOT NULL
) AS m
JOIN {schema}runs AS r ON r.run_id = m.run_id
LEFT JOIN {schema}fault_windows AS f
  ON f.run_id = m.run_id AND f.verified_at < m.occurred_at + INTERVAL 1 SECOND
  AND coalesce(f.recovered_at, f.healed_at, m.occurred_at) >= m.occurred_at
WHERE m.place = 1
GROUP BY
  r.scenario, r.configuration, r.kafka_version, m.run_id, m.occurred_at, m.sent, m.acked,
  m.acking_share, m.latency_max_ms
ORDER BY r.scenario, r.configuration, m.run_id;
