-- Why each configuration lost records: the causes, with the runs and the records of each. The case is
-- that of docs/explanation/forensics.md and docs/catalogue.
SELECT
  scenario, configuration, kafka_version, case_id, max(title) AS title,
  count(DISTINCT run_id) AS runs,
  sum(lost) AS lost,
  max(CASE WHEN place = 1 THEN sentence END) AS example,
  max(CASE WHEN place = 1 THEN run_id END) AS example_run_id,
  max(CASE WHEN place = 1 THEN report END) AS example_report
FROM (
  SELECT
    r.scenario, r.configuration, r.kafka_version, r.report,
    c.case_id, c.title, c.run_id, c.lost, c.sentence,
    row_number() OVER (
      PARTITION BY r.scenario, r.configuration, r.kafka_version, c.case_id
      ORDER BY c.lost DESC, c.run_id, c.sentence
    ) AS place
  FROM {schema}causes AS c JOIN {schema}runs AS r ON c.run_id = r.run_id
)
GROUP BY scenario, configuration, kafka_version, case_id
