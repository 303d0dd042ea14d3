-- Which configurations write records more than once?
SELECT
  scenario, configuration, kafka_version,
  runs, runs_with_duplicates, acked, duplicated, duplicated_most
FROM {schema}duplicates
ORDER BY duplicated_most DESC, scenario, configuration, kafka_version;
