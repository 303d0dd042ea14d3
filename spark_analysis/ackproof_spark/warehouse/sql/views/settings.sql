-- Settings, one row a setting of a run; the path begins with producer, broker, or topic and its name.
SELECT run_date, run_id, setting, element_at(settings, setting) AS setting_value
FROM {schema}runs LATERAL VIEW explode(map_keys(settings)) AS setting
