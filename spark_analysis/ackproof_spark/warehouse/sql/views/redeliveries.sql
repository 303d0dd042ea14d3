-- What share groups got, got again and acknowledged, for each configuration and Kafka version.
SELECT
  r.scenario, r.configuration, r.kafka_version, g.consumer_group,
  count(DISTINCT g.run_id) AS runs,
  sum(g.records) AS records,
  sum(g.deliveries) - sum(g.records) AS further_deliveries,
  max(g.deliveries_most) AS deliveries_most,
  sum(g.accepted) AS accepted,
  sum(g.rejected) AS rejected,
  sum(g.refused) AS refused
FROM {schema}share_groups AS g
JOIN {schema}runs AS r ON g.run_id = r.run_id
GROUP BY r.scenario, r.configuration, r.kafka_version, g.consumer_group
