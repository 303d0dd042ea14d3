-- How much of what the model reaches explorations have passed through, a row for each and each step.
SELECT
  run_id AS exploration, scenario, kafka_version, limits, step,
  count(*) AS pairs,
  sum(CASE WHEN passed = 'certain' THEN 1 ELSE 0 END) AS pairs_certain,
  sum(CASE WHEN passed = 'possible' THEN 1 ELSE 0 END) AS pairs_possible,
  avg(CASE WHEN passed = 'certain' THEN 1.0D ELSE 0.0D END) AS pairs_certain_share
FROM {schema}explored_pairs
GROUP BY run_id, scenario, kafka_version, limits, step
