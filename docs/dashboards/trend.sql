-- What changed from commit to commit of the project under test?
SELECT
  `commit`, configuration_name, kafka_version,
  runs, violated, inconclusive, lost, duplicated,
  round(100 * availability, 2) AS availability_percent,
  round(ack_latency_p99_ms, 1) AS ack_latency_p99_ms
FROM trend
ORDER BY first_started_at, configuration_name, kafka_version;
