-- How often and how much each configuration loses on each Kafka version. Inconclusive runs are
-- left out. The intervals are those of Wilson, 95 %.
--
-- runs_with_loss_share: of runs, which are independent of each other.
-- lost_share: of acked records, which are not independent, because one event loses many. Its interval
-- counts them as effective_records, the number of independent records that would vary from run to
-- run as much as these did (the design effect of survey statistics). Null with one run or without
-- any loss, because the variation is unknown then.
SELECT
  scenario, configuration, kafka_version,
  runs, runs_with_loss, runs_share AS runs_with_loss_share,
  greatest(0, runs_middle - runs_half) AS runs_with_loss_share_low,
  least(1, runs_middle + runs_half) AS runs_with_loss_share_high,
  acked, lost, lost_share, effective_records,
  -- greatest and least ignore a null
  CASE WHEN effective_records IS NOT NULL THEN greatest(0, lost_middle - lost_half) END
    AS lost_share_low,
  CASE WHEN effective_records IS NOT NULL THEN least(1, lost_middle + lost_half) END
    AS lost_share_high
FROM (
  SELECT *,
    (runs_share + z * z / (2 * runs)) / (1 + z * z / runs) AS runs_middle,
    z * sqrt(runs_share * (1 - runs_share) / runs + z * z / (4 * runs * runs))
      / (1 + z * z / runs) AS runs_half,
    (lost_share + z * z / (2 * effective_records)) / (1 + z * z / effective_records) AS lost_middle,
    z * sqrt(lost_share * (1 - lost_share) / effective_records
      + z * z / (4 * effective_records * effective_records))
      / (1 + z * z / effective_records) AS lost_half
  FROM (
    SELECT *,
      CASE WHEN runs > 1 AND lost > 0 AND lost < acked THEN
        CAST(greatest(runs, least(acked, coalesce(
          lost_share * (1 - lost_share) / nullif(spread, 0D), acked))) AS DOUBLE)
      END AS effective_records
    FROM (
      SELECT
        r.scenario, r.configuration, r.kafka_version, 1.959963984540054D AS z,
        count(*) AS runs,
        count_if(r.lost > 0) AS runs_with_loss,
        CAST(count_if(r.lost > 0) AS DOUBLE) / count(*) AS runs_share,
        g.acked, g.lost, g.lost_share,
        -- the variance of the share, with runs as the sampled units
        CASE WHEN count(*) > 1 THEN
          CAST(count(*) AS DOUBLE) / (count(*) - 1)
          * sum(power(r.lost - g.lost_share * r.acked, 2)) / power(g.acked, 2)
        END AS spread
      FROM {schema}runs AS r JOIN (
        SELECT scenario, configuration, kafka_version,
          sum(acked) AS acked, sum(lost) AS lost, CAST(sum(lost) AS DOUBLE) / sum(acked) AS lost_share
        FROM {schema}runs WHERE verdict <> 'inconclusive' AND acked > 0
        GROUP BY scenario, configuration, kafka_version
      ) AS g
        ON r.scenario = g.scenario AND r.configuration = g.configuration
        AND r.kafka_version = g.kafka_version
      WHERE r.verdict <> 'inconclusive' AND r.acked > 0
      GROUP BY r.scenario, r.configuration, r.kafka_version, g.acked, g.lost, g.lost_share
    )
  )
)
