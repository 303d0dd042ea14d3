-- Results of each configuration in order of time: a row for each commit of the tested project, and for
-- runs without a commit a row for each day. Order it by first_started_at.
SELECT
  scenario, configuration, kafka_version, commit_id,
  coalesce(commit_id, CAST(day AS STRING)) AS version,
  min(started_at) AS first_started_at,
  count(*) AS runs,
  count_if(verdict = 'violated') AS violated,
  count_if(verdict = 'inconclusive') AS inconclusive,
  sum(acked) AS acked,
  sum(lost) AS lost,
  sum(duplicated) AS duplicated,
  avg(availability) AS availability,
  median(ack_latency_p99_ms) AS ack_latency_p99_ms
FROM (SELECT *, CASE WHEN commit_id IS NULL THEN run_date END AS day FROM {schema}runs)
GROUP BY scenario, configuration, kafka_version, commit_id, day
