-- What does durability cost? Availability (of the worst partition) and latency side by side.
SELECT
  scenario, configuration, kafka_version, runs,
  round(100 * availability, 2) AS availability_percent,
  round(100 * availability_worst, 2) AS availability_worst_percent,
  round(unavailability_s_worst, 2) AS unavailability_s_worst,
  round(ack_latency_p50_ms, 2) AS ack_latency_p50_ms,
  round(ack_latency_p99_ms, 1) AS ack_latency_p99_ms,
  round(acked_per_s, 0) AS acked_per_s
FROM {schema}cost
ORDER BY scenario, configuration, kafka_version;
