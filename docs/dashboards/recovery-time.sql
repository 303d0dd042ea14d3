-- How long does the cluster take to recover from each kind of fault, once it is healed?
SELECT
  fault, configuration_name, kafka_version,
  count(*) AS faults,
  count_if(recovery_s IS NULL) AS never_recovered,
  round(median(held_s), 3) AS held_s_median,
  round(median(recovery_s), 3) AS recovery_s_median,
  round(max(recovery_s), 3) AS recovery_s_longest
FROM recovery_times
WHERE verified
GROUP BY fault, configuration_name, kafka_version
ORDER BY fault, configuration_name, kafka_version;
