-- Settings, one row a setting of a run; the path begins with producer, broker, or topic and its name.
SELECT run_date, run_id, setting, setting_value
FROM {schema}runs LATERAL VIEW explode(settings) AS setting, setting_value
