-- What changed from commit to commit of the project under test, or from day to day without commits?
SELECT
  version, scenario, configuration, kafka_version,
  runs, violated, inconclusive, lost, duplicated,
  round(100 * availability, 2) AS availability_percent,
  round(ack_latency_p99_ms, 1) AS ack_latency_p99_ms
FROM {schema}trend
ORDER BY first_started_at, scenario, configuration, kafka_version;
