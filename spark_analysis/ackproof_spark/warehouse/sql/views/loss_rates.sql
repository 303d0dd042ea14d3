-- How often each configuration loses on each Kafka version, with the interval of Wilson, 95 %, and how
-- many records in a run that lost. Inconclusive runs count if they lost. There is no share of records:
-- one event loses many at once, and some faults set how many.
SELECT
  scenario, configuration, kafka_version, runs, runs_with_loss,
  share AS runs_with_loss_share,
  CASE WHEN runs_with_loss = 0 THEN 0 ELSE middle - half END AS runs_with_loss_share_low,
  CASE WHEN runs_with_loss = runs THEN 1 ELSE middle + half END AS runs_with_loss_share_high,
  sent, acked, lost, lost_median, lost_least, lost_most
FROM (
  SELECT *,
    (share + z * z / (2 * runs)) / (1 + z * z / runs) AS middle,
    z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs) AS half
  FROM (
    SELECT
      scenario, configuration, kafka_version, 1.959963984540054D AS z,
      count(*) AS runs,
      count_if(lost > 0) AS runs_with_loss,
      CAST(count_if(lost > 0) AS DOUBLE) / count(*) AS share,
      sum(sent) AS sent, sum(acked) AS acked, sum(lost) AS lost,
      median(CASE WHEN lost > 0 THEN lost END) AS lost_median,
      min(CASE WHEN lost > 0 THEN lost END) AS lost_least,
      max(lost) AS lost_most
    FROM {schema}runs
    WHERE (verdict <> 'inconclusive' OR lost > 0) AND acked > 0
    GROUP BY scenario, configuration, kafka_version
  )
)
