-- Why did we lose? The causes of lost records of each configuration, with the report of an example.
SELECT
  scenario, configuration, kafka_version, case_id, title,
  runs, lost, example, example_report
FROM {schema}loss_causes
ORDER BY lost DESC, scenario, configuration, kafka_version, case_id;
