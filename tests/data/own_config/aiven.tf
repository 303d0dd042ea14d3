resource "aiven_kafka" "k" {
  project = var.project
  kafka_user_config {
    kafka_version = "3.7"
    kafka {
      min_insync_replicas = 1
    }
  }
}
resource "aiven_kafka_topic" "orders" {
  topic_name  = "orders"
  partitions  = 5
  replication = 2
  config {
    unclean_leader_election_enable = true
    cleanup_policy                 = "compact"
  }
}
