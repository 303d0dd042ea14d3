-- Why did we lose? The causes of lost records of each configuration, with the report of an example.
SELECT
  scenario, configuration, kafka_version, case_id, title,
  runs, lost,
  round(100 * share_of_losses, 1) AS percent_of_losses,
  example, example_report
FROM {schema}loss_causes
ORDER BY lost DESC, scenario, configuration, kafka_version, case_id;
