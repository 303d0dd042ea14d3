"""What outputs of runs and of audits share: pages, JUnit XML, annotations of GitHub."""
