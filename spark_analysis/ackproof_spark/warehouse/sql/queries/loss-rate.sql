-- Which configurations lose acknowledged records, how often and how much, with 95 % intervals?
-- The comments of the view loss_rates in views.sql define the intervals.
SELECT
  scenario, configuration, kafka_version,
  runs, runs_with_loss,
  round(100 * runs_with_loss_share_low, 1) AS runs_with_loss_low_percent,
  round(100 * runs_with_loss_share_high, 1) AS runs_with_loss_high_percent,
  acked, lost,
  round(100 * lost_share, 3) AS lost_percent,
  round(100 * lost_share_low, 3) AS lost_low_percent,
  round(100 * lost_share_high, 3) AS lost_high_percent
FROM {schema}loss_rates
ORDER BY lost_share DESC, scenario, configuration, kafka_version;
