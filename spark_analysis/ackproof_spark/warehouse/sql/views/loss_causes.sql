-- Why each configuration lost records: the causes, with the runs and the records of each. The case is
-- that of docs/explanation/forensics.md and docs/catalogue. Inconclusive runs are left out.
SELECT
  r.scenario, r.configuration, r.kafka_version, c.case_id, first(c.title) AS title,
  count(DISTINCT c.run_id) AS runs,
  sum(c.lost) AS lost,
  CAST(sum(c.lost) AS DOUBLE) / sum(sum(c.lost)) OVER (
    PARTITION BY r.scenario, r.configuration, r.kafka_version
  ) AS share_of_losses,
  max_by(c.sentence, c.lost) AS example,
  max_by(c.run_id, c.lost) AS example_run_id,
  max_by(r.report, c.lost) AS example_report
FROM {schema}causes AS c JOIN {schema}runs AS r ON c.run_id = r.run_id
WHERE r.verdict <> 'inconclusive'
GROUP BY r.scenario, r.configuration, r.kafka_version, c.case_id
