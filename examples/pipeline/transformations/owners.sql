-- A table of your own, and one that joins both: who owns a configuration that loses records?
CREATE MATERIALIZED VIEW owners AS
SELECT * FROM VALUES ('acks=1', 'payments'), ('acks=all, min.insync.replicas=2', 'orders')
  AS owners (configuration, team);

CREATE MATERIALIZED VIEW losses_by_team AS
SELECT team, loss_by_day.configuration, sum(runs_with_loss) AS runs_with_loss, sum(runs) AS runs
FROM loss_by_day JOIN owners ON loss_by_day.configuration = owners.configuration
GROUP BY team, loss_by_day.configuration;
