-- Every fault: how long it held, and how long the cluster took to recover after it was healed.
-- Null: the fault was not verified or not healed, or no recovery was observed.
SELECT
  r.run_id, r.scenario, r.configuration, r.kafka_version, r.started_at,
  r.report, f.fault_number, f.fault, f.target, f.verified,
  f.injected_at, f.verified_at, f.healed_at, f.recovered_at,
  (unix_micros(f.healed_at) - unix_micros(f.verified_at)) / 1e6D AS held_s,
  (unix_micros(f.recovered_at) - unix_micros(f.healed_at)) / 1e6D AS recovery_s
FROM {schema}fault_windows AS f JOIN {schema}runs AS r ON f.run_id = r.run_id
