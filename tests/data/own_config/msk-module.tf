module "kafka" {
  source                 = "terraform-aws-modules/msk-kafka-cluster/aws"
  kafka_version          = "3.9.x"
  number_of_broker_nodes = 6
  configuration_server_properties = {
    "min.insync.replicas" = 1
  }
}
