-- Which configurations write records more than once?
SELECT
  scenario, configuration, kafka_version,
  runs, runs_with_duplicates, acked, duplicated,
  round(duplicated_per_million_acked, 1) AS duplicated_per_million_acked
FROM {schema}duplicates
ORDER BY duplicated_per_million_acked DESC, scenario, configuration, kafka_version;
