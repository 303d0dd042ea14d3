# Two topics
variable "replicas" {
  default = 3
}
resource "kafka_topic" "orders" {
  name               = "orders"
  replication_factor = var.replicas
  partitions         = 12
  config = {
    "min.insync.replicas" = "2"
    "cleanup.policy"      = "delete"
  }
}
resource "confluent_kafka_topic" "clicks" {
  kafka_cluster { id = confluent_kafka_cluster.main.id }
  topic_name       = "clicks"
  partitions_count = var.partitions
  config           = { "min.insync.replicas" = 1 }
  credentials {
    key    = var.key
    secret = "s3cret"
  }
}
