-- Which configurations lose acknowledged records, in how many runs (with the 95 % interval), and how many?
SELECT
  scenario, configuration, kafka_version,
  runs, runs_with_loss,
  round(100 * runs_with_loss_share_low, 1) AS runs_with_loss_low_percent,
  round(100 * runs_with_loss_share_high, 1) AS runs_with_loss_high_percent,
  sent, acked, lost, lost_median, lost_least, lost_most
FROM {schema}loss_rates
ORDER BY runs_with_loss_share DESC, lost DESC, scenario, configuration, kafka_version;
