-- Records that are in the log more than once, for each configuration and Kafka version.
SELECT
  scenario, configuration, kafka_version,
  count(*) AS runs,
  count_if(duplicated > 0) AS runs_with_duplicates,
  sum(acked) AS acked,
  sum(duplicated) AS duplicated,
  1e6D * sum(duplicated) / sum(acked) AS duplicated_per_million_acked
FROM {schema}runs
WHERE verdict <> 'inconclusive' AND acked > 0
GROUP BY scenario, configuration, kafka_version
