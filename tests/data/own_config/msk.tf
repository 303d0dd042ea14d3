resource "aws_msk_configuration" "this" {
  kafka_versions    = ["3.5.1"]
  name              = "this"
  server_properties = <<-EOT
    auto.create.topics.enable = false
    unclean.leader.election.enable = false
    min.insync.replicas = 2
  EOT
}
resource "aws_msk_cluster" "this" {
  cluster_name           = "this"
  kafka_version          = "3.5.1"
  number_of_broker_nodes = 6
  configuration_info {
    arn      = aws_msk_configuration.this.arn
    revision = aws_msk_configuration.this.latest_revision
  }
}
