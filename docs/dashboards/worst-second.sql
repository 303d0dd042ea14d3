-- In which second of each run were the fewest partitions available, and which faults held then?
SELECT
  r.configuration_name, m.run_id, m.at, m.sent, m.acked,
  round(100 * m.availability, 1) AS available_partitions_percent,
  concat_ws(', ', collect_set(concat('F', f.`window`, ' ', f.fault))) AS faults_in_force
FROM (
  SELECT *, row_number() OVER (PARTITION BY run_id ORDER BY availability, at) AS place
  FROM metrics WHERE availability IS NOT NULL
) AS m
JOIN runs AS r ON r.run_id = m.run_id
LEFT JOIN fault_windows AS f
  ON f.run_id = m.run_id AND f.verified_at < m.at + INTERVAL 1 SECOND
  AND coalesce(f.recovered_at, f.healed_at, m.at) >= m.at
WHERE m.place = 1
GROUP BY r.configuration_name, m.run_id, m.at, m.sent, m.acked, m.availability
ORDER BY m.run_id;
