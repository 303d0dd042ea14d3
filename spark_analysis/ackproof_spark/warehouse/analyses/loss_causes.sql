-- Why each configuration lost records: the causes, with the runs and the records of each. The case is
-- that of docs/explanation/forensics.md and docs/catalogue. Inconclusive runs are left out.
SELECT
  r.scenario, r.configuration_name, r.kafka_version, c.`case`, first(c.title) AS title,
  count(DISTINCT c.run_id) AS runs,
  sum(c.count) AS lost,
  CAST(sum(c.count) AS DOUBLE) / sum(sum(c.count)) OVER (
    PARTITION BY r.scenario, r.configuration_name, r.kafka_version
  ) AS share_of_losses,
  max_by(c.sentence, c.count) AS example,
  max_by(c.run_id, c.count) AS example_run_id,
  max_by(r.report, c.count) AS example_report
FROM causes AS c JOIN runs AS r ON c.run_id = r.run_id
WHERE r.verdict <> 'inconclusive'
GROUP BY r.scenario, r.configuration_name, r.kafka_version, c.`case`
