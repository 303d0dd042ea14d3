-- Why each configuration lost records: the causes, with the runs and the records of each. The case is
-- that of docs/explanation/forensics.md and docs/catalogue.
SELECT
  r.scenario, r.configuration, r.kafka_version, c.case_id, first(c.title) AS title,
  count(DISTINCT c.run_id) AS runs,
  sum(c.lost) AS lost,
  max_by(c.sentence, c.lost) AS example,
  max_by(c.run_id, c.lost) AS example_run_id,
  max_by(r.report, c.lost) AS example_report
FROM {schema}causes AS c JOIN {schema}runs AS r ON c.run_id = r.run_id
GROUP BY r.scenario, r.configuration, r.kafka_version, c.case_id
