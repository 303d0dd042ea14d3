-- What watches of running clusters found, a row for each watch, partition and day.
SELECT
  watch, topic, partition_id, run_date,
  sum(CASE WHEN finding = 'lost' THEN records ELSE 0 END) AS lost_sends,
  sum(CASE WHEN finding = 'late' THEN records ELSE 0 END) AS late_sends,
  sum(CASE WHEN finding = 'doubled' THEN records ELSE 0 END) AS doubled_records,
  sum(CASE WHEN finding = 'reordered' THEN records ELSE 0 END) AS reordered_records,
  sum(CASE WHEN finding = 'undecided' THEN records ELSE 0 END) AS undecided_sends,
  max(found_at) AS last_found_at
FROM {schema}watch_findings
GROUP BY watch, topic, partition_id, run_date
