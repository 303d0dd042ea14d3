-- How long does the cluster take to recover from each kind of fault, once it is healed?
SELECT
  scenario, configuration, kafka_version, fault,
  count(*) AS faults,
  count_if(healed_at IS NOT NULL AND recovery_s IS NULL) AS recovery_not_observed,
  round(median(held_s), 3) AS held_s_median,
  round(median(recovery_s), 3) AS recovery_s_median,
  round(max(recovery_s), 3) AS recovery_s_longest
FROM {schema}recovery_times
WHERE verified
GROUP BY scenario, configuration, kafka_version, fault
ORDER BY scenario, configuration, kafka_version, fault;
