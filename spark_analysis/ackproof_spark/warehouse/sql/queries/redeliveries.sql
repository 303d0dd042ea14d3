-- Which share groups get records again?
SELECT
  scenario, configuration, kafka_version, consumer_group,
  runs, records, further_deliveries, deliveries_most, accepted, rejected, refused
FROM {schema}redeliveries
ORDER BY further_deliveries DESC, scenario, configuration, kafka_version, consumer_group;
