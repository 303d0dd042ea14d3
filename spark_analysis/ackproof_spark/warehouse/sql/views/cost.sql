-- Availability and latency of each configuration and Kafka version, over the runs whose times are known, some as upper bounds.
SELECT
  scenario, configuration, kafka_version,
  count(*) AS runs,
  avg(availability) AS availability,
  min(availability) AS availability_worst,
  max(CASE WHEN availability IS NOT NULL THEN unavailability_s END) AS unavailability_s_worst,
  median(ack_latency_p50_ms) AS ack_latency_p50_ms,
  median(ack_latency_p99_ms) AS ack_latency_p99_ms,
  avg(acked_per_s) AS acked_per_s
FROM {schema}runs
WHERE acked > 0
GROUP BY scenario, configuration, kafka_version
