-- Results for each commit of the tested project and each configuration. Runs without a commit are
-- left out. Order it by first_started_at.
SELECT
  scenario, configuration_name, kafka_version, `commit`,
  min(started_at) AS first_started_at,
  count(*) AS runs,
  count_if(verdict = 'violated') AS violated,
  count_if(verdict = 'inconclusive') AS inconclusive,
  sum(acked) AS acked,
  sum(lost) AS lost,
  CAST(sum(lost) AS DOUBLE) / nullif(sum(acked), 0) AS lost_share,
  sum(duplicated) AS duplicated,
  avg(availability) AS availability,
  median(ack_latency_p99_ms) AS ack_latency_p99_ms
FROM runs
WHERE `commit` IS NOT NULL
GROUP BY scenario, configuration_name, kafka_version, `commit`
