-- Records that are in the log more than once, for each configuration and Kafka version. Inconclusive
-- runs count if they have any.
SELECT
  scenario, configuration, kafka_version,
  count(*) AS runs,
  count_if(duplicated > 0) AS runs_with_duplicates,
  sum(acked) AS acked,
  sum(duplicated) AS duplicated,
  max(duplicated) AS duplicated_most
FROM {schema}runs
WHERE (verdict <> 'inconclusive' OR duplicated > 0) AND acked > 0
GROUP BY scenario, configuration, kafka_version
