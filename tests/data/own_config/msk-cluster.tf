resource "aws_msk_cluster" "this" {
  cluster_name           = "this"
  kafka_version          = "3.5.1"
  number_of_broker_nodes = 6
  broker_node_group_info {
    az_distribution = "DEFAULT"
    client_subnets = [aws_subnet.a.id, aws_subnet.b.id]
    storage_info {
      ebs_storage_info {
        volume_size = 100
      }
    }
  }
}
