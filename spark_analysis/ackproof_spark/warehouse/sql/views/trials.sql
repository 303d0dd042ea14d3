-- Runs that are trials of a comparison, one row a run.
SELECT run_date, run_id, comparison, scenario, configuration, trial
FROM {schema}runs
WHERE comparison IS NOT NULL
