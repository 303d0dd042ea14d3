job "kafka" {
  datacenters = ["dc1"]
  group "kafka" {
    count = 3
    task "kafka" {
      driver = "docker"
      config {
        image = "confluentinc/cp-kafka:7.5.0"
      }
      env {
        KAFKA_BROKER_ID = "1"
        KAFKA_ZOOKEEPER_CONNECT = "zk:2181"
        KAFKA_MIN_INSYNC_REPLICAS = "2"
        KAFKA_DEFAULT_REPLICATION_FACTOR = "3"
      }
    }
  }
}
